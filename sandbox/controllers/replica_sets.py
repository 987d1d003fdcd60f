"""Keeps as many pods as a ReplicaSet asks for."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.controllers.ownership import Ownership
from sandbox.controllers.recorder import ControllerEvents
from sandbox.controllers.templates import (
    PodMaker,
    Selecting,
    is_active,
    is_available,
    is_ready,
    shape,
    until_available,
    worth,
)
from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version

_BURST = 20
"""Pods that one sync makes or deletes."""
_LARGEST_BURST = 200


class _ReplicaSetSpec(Selecting, frozen=True):
    replicas: int = 1


class ReplicaSets:
    """The controller of ReplicaSets."""

    concerned_by: tuple[str, ...] = ()
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._pods = PodMaker(registry, ownership)
        self._recorder = ControllerEvents(registry, "replicaset-controller")

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("replicasets", "apps")

    def sync(self, owner: Version) -> float | None:
        spec: _ReplicaSetSpec = shape(owner, _ReplicaSetSpec)
        active = [pod for pod in self._pods.of(owner) if is_active(pod)]
        missing = spec.replicas - len(active)
        # A large set takes larger steps, because counting it takes longer, too.
        burst = min(_LARGEST_BURST, max(_BURST, len(active) // 20))
        more = abs(missing) > burst
        try:
            if missing > 0:
                self._make(owner, min(missing, burst))
            elif missing < 0:
                active.sort(key=worth)
                surplus = min(-missing, burst)
                for pod in active[:surplus]:
                    self._delete(owner, pod)
                active = active[surplus:]
        finally:
            again = self._report(owner, spec, active)
        return 0.0 if more else again

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """Changes of other tables concern none of them."""
        return ()

    def forget(self, uid: str) -> None:
        """Nothing is kept of a ReplicaSet."""

    def _make(self, owner: Version, count: int) -> None:
        for _ in range(count):
            try:
                made = self._pods.make(owner.body)
            except ApiFailure as fault:
                self._recorder.warn(owner.body, "FailedCreate", f"Error creating: {fault}")
                raise
            message = f"Created pod: {made.key[1]}"
            self._recorder.normal(owner.body, "SuccessfulCreate", message)

    def _delete(self, owner: Version, pod: Version) -> None:
        self._pods.delete(pod)
        self._recorder.normal(owner.body, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")

    def _report(self, owner: Version, spec: _ReplicaSetSpec, active: list[Version]) -> float | None:
        now = self._registry.clock()
        ready = [pod for pod in active if is_ready(pod)]
        available = [pod for pod in ready if is_available(pod, spec.min_ready_seconds, now)]
        labels = spec.template.metadata.labels.items()
        status = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(
                labels <= (pod.body["metadata"].get("labels") or {}).items() for pod in active
            ),
            "readyReplicas": len(ready),
            "availableReplicas": len(available),
            "observedGeneration": owner.body["metadata"].get("generation"),
        }
        self._registry.patch(self.resource, owner.key, MERGE, {"status": status}, "status")
        return until_available(ready, spec.min_ready_seconds, now)
