"""Which evictions violate a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector, SelectorError, compile_label_selector
from scheduler.model.workloads import PodDisruptionBudget
from scheduler.slices import checkpoint
from scheduler.state.objects import ObjectStore

MOST_COMPARED = 32
"""With how many budgets one pod is compared. Evictions of pods for which more come into question
count as violations, so that nobody's budgets make the pods of others wait."""
_MOST_LABELS = 1024
"""How many labels of a pod are looked up, where so many budgets ask about as many keys."""
_FEW = 16
"""A requirement for one of so many values is worth filing a budget by."""

_Place = tuple[str, str, str]
"""A namespace, and a label that matching pods have."""


class _Budget(msgspec.Struct, frozen=True):
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """``status.disruptedPods``: pods whose eviction was granted already do not count again."""
    places: tuple[_Place, ...]
    """Where it is filed: matching pods have one of these labels."""


_File = dict[str, _Budget]
_NO_BUDGETS: _File = {}


class Budgets:
    """All PodDisruptionBudgets, compiled once per change.

    A pod is compared with the budgets of its namespace that require a label which it has, and with
    those that require no certain value of any label: `MOST_COMPARED` at most.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        # In an order that no hash decides: where a budget is filed depends on those before it.
        self._changed = dict.fromkeys(objects.all(PodDisruptionBudget))
        self._known: dict[str, _Budget] = {}
        self._by_label: dict[str, dict[str, dict[str, _File]]] = {}
        """By namespace, key and value."""
        objects.subscribe(PodDisruptionBudget, self._note)

    def compile(self) -> None:
        """Compile what has changed; the event loop may run meanwhile."""
        while self._changed:
            self._compile_next()
            checkpoint()

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Pods whose eviction violates a budget, and the others, both in the given order.

        Every pod takes from each budget that it matches, so the first pods are granted first.
        """
        while self._changed:
            self._compile_next()
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            matching = self._matching(pod)
            violated = matching is None
            for budget in matching or ():
                left[id(budget)] = left.get(id(budget), budget.allowed) - 1
                violated = violated or left[id(budget)] < 0
            (violating if violated else others).append(pod)
        return violating, others

    def _matching(self, pod: PodInfo) -> list[_Budget] | None:
        """The budgets of a pod; None if too many come into question."""
        metadata = pod.pod.metadata
        labels, by_key = metadata.labels, self._by_label.get(metadata.namespace)
        if not labels or by_key is None:
            return []
        if min(len(labels), len(by_key)) > _MOST_LABELS:
            return None
        files = [by_key.get("", {}).get("", _NO_BUDGETS)]
        for key in labels if len(labels) < len(by_key) else by_key:
            value = labels.get(key)
            if key and value is not None and key in by_key:
                files.append(by_key[key].get(value, _NO_BUDGETS))
        if sum(map(len, files)) > MOST_COMPARED:
            return None
        return [
            budget
            for file in files
            for budget in file.values()
            if metadata.name not in budget.disrupted and budget.selector.matches(labels)
        ]

    def _note(self, key: str, old: object, new: object) -> None:
        self._changed[key] = None

    def _compile_next(self) -> None:
        name, _ = self._changed.popitem()
        if (known := self._known.pop(name, None)) is not None:
            for place in known.places:
                self._remove(name, place)
        budget = self._objects.get(PodDisruptionBudget, name)
        compiled = None if budget is None else self._compiled(budget)
        if compiled is not None:
            self._known[name] = compiled
            for namespace, key, value in compiled.places:
                by_key = self._by_label.setdefault(namespace, {})
                by_key.setdefault(key, {}).setdefault(value, {})[name] = compiled

    def _remove(self, name: str, place: _Place) -> None:
        namespace, key, value = place
        by_key = self._by_label[namespace]
        file = by_key[key][value]
        del file[name]
        if not file:
            del by_key[key][value]
        if not by_key[key]:
            del by_key[key]
        if not by_key:
            del self._by_label[namespace]

    def _compiled(self, budget: PodDisruptionBudget) -> _Budget | None:
        """None for a budget that matches no pod: its selector is missing, empty or invalid."""
        try:
            selector = compile_label_selector(budget.spec.selector, "spec.selector")
        except SelectorError:
            return None
        if selector.nothing or not selector.requirements:
            return None
        status = budget.status
        places = self._places(budget.metadata.namespace, selector)
        return _Budget(
            selector, status.disruptions_allowed, frozenset(status.disrupted_pods), places
        )

    def _places(self, namespace: str, selector: Selector) -> tuple[_Place, ...]:
        """Labels one of which all matching pods have: those by which fewest are filed already.

        Budgets of one application often have a label in common, by which all would be filed.
        """
        filed = self._by_label.get(namespace, {})
        best: tuple[_Place, ...] = ((namespace, "", ""),)
        fewest = -1
        for requirement in selector.requirements:
            key, values = requirement.key, requirement.values
            if requirement.operator != "In" or len(values) > _FEW:
                continue
            by_value = filed.get(key, {})
            number = max((len(by_value.get(value, ())) for value in values), default=0)
            if fewest < 0 or number < fewest:
                fewest = number
                best = tuple((namespace, key, value) for value in values)
        return best
