"""Which evictions no disruption budget allows."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector, SelectorError, compile_label_selector
from scheduler.model.workloads import PodDisruptionBudget
from scheduler.state.objects import ObjectStore


class _Budget(msgspec.Struct, frozen=True):
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Names of pods whose eviction was granted already: they do not count again."""


class Budgets:
    """All disruption budgets, compiled when they change."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._version = -1
        self._by_namespace: dict[str, list[_Budget]] = {}

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """The pods, in their order, that cannot all go without violation, and those that can.

        Every pod takes from each budget that it matches, so who comes first is granted first.
        """
        self._compile()
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            violated = False
            for budget in self._matching(pod):
                left[id(budget)] = left.get(id(budget), budget.allowed) - 1
                violated = violated or left[id(budget)] < 0
            (violating if violated else others).append(pod)
        return violating, others

    def _matching(self, pod: PodInfo) -> list[_Budget]:
        metadata = pod.pod.metadata
        if not metadata.labels:
            return []
        return [
            budget
            for budget in self._by_namespace.get(metadata.namespace, ())
            if metadata.name not in budget.disrupted and budget.selector.matches(metadata.labels)
        ]

    def _compile(self) -> None:
        version = self._objects.version(PodDisruptionBudget)
        if version == self._version:
            return
        self._version = version
        self._by_namespace.clear()
        for budget in self._objects.all(PodDisruptionBudget).values():
            compiled = _compiled(budget)
            if compiled is not None:
                self._by_namespace.setdefault(budget.metadata.namespace, []).append(compiled)


def _compiled(budget: PodDisruptionBudget) -> _Budget | None:
    """None for a budget that matches nothing: without selector, or with an empty or a bad one."""
    try:
        selector = compile_label_selector(budget.spec.selector, "spec.selector")
    except SelectorError:
        return None
    if selector.nothing or not selector.requirements:
        return None
    status = budget.status
    return _Budget(selector, status.disruptions_allowed, frozenset(status.disrupted_pods))
