"""How many pods of a PodDisruptionBudget may be disrupted: preemption reads it in the status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sandbox.controllers.templates import Number, is_active, is_ready, shape, share
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version
from scheduler.model.meta import LabelSelector, Struct
from scheduler.model.selectors import compile_label_selector


class _BudgetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    min_available: Number | None = None
    max_unavailable: Number | None = None


class DisruptionBudgets:
    """The controller of PodDisruptionBudgets; it counts pods that exist as expected."""

    concerned_by: tuple[str, ...] = ("pods",)
    finalizes = False

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pods = registry.table(registry.builtin("pods"))

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("poddisruptionbudgets", "policy")

    def sync(self, owner: Version) -> float | None:
        spec: _BudgetSpec = shape(owner, _BudgetSpec)
        pods = list(self._selected(owner, spec))
        healthy = sum(map(is_ready, pods))
        if spec.max_unavailable is not None:
            wanted = len(pods) - share(spec.max_unavailable, len(pods), up=True)
        else:
            wanted = share(spec.min_available or 0, len(pods), up=True)
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": max(0, wanted),
            "expectedPods": len(pods),
            "disruptionsAllowed": max(0, healthy - max(0, wanted)),
            "observedGeneration": owner.body["metadata"].get("generation"),
        }
        version = {"resourceVersion": owner.body["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "status": status}
        self._registry.patch(self.resource, owner.key, MERGE, patch, "status")
        return None

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """All of them."""
        return self._registry.table(self.resource).current

    def forget(self, uid: str) -> None:
        """Nothing is kept of a budget."""

    def _selected(self, owner: Version, spec: _BudgetSpec) -> Iterator[Version]:
        selector = compile_label_selector(spec.selector, "spec.selector")
        for pod in self._pods.current.values():
            labels = pod.body["metadata"].get("labels") or {}
            if pod.key[0] == owner.key[0] and is_active(pod) and selector.matches(labels):
                yield pod
