"""Which kind has which columns, and the `Table` of objects."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sandbox.printing import events, nodes, others, pods, storage, workloads
from sandbox.printing.column import CREATED, NAME, Column, at
from sandbox.printing.durations import age
from sandbox.resources import PrinterColumn, Resource
from sandbox.store import Body, Version
from sandbox.views import present

Document = dict[str, Any]

COLUMNS: dict[str, tuple[Column, ...]] = {
    "namespaces": others.NAMESPACES,
    "nodes": nodes.NODES,
    "pods": pods.PODS,
    "services": others.SERVICES,
    "endpoints": others.ENDPOINTS,
    "configmaps": others.CONFIG_MAPS,
    "secrets": others.SECRETS,
    "serviceaccounts": others.NAMED,
    "persistentvolumes": storage.PERSISTENT_VOLUMES,
    "persistentvolumeclaims": storage.PERSISTENT_VOLUME_CLAIMS,
    "replicationcontrollers": workloads.REPLICATION_CONTROLLERS,
    "events": events.EVENTS,
    "deployments.apps": workloads.DEPLOYMENTS,
    "replicasets.apps": workloads.REPLICA_SETS,
    "statefulsets.apps": workloads.STATEFUL_SETS,
    "daemonsets.apps": workloads.DAEMON_SETS,
    "controllerrevisions.apps": workloads.CONTROLLER_REVISIONS,
    "jobs.batch": workloads.JOBS,
    "cronjobs.batch": workloads.CRON_JOBS,
    "poddisruptionbudgets.policy": others.POD_DISRUPTION_BUDGETS,
    "priorityclasses.scheduling.k8s.io": others.PRIORITY_CLASSES,
    "leases.coordination.k8s.io": others.LEASES,
    "ingresses.networking.k8s.io": others.INGRESSES,
    "storageclasses.storage.k8s.io": storage.STORAGE_CLASSES,
    "volumeattachments.storage.k8s.io": storage.VOLUME_ATTACHMENTS,
    "csinodes.storage.k8s.io": storage.CSI_NODES,
    "resourceclaims.resource.k8s.io": storage.RESOURCE_CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": others.NAMED,
    "resourceslices.resource.k8s.io": storage.RESOURCE_SLICES,
    "deviceclasses.resource.k8s.io": others.NAMED,
}
_PLAIN = (NAME, CREATED)
"""Built-in kinds without columns of their own."""


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The columns of a kind."""
    if not resource.custom:
        return COLUMNS.get(resource.table, _PLAIN)
    listed = resource.columns or (PrinterColumn("Age", "date", ".metadata.creationTimestamp"),)
    return (NAME, *map(_printed, listed))


def _printed(column: PrinterColumn) -> Column:
    """A column of a CRD; times are shown as ages."""
    path = column.path.removeprefix(".")

    def cell(body: Body, now: datetime) -> Any:
        found = at(body, path)
        if column.type == "date":
            return age(found, now)
        return found if isinstance(found, int | float | None) else str(found)

    return Column(column.name, cell, column.type, wide=column.priority > 0)


class TableView:
    """Objects of one kind as rows; `include` says what each row brings of its object."""

    def __init__(self, resource: Resource, include: str = "Metadata") -> None:
        self._resource = resource
        self._columns = columns_of(resource)
        self._include = include or "Metadata"

    def table(
        self,
        versions: Iterable[Version],
        metadata: Document,
        now: datetime,
        *,
        headed: bool = True,
    ) -> Document:
        """The table of these objects; a watch sends the headings only once."""
        definitions = [column.definition() for column in self._columns] if headed else []
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": [self._row(version.body, now) for version in versions],
        }

    def _row(self, body: Body, now: datetime) -> Document:
        row: Document = {"cells": [column.cell(body, now) for column in self._columns]}
        if self._include == "Object":
            row["object"] = present(self._resource, body)
        elif self._include != "None":
            row["object"] = partial(body)
        return row


def partial(body: Body) -> Document:
    """An object's metadata alone."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**head, "metadata": body["metadata"]}
