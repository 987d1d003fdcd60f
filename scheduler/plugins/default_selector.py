"""Which pods belong together with a pod, by its services and its controller."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.limits import MOST_SELECTOR_ENTRIES, more_entries_than
from scheduler.model.meta import ObjectMeta, OwnerReference
from scheduler.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import (
    Requirement,
    Selector,
    SelectorError,
    compile_label_selector,
    compile_set,
)
from scheduler.state.objects import ObjectStore

Labels = Mapping[str, str]
_Place = tuple[str, str, str]
"""A namespace, and a label and its value."""
MOST_SERVICE_ENTRIES = 4096
"""Entries of all selectors that a pod's labels are compared with. Whoever may create services may
create any number of them, for pods with a thousand labels."""


class _Filed:
    """The selectors of services in one place, by the service's key."""

    __slots__ = ("entries", "selectors")

    def __init__(self) -> None:
        self.entries = 0
        """How many all of them have."""
        self.selectors: dict[str, Labels] = {}

    def put(self, key: str, selector: Labels) -> None:
        self.drop(key)
        self.selectors[key] = selector
        self.entries += len(selector)

    def drop(self, key: str) -> None:
        self.entries -= len(self.selectors.pop(key, ()))


class DefaultSelector:
    """Derives a selector from the services that select a pod and the controller that owns it.

    Costs a lookup per label of the pod, and O(1) per change of a service: otherwise a change of one
    would make the next pod, of any namespace, pay for all services of the cluster. Nothing is
    indexed before the first pod. A controller's selector that is too long is left out, since each
    of its pods would pay for it, and so are all services if too many come into question.
    """

    KINDS = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")
    """What must be watched for it to work."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._services: dict[_Place, _Filed] | None = None
        """The selectors of services, by the first label of each."""
        objects.subscribe(Service, self._on_service)

    def of(self, pod: PodInfo) -> Selector:
        """The selector; without requirements if nothing selects the pod."""
        metadata = pod.pod.metadata
        labels = self.service_labels(metadata)
        owner = metadata.controller
        if owner is not None:
            labels |= self._controller_labels(metadata.namespace, owner)
        requirements = compile_set(labels)
        if owner is not None:
            also = self._set_requirements(metadata.namespace, owner)
            requirements = tuple(dict.fromkeys((*requirements, *also)))
        return Selector(requirements)

    def service_labels(self, metadata: ObjectMeta) -> dict[str, str]:
        """The labels that all services of the pod select by; they are all the pod's own.

        None if the selectors to compare have more than `MOST_SERVICE_ENTRIES`: whether that is so
        does not depend on the order in which services came.
        """
        if self._services is None:
            self._services = {}
            for name, service in self._objects.all(Service).items():
                self._file(self._services, name, service)
        if not self._services:
            return {}
        items = metadata.labels.items()  # of many labels: each call decodes them
        found = []
        for key, value in items:
            filed = self._services.get((metadata.namespace, key, value))
            if filed is not None:
                found.append(filed)
        if not found or sum([filed.entries for filed in found]) > MOST_SERVICE_ENTRIES:
            return {}
        merged: dict[str, str] = {}
        for filed in found:
            for selector in filed.selectors.values():
                if selector.items() <= items:
                    merged |= selector
        return merged

    def _on_service(self, key: str, old: Service | None, new: Service | None) -> None:
        if self._services is None:
            return
        if old is not None and (place := _place(old)) in self._services:
            filed = self._services[place]
            filed.drop(key)
            if not filed.selectors:
                del self._services[place]
        if new is not None:
            self._file(self._services, key, new)

    @staticmethod
    def _file(services: dict[_Place, _Filed], key: str, service: Service) -> None:
        """File a service under one label of its selector; one without a selector is left out."""
        if service.spec.selector:
            services.setdefault(_place(service), _Filed()).put(key, service.spec.selector)

    def _controller_labels(self, namespace: str, owner: OwnerReference) -> Labels:
        """What a replication controller selects by; it overrules services."""
        if (owner.api_version, owner.kind) != ("v1", "ReplicationController"):
            return {}
        controller = self._objects.get(ReplicationController, f"{namespace}/{owner.name}")
        if controller is None or len(controller.spec.selector) > MOST_SELECTOR_ENTRIES:
            return {}
        return controller.spec.selector

    def _set_requirements(self, namespace: str, owner: OwnerReference) -> tuple[Requirement, ...]:
        """What a replica set or stateful set requires, besides services."""
        key = f"{namespace}/{owner.name}"
        found: ReplicaSet | StatefulSet | None = None
        match owner.api_version, owner.kind:
            case "apps/v1", "ReplicaSet":
                found = self._objects.get(ReplicaSet, key)
            case "apps/v1", "StatefulSet":
                found = self._objects.get(StatefulSet, key)
        if found is None or more_entries_than(MOST_SELECTOR_ENTRIES, found.spec.selector):
            return ()
        try:
            return compile_label_selector(found.spec.selector, "spec.selector").requirements
        except SelectorError:  # not the pod's mistake; its services still count
            return ()


def _place(service: Service) -> _Place:
    """Where a service is filed: any pod that it selects has this label."""
    key, value = next(iter(service.spec.selector.items()), ("", ""))
    return service.metadata.namespace, key, value
