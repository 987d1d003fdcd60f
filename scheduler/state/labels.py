"""Node labels as columns of value ids, made when a selector first names a key.

Pods' authors choose the keys and values of selectors. So a key that no node has costs a
lookup and no memory: all such keys share one column, in which the label is absent everywhere. A
requirement costs the values it names, not the values that nodes have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.bounded import Usage
from scheduler.model.nodes import Node
from scheduler.model.selectors import NodeMatcher, NodeTerm, Requirement, integer
from scheduler.state.interning import Interner
from scheduler.state.partition import Partition

_KEPT_BYTES = 64 * 1024 * 1024
_VALUE_BYTES = 128
"""What a distinct value takes, roughly: its text and its place in the interner."""

_FEW_VALUES = 64
"""So many sums over the nodes of each value may be kept for every counter."""

_NO_LABELS: Mapping[str, str] = {}


class LabelColumn:
    """The values of one label key: an id per row, 0 where the label is absent."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.values: Interner[str | None] = Interner(None)
        self.ids = self.values.intern_all(values)
        self.bytes = 5 * self.ids.nbytes + _VALUE_BYTES * len(self.values)
        """How much memory it took when it was made."""
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._numeric: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._partition: Partition | None = None
        self._distinct: bool | None = None

    def set(self, row: int, value: str | None) -> None:
        """Take over the label of a node; None erases it."""
        self.ids[row] = self.values.intern(value)
        self._partition = self._distinct = None

    @property
    def distinct(self) -> bool:
        """Whether no two rows have the same value, as of the label for the host name."""
        if self._distinct is None:
            self._distinct = bool(np.bincount(self.ids)[1:].max(initial=0) <= 1)
        return self._distinct

    @property
    def partition(self) -> Partition | None:
        """Rows by the id of their value, if there are few values: as for zones, not for names."""
        if self._partition is None and len(self.values) <= _FEW_VALUES:
            rows = np.arange(len(self.ids), dtype=np.intp)
            self._partition = Partition(rows, self.ids, len(self.values))
        return self._partition

    def matches(self, requirement: Requirement, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows satisfy a requirement on this label."""
        return self.accepted(requirement).take(self.ids.take(rows))

    def accepted(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Which values, by their ids, satisfy a requirement."""
        operator = requirement.operator
        if operator == "In":
            return self._among(requirement.values)
        if operator == "NotIn":
            return ~self._among(requirement.values)
        if operator in ("Gt", "Lt"):
            return self._compared(requirement)
        answers = np.full(len(self.values), operator == "Exists", np.bool_)
        answers[0] = not answers[0]
        return answers

    @property
    def bloated(self) -> bool:
        """Whether most values belong to nodes that are gone."""
        return len(self.values) > 2 * len(self.ids) + 64

    def _among(self, values: frozenset[str]) -> NDArray[np.bool_]:
        """Which values are among the given ones; costs the smaller of the two numbers."""
        if len(values) > len(self.values):
            among = map(values.__contains__, self.values.values)
            return np.fromiter(among, np.bool_, len(self.values))
        answers = np.zeros(len(self.values), np.bool_)
        for value in values:
            if (id_ := self.values.find(value)) is not None:
                answers[id_] = True
        return answers

    def _compared(self, requirement: Requirement) -> NDArray[np.bool_]:
        known = len(self._numbers)
        if known < len(self.values):
            read = [integer(value) for value in self.values.values[known:]]
            numbers = np.array([number or 0 for number in read], np.int64)
            numeric = np.array([number is not None for number in read], np.bool_)
            self._numbers = np.concatenate((self._numbers, numbers))
            self._numeric = np.concatenate((self._numeric, numeric))
        (bound,) = requirement.values
        above = requirement.operator == "Gt"
        right = self._numbers > int(bound) if above else self._numbers < int(bound)
        answers: NDArray[np.bool_] = right & self._numeric
        return answers


class LabelColumns:
    """Columns of the label keys that selectors use.

    A column, once made, stays for the whole attempt that uses it; between attempts those not
    used for longest are dropped until the rest fits a number of bytes (``trim``).
    """

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        self._rows: list[Mapping[str, str]] = [_NO_LABELS] * len(nodes)
        self._names: list[str | None] = [None] * len(nodes)
        self._holders: dict[str, int] = {}
        """How many nodes have each key."""
        self.keys_version = 0
        """Grows when a key comes that no node had, or goes from the last node that had it."""
        self._columns: dict[str, LabelColumn] = {}
        self._bytes = 0
        self._evictions = 0
        self._name_column: LabelColumn | None = None
        self._absent = LabelColumn([None] * len(nodes))
        for row, node in enumerate(nodes):
            self.set(row, node)

    @property
    def bytes(self) -> int:
        """How much memory the columns take."""
        return self._bytes

    def usage(self) -> Usage:
        """How much memory the columns take."""
        return Usage(len(self._columns), self._bytes, self._evictions)

    def __contains__(self, key: str) -> bool:
        """Whether any node has a label of this key."""
        return key in self._holders

    def keys(self) -> Collection[str]:
        """All keys that some node has."""
        return self._holders.keys()

    def holders(self, key: str) -> int:
        """How many nodes have a label of this key."""
        return self._holders.get(key, 0)

    def grow(self, extra: int) -> None:
        """There are more rows; each column is made again at its next use."""
        self._rows += [_NO_LABELS] * extra
        self._names += [None] * extra
        self._columns.clear()
        self._bytes = 0
        self._name_column = None
        self._absent = LabelColumn([None] * len(self._rows))

    def set(self, row: int, node: Node | None) -> None:
        """Take over the labels of a node that came, changed or (None) went.

        Costs a pass over the node's labels, and nothing more if they are as they were.
        """
        self._set_name(row, node.name if node is not None else None)
        before = self._rows[row]
        after = node.metadata.labels if node is not None else _NO_LABELS
        if before == after:
            return
        self._rows[row] = after
        for key in {key for key, _ in before.items() ^ after.items()}:
            self._count(key, (key in after) - (key in before))
            column = self._columns.get(key)
            if column is not None:
                column.set(row, after.get(key))
                if column.bloated:
                    self._drop(key)
        self.trim()

    def trim(self) -> None:
        """Drop the columns not used for longest, until the rest is small enough.

        For the time between attempts: an attempt may use a column again.
        """
        while self._bytes > _KEPT_BYTES and self._columns:
            self._drop(next(iter(self._columns)))
            self._evictions += 1

    def lacks(self, key: str) -> bool:
        """Whether nodes have a key whose column is yet to be made, which takes milliseconds."""
        return key in self._holders and key not in self._columns

    def column(self, key: str) -> LabelColumn:
        """The column of a label key; of all keys that no node has, the same one."""
        if key not in self._holders:
            return self._absent
        column = self._columns.pop(key, None)
        if column is None:
            column = LabelColumn([labels.get(key) for labels in self._rows])
            self._bytes += column.bytes
        self._columns[key] = column  # last in the dict: most recently used
        return column

    def satisfy(
        self, requirements: Iterable[Requirement], rows: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Which rows satisfy all requirements."""
        accepted_by: dict[int, tuple[LabelColumn, NDArray[np.bool_]]] = {}
        for requirement in requirements:
            if requirement.key not in self._holders:
                if not requirement.accepts(None):
                    return np.zeros(len(rows), np.bool_)
                continue
            column = self.column(requirement.key)
            accepted = column.accepted(requirement)
            if not accepted.any():  # no node has such a value: no need to look at rows
                return np.zeros(len(rows), np.bool_)
            known = accepted_by.get(id(column))
            if known is None:
                accepted_by[id(column)] = column, accepted
            else:
                np.logical_and(known[1], accepted, out=known[1])
        result: NDArray[np.bool_] | None = None
        for column, accepted in accepted_by.values():
            matches = accepted.take(column.ids.take(rows))
            result = matches if result is None else result & matches
        return np.ones(len(rows), np.bool_) if result is None else result

    def match_term(self, term: NodeTerm, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows match one alternative of a node selector."""
        result = self.satisfy(term.labels, rows)
        for requirement in term.fields:
            result &= self.names().matches(requirement, rows)
        return result

    def weigh(
        self, terms: Iterable[tuple[NodeTerm, int]], rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """The sum of the weights of all terms that each row matches.

        Terms of one requirement are added up by key, over the values, as in ``_match_any``.
        """
        total = np.zeros(len(rows), np.int64)
        by_column: dict[int, tuple[LabelColumn, NDArray[np.int64]]] = {}
        for term, weight in terms:
            if not self._possible(term):
                continue
            if len(term.labels) + len(term.fields) != 1:
                total += self.match_term(term, rows).astype(np.int64) * weight
                continue
            requirement = (*term.labels, *term.fields)[0]
            column = self.column(requirement.key) if term.labels else self.names()
            if id(column) not in by_column:
                by_column[id(column)] = column, np.zeros(len(column.values), np.int64)
            worth = by_column[id(column)][1]
            np.add(worth, weight, out=worth, where=column.accepted(requirement))
        for column, worth in by_column.values():
            total += worth.take(column.ids.take(rows))
        return total

    def match(self, matcher: NodeMatcher, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows a pod may go to by its nodeSelector and required node affinity."""
        result = self.satisfy(matcher.selector, rows)
        return result if matcher.terms is None else result & self._match_any(matcher.terms, rows)

    def _match_any(self, terms: Iterable[NodeTerm], rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows match some alternative.

        Alternatives of one requirement are joined by key, over the values: a thousand of them cost
        what they name, and one pass over rows for each key.
        """
        result = np.zeros(len(rows), np.bool_)
        accepted: dict[int, tuple[LabelColumn, NDArray[np.bool_]]] = {}
        for term in terms:
            if not self._possible(term):
                continue
            if len(term.labels) + len(term.fields) != 1:
                result |= self.match_term(term, rows)
                continue
            requirement = (*term.labels, *term.fields)[0]
            column = self.column(requirement.key) if term.labels else self.names()
            known = accepted.get(id(column))
            if known is None:
                accepted[id(column)] = column, column.accepted(requirement)
            else:
                _join(column, known[1], requirement)
        for column, answers in accepted.values():
            result |= answers.take(column.ids.take(rows))
        return result

    def _possible(self, term: NodeTerm) -> bool:
        """Whether no requirement of a term is on a label that is nowhere and ought to be."""
        holders = self._holders
        return all(r.key in holders or r.accepts(None) for r in term.labels)

    def names(self) -> LabelColumn:
        """The column of node names, for field requirements."""
        if self._name_column is None:
            self._name_column = LabelColumn(self._names)
        return self._name_column

    def _set_name(self, row: int, name: str | None) -> None:
        if self._names[row] == name:
            return
        self._names[row] = name
        if self._name_column is not None:
            self._name_column.set(row, name)
            if self._name_column.bloated:
                self._name_column = None

    def _count(self, key: str, change: int) -> None:
        before = self._holders.get(key, 0)
        after = before + change
        if not (before and after):
            self.keys_version += 1
        if after:
            self._holders[key] = after
        else:
            del self._holders[key]
            self._drop(key)

    def _drop(self, key: str) -> None:
        column = self._columns.pop(key, None)
        if column is not None:
            self._bytes -= column.bytes


def _join(column: LabelColumn, answers: NDArray[np.bool_], requirement: Requirement) -> None:
    """Accept also the values that a requirement accepts."""
    if requirement.operator != "In":
        answers |= column.accepted(requirement)
        return
    for value in requirement.values:
        if (id_ := column.values.find(value)) is not None:
            answers[id_] = True
