"""Which resources the embedded API server has: the built-in table, and what CRDs add to it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scheduler.model.objects import KINDS

STATUS = ("status",)


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource: its address, and the few traits in which kinds differ.

    Resources that share a `table` show the same objects in different versions.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[str, ...] = ()
    counts_generations: bool = False
    """The server keeps `metadata.generation`: 1 at creation, one more per change of the spec."""
    unconditional_update: bool = True
    """A PUT may leave out `metadata.resourceVersion`."""
    create_on_update: bool = False
    """A PUT may create."""
    returns_deleted: bool = False
    """DELETE answers with the object instead of a `Status`."""
    keeps_status_on_create: bool = False
    """The creator may set the status (nodes, or kinds without a status subresource)."""
    custom: bool = False
    """Comes from a CRD."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def table(self) -> str:
        if self.plural == "events" and self.group in {"", "events.k8s.io"}:
            return "events"
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def verbs(self) -> list[str]:
        return ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def _core(plural: str, kind: str, namespaced: bool = True, **traits: Any) -> Resource:
    return Resource("", "v1", plural, kind, namespaced, **traits)


def _storage(plural: str, kind: str, namespaced: bool = False, **traits: Any) -> Resource:
    return Resource("storage.k8s.io", "v1", plural, kind, namespaced, **traits)


def _workload(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, True, STATUS, counts_generations=True)


_LISTED: tuple[Resource, ...] = (
    _core("namespaces", "Namespace", False, subresources=STATUS, returns_deleted=True),
    _core("nodes", "Node", False, subresources=STATUS, keeps_status_on_create=True),
    _core(
        "pods",
        "Pod",
        subresources=("binding", "status"),
        counts_generations=True,
        returns_deleted=True,
    ),
    _core("services", "Service", subresources=STATUS, create_on_update=True, returns_deleted=True),
    _core("configmaps", "ConfigMap"),
    _core("serviceaccounts", "ServiceAccount", returns_deleted=True),
    _core(
        "persistentvolumes", "PersistentVolume", False, subresources=STATUS, returns_deleted=True
    ),
    _core(
        "persistentvolumeclaims", "PersistentVolumeClaim", subresources=STATUS, returns_deleted=True
    ),
    _core(
        "replicationcontrollers",
        "ReplicationController",
        subresources=STATUS,
        counts_generations=True,
    ),
    _core("events", "Event", create_on_update=True),
    Resource("events.k8s.io", "v1", "events", "Event", True, create_on_update=True),
    _workload("apps", "deployments", "Deployment"),
    _workload("apps", "replicasets", "ReplicaSet"),
    _workload("apps", "statefulsets", "StatefulSet"),
    _workload("apps", "daemonsets", "DaemonSet"),
    _workload("batch", "jobs", "Job"),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        STATUS,
        counts_generations=True,
        unconditional_update=False,
    ),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        False,
        counts_generations=True,
    ),
    Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        True,
        unconditional_update=False,
        create_on_update=True,
    ),
    _storage("storageclasses", "StorageClass", returns_deleted=True),
    _storage("csinodes", "CSINode", unconditional_update=False, returns_deleted=True),
    _storage("csidrivers", "CSIDriver", unconditional_update=False, returns_deleted=True),
    _storage("csistoragecapacities", "CSIStorageCapacity", True, unconditional_update=False),
    _storage(
        "volumeattachments",
        "VolumeAttachment",
        subresources=STATUS,
        unconditional_update=False,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        True,
        STATUS,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, returns_deleted=True
    ),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, returns_deleted=True),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        STATUS,
        counts_generations=True,
    ),
)


def _watched() -> Iterator[Resource]:
    """Kinds that the scheduler watches and that have no entry above, with the usual traits."""
    listed = {resource.kind for resource in _LISTED}
    for kind in KINDS.values():
        if not kind.optional and kind.name not in listed:
            *group, version, plural = kind.path.removeprefix("/").split("/")
            yield Resource("".join(group[1:]), version, plural, kind.name, kind.namespaced, STATUS)


BUILT_IN: tuple[Resource, ...] = (*_LISTED, *_watched())


def defined_by(crd: dict[str, Any]) -> list[Resource]:
    """The resources a CustomResourceDefinition serves, one per served version."""
    spec = crd["spec"]
    return [
        Resource(
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            spec.get("scope") == "Namespaced",
            STATUS if "status" in (version.get("subresources") or {}) else (),
            counts_generations=True,
            unconditional_update=False,
            custom=True,
        )
        for version in spec["versions"]
        if version.get("served")
    ]


class Catalog:
    """The served resources by address. Lookups are one dictionary access."""

    def __init__(self, resources: Iterable[Resource] = BUILT_IN) -> None:
        self._by_address: dict[tuple[str, str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource from now on, replacing one at the same address."""
        self._by_address[resource.group, resource.version, resource.plural] = resource

    def withdraw(self, table: str) -> None:
        """Serve no version of this table any more."""
        self._by_address = {
            address: resource
            for address, resource in self._by_address.items()
            if resource.table != table
        }

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at this address, if there is one."""
        return self._by_address.get((group, version, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_address.values())

    # Discovery: the documents under /api and /apis.

    def versions(self) -> dict[str, list[str]]:
        """Group → its versions in the order they were added, the core group left out."""
        found: dict[str, list[str]] = {}
        for resource in self:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        found.pop("", None)
        return found

    def group_list(self) -> dict[str, Any]:
        """The body of `/apis`."""
        groups = [self.group(name) for name in self.versions()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> dict[str, Any] | None:
        """The body of `/apis/<group>`, if the group exists."""
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for version in self.versions().get(name, ())
        ]
        if not versions:
            return None
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": name,
            "versions": versions,
            "preferredVersion": versions[0],
        }

    def resource_list(self, group: str, version: str) -> dict[str, Any] | None:
        """The body of `/api/v1` or `/apis/<group>/<version>`, if it exists."""
        entries: list[dict[str, Any]] = []
        for resource in self:
            if (resource.group, resource.version) != (group, version):
                continue
            entry = {
                "name": resource.plural,
                "singularName": resource.kind.lower(),
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": resource.verbs,
            }
            entries.append(entry)
            for name in resource.subresources:
                binding = name == "binding"
                entries.append(
                    {
                        "name": f"{resource.plural}/{name}",
                        "singularName": "",
                        "namespaced": resource.namespaced,
                        "kind": "Binding" if binding else resource.kind,
                        "verbs": ["create"] if binding else ["get", "patch", "update"],
                    }
                )
        if not entries:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": entries,
        }
