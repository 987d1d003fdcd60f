"""Node labels as columns of value ids, made when a selector first asks for a key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.nodes import Node
from scheduler.model.selectors import NodeMatcher, NodeTerm, Requirement
from scheduler.state.interning import Answers, Interner

_KEPT_COLUMNS = 512
_KEPT_ANSWERS = 128


class LabelColumn:
    """The values of one label key: an id per row, 0 where the label is absent."""

    def __init__(self, key: str, nodes: Sequence[Node | None]) -> None:
        self.key = key
        self.values: Interner[str | None] = Interner(None)
        self.ids: NDArray[np.int32] = np.zeros(len(nodes), np.int32)
        self._answers: Answers[Requirement, str | None]
        self._answers = Answers(self.values, np.bool_, _length, _KEPT_ANSWERS)
        for row, node in enumerate(nodes):
            if node is not None:
                self.set(row, node)

    def set(self, row: int, node: Node | None) -> None:
        """Take over the label of a node; None erases it."""
        labels = node.metadata.labels if node is not None else {}
        self.ids[row] = self.values.intern(labels.get(self.key))

    def matches(self, requirement: Requirement, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows satisfy a requirement on this label."""
        accepted = self._answers.ask(requirement, requirement.accepts)
        return accepted[self.ids[rows]]

    @property
    def bloated(self) -> bool:
        """Whether most values belong to nodes that are gone."""
        return len(self.values) > 2 * len(self.ids) + 64


class LabelColumns:
    """Columns of the label keys that selectors use; the least recently used are dropped."""

    def __init__(self, nodes: list[Node | None]) -> None:
        self._nodes = nodes
        self._columns: dict[str, LabelColumn] = {}

    def clear(self) -> None:
        """Forget all columns; each is made again when asked for."""
        self._columns.clear()

    def set(self, row: int, node: Node | None) -> None:
        """Take over the labels of a node that came, changed or (None) went."""
        for column in list(self._columns.values()):
            column.set(row, node)
            if column.bloated:
                del self._columns[column.key]

    def column(self, key: str) -> LabelColumn:
        """The column of a label key."""
        column = self._columns.pop(key, None) or LabelColumn(key, self._nodes)
        self._columns[key] = column
        if len(self._columns) > _KEPT_COLUMNS:
            del self._columns[next(iter(self._columns))]
        return column

    def satisfy(
        self, requirements: Sequence[Requirement], rows: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Which rows satisfy all requirements."""
        result = np.ones(len(rows), np.bool_)
        for requirement in requirements:
            result &= self.column(requirement.key).matches(requirement, rows)
        return result

    def match_term(self, term: NodeTerm, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows match one alternative of a node selector."""
        result = self.satisfy(term.labels, rows)
        for requirement in term.fields:
            names = [node.name if (node := self._nodes[row]) else None for row in rows]
            result &= np.fromiter(map(requirement.accepts, names), np.bool_, len(rows))
        return result

    def match(self, matcher: NodeMatcher, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows a pod may go to by its nodeSelector and required node affinity."""
        result = self.satisfy(matcher.selector, rows)
        if matcher.terms is not None:
            any_term = np.zeros(len(rows), np.bool_)
            for term in matcher.terms:
                any_term |= self.match_term(term, rows)
            result &= any_term
        return result


def _length(requirement: Requirement) -> int:
    return len(requirement.values)
