"""Which of some rows satisfy label requirements, for many requirements and the same rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.model.selectors import Requirement
from scheduler.plugins.volumes.catalog import Alternatives
from scheduler.state.columns import Mask, Rows
from scheduler.state.labels import LabelColumn, LabelColumns

Positions = NDArray[np.intp]


class NodeFinder:
    """Caches each result, and finds rows by the value of a label with a binary search."""

    def __init__(self, labels: LabelColumns, rows: Rows) -> None:
        self._labels = labels
        self._rows = rows
        self._sorted: dict[str, tuple[LabelColumn, Positions, NDArray[np.int32]]] = {}
        self._known: dict[Alternatives, Positions] = {}

    def mask(self, alternatives: Alternatives) -> Mask:
        """Whether each row satisfies one of the alternatives."""
        mask: Mask = np.zeros(len(self._rows), np.bool_)
        mask[self.positions(alternatives)] = True
        return mask

    def positions(self, alternatives: Alternatives) -> Positions:
        """The positions in ``rows`` that satisfy one of the alternatives, each once."""
        known = self._known.get(alternatives)
        if known is None:
            found = [self._satisfying(requirements) for requirements in alternatives]
            if len(found) == 1:
                known = found[0]
            else:
                known = np.unique(np.concatenate(found)) if found else np.zeros(0, np.intp)
            self._known[alternatives] = known
        return known

    def spread(self, key: str, numbers: Mapping[str, int], default: int) -> Positions:
        """For each row the number that belongs to the value of its label."""
        column = self._labels.column(key)
        by_value = np.full(len(column.values), default)
        for value, number in numbers.items():
            if (id_ := column.values.find(value)) is not None:
                by_value[id_] = number
        return by_value[column.ids[self._rows]]

    def _satisfying(self, requirements: tuple[Requirement, ...]) -> Positions:
        first = next((r for r in requirements if r.operator == "In"), None)
        if first is None:
            return np.flatnonzero(self._labels.satisfy(requirements, self._rows))
        found = self._with_values(first)
        rest = [requirement for requirement in requirements if requirement is not first]
        return found[self._labels.satisfy(rest, self._rows[found])] if rest else found

    def _with_values(self, requirement: Requirement) -> Positions:
        column, order, ids = self._sorted.get(requirement.key) or self._sort(requirement.key)
        found = [
            order[np.searchsorted(ids, number) : np.searchsorted(ids, number, "right")]
            for value in requirement.values
            if (number := column.values.find(value)) is not None
        ]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def _sort(self, key: str) -> tuple[LabelColumn, Positions, NDArray[np.int32]]:
        column = self._labels.column(key)
        ids = column.ids[self._rows]
        order = np.argsort(ids, kind="stable")
        self._sorted[key] = column, order, ids[order]
        return self._sorted[key]
