"""Which evictions violate a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector, SelectorError, compile_label_selector
from scheduler.model.workloads import PodDisruptionBudget
from scheduler.state.objects import ObjectStore

_Place = tuple[str, tuple[str, str] | None]
"""A namespace, and a label that matching pods have."""


class _Budget(msgspec.Struct, frozen=True):
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """``status.disruptedPods``: pods whose eviction was granted already do not count again."""
    place: _Place


_NO_BUDGETS: dict[str, _Budget] = {}


class Budgets:
    """All PodDisruptionBudgets, compiled once per change.

    A pod is compared with the budgets of its namespace that require a label which it has, and with
    those that require no certain value of any label.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._changed = set(objects.all(PodDisruptionBudget))
        self._known: dict[str, _Budget] = {}
        self._by_label: dict[_Place, dict[str, _Budget]] = {}
        objects.subscribe(PodDisruptionBudget, self._note)

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Pods whose eviction violates a budget, and the others, both in the given order.

        Every pod takes from each budget that it matches, so the first pods are granted first.
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

    def _matching(self, pod: PodInfo) -> Iterator[_Budget]:
        metadata = pod.pod.metadata
        if not metadata.labels or not self._by_label:
            return
        namespace = metadata.namespace
        for label in (None, *metadata.labels.items()):
            for budget in self._by_label.get((namespace, label), _NO_BUDGETS).values():
                if metadata.name in budget.disrupted:
                    continue
                if budget.selector.matches(metadata.labels):
                    yield budget

    def _note(self, key: str, old: object, new: object) -> None:
        self._changed.add(key)

    def _compile(self) -> None:
        while self._changed:
            key = self._changed.pop()
            if (known := self._known.pop(key, None)) is not None:
                there = self._by_label[known.place]
                del there[key]
                if not there:
                    del self._by_label[known.place]
            budget = self._objects.get(PodDisruptionBudget, key)
            compiled = None if budget is None else _compiled(budget)
            if compiled is not None:
                self._known[key] = compiled
                self._by_label.setdefault(compiled.place, {})[key] = compiled


def _compiled(budget: PodDisruptionBudget) -> _Budget | None:
    """None for a budget that matches no pod: its selector is missing, empty or invalid."""
    try:
        selector = compile_label_selector(budget.spec.selector, "spec.selector")
    except SelectorError:
        return None
    if selector.nothing or not selector.requirements:
        return None
    status = budget.status
    place = (budget.metadata.namespace, _label_of(selector))
    disrupted = frozenset(status.disrupted_pods)
    return _Budget(selector, status.disruptions_allowed, disrupted, place)


def _label_of(selector: Selector) -> tuple[str, str] | None:
    """A label that all matching pods have; None if there is no such label."""
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None
