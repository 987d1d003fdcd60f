"""What NodeAffinity knows about its rejections: which requirement fails, how many nodes meet it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.model.selectors import NODE_NAME_FIELD, NodeMatcher, NodeTerm, Requirement
from scheduler.plugin_api.facts import (
    MAX_FACTS,
    Fact,
    LaterFacts,
    closest,
    fact,
    have,
    requirement_text,
)
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows
from scheduler.state.labels import LabelColumns

Failure = tuple[str | bool | None, ...]
"""For each expression what the node has: a value, None (no such label), False (some other value,
of too many to be told); True where it is met."""

_SHOWN_VALUES = 8
_SUGGESTIONS = 4
"""For so many expressions a label or value is looked for that was probably meant."""
_TOLD_VALUES = 64
"""A node's own value is told of labels that have no more values: not of host names."""


_IMPOSSIBLE = "it is empty, or compares with something that is no integer"


class Expression(NamedTuple):
    """One requirement, and where it is written."""

    source: str
    """``nodeSelector``, ``nodeAffinity`` or ``addedAffinity``."""
    term: int | None
    """Which of the alternatives, if it is of one."""
    requirement: Requirement
    field: bool = False
    """Whether it is about the node's name."""

    @property
    def text(self) -> str:
        """The requirement as kubectl writes selectors."""
        return requirement_text(self.requirement)

    @property
    def impossible(self) -> bool:
        """Whether it stands for a term that no node can match, whatever labels it has."""
        return not self.requirement.key and not self.field


class Expressions:
    """All that is required of nodes, one expression at a time; beyond `MAX_FACTS` not looked at."""

    def __init__(self, matcher: NodeMatcher, enforced: NodeMatcher) -> None:
        own = [Expression("nodeSelector", None, each) for each in matcher.selector]
        own += _of_terms("nodeAffinity", matcher.terms)
        self._all = [*_of_terms("addedAffinity", enforced.terms), *own][:MAX_FACTS]
        self._alternatives = len(matcher.terms or ())

    def failures(self, labels: LabelColumns, rows: Rows) -> Sequence[Failure]:
        """What each row has in place of what is required."""
        table = [self._values(labels, each, rows) for each in self._all]
        if not table:
            return [()] * len(rows)

        def made() -> list[Failure]:
            columns = ([said[number] for number in ids.tolist()] for said, ids in table)
            return list(zip(*columns, strict=True))

        return LaterFacts(len(rows), made)

    @staticmethod
    def _values(
        labels: LabelColumns, each: Expression, rows: Rows
    ) -> tuple[list[str | bool | None], NDArray[np.int32]]:
        """What to say of each value, and the id of the value of each row."""
        column = labels.names() if each.field else labels.column(each.requirement.key)
        accepted = column.accepted(each.requirement)
        ids = column.ids.take(rows)
        if len(column.values) > _TOLD_VALUES:
            return [None, False, True], np.where(accepted.take(ids), 2, np.minimum(ids, 1))
        said: list[str | bool | None] = [
            True if fine else value
            for fine, value in zip(accepted.tolist(), column.values.values, strict=False)
        ]
        return said, ids

    def facts(self, failure: Failure) -> Iterator[Fact]:
        """Each expression that is not met, and what the node has."""
        for each, has in zip(self._all, failure, strict=True):
            if has is not True:
                key = each.requirement.key
                found = f"the node has {key}={has}" if has else "the node has another value"
                if has is None:
                    found = f"the node has no label {key}"
                if each.field:
                    found = "the node has another name"
                if each.impossible:
                    yield _told(each, f"{self._where(each)}: {_IMPOSSIBLE}", has=None)
                    continue
                yield _told(each, f"{self._where(each)} {each.text}: {found}", has=has or None)

    def _where(self, each: Expression) -> str:
        many = each.term is not None and self._alternatives > 1
        return f"{each.source} term {each.term}" if many else each.source

    def facts_of_cluster(self, state: ClusterState, rejected: int) -> Iterator[Fact]:
        """How many nodes meet each expression that not all meet; those that none meets first."""
        rows = state.rows()
        found: list[tuple[int, Fact]] = []
        matching: list[Mask] = []
        for each in self._all:
            met = self._met(state.columns.labels, each, rows)
            number = int(np.count_nonzero(met))
            matching.append(met)
            if number < len(rows):
                suggests = len(found) < _SUGGESTIONS
                message = self._counted(state.columns.labels, each, number, len(rows), suggests)
                told = _told(each, message, matching=number, nodes=len(rows) - number)
                found.append((number, told))
        found.sort(key=lambda pair: pair[0])
        for _, told in found:
            yield told
        if rejected == len(rows) and len(found) > 1 and found[0][0] and self._alternatives < 2:
            message = "each expression is met by some nodes, none meets all of them"
            yield fact("nodeAffinity", message, nodes=rejected)

    def _met(self, labels: LabelColumns, each: Expression, rows: Rows) -> Mask:
        column = labels.names() if each.field else labels.column(each.requirement.key)
        return column.matches(each.requirement, rows)

    def _counted(
        self, labels: LabelColumns, each: Expression, number: int, total: int, suggests: bool
    ) -> str:
        requirement, where = each.requirement, self._where(each)
        if number:
            match = "matches" if number == 1 else "match"
            return f"{number} of {total} nodes {match} {where} {each.text}"
        if each.impossible:
            return f"no node matches {where}: {_IMPOSSIBLE}"
        if each.field:
            return f"no node is called {', '.join(sorted(requirement.values)[:_SHOWN_VALUES])}"
        key = requirement.key
        if key not in labels:
            meant = closest(key, labels.keys()) if suggests else None
            more = f"; {have(labels.holders(meant), total)} {meant}" if meant else ""
            return f"no node has the label {key}{more}"
        nearest = _nearest_value(labels, requirement, total) if suggests else ""
        return f"no node matches {where} {each.text}{nearest}"


def _nearest_value(labels: LabelColumns, requirement: Requirement, total: int) -> str:
    """The value that nodes have and that was probably meant, as the end of a message."""
    column = labels.column(requirement.key)
    if requirement.operator != "In":
        return ""
    known = [value for value in column.values.values if value is not None]
    for value in sorted(requirement.values)[:_SHOWN_VALUES]:
        meant = closest(value, known)
        number = int(np.count_nonzero(column.ids == column.values.find(meant))) if meant else 0
        if number:
            return f"; {have(number, total)} {requirement.key}={meant}"
    present = np.unique(column.ids[column.ids > 0])
    if len(present) > _SHOWN_VALUES:
        return f"; nodes have {len(present)} other values"
    values = sorted(column.values.values[id_] or "" for id_ in present.tolist())
    return f"; nodes have {', '.join(values)}" if values else ""


def _of_terms(source: str, terms: Sequence[NodeTerm] | None) -> Iterator[Expression]:
    for number, term in enumerate((terms or ())[:MAX_FACTS]):
        for each in term.labels:
            yield Expression(source, number, each)
        for each in term.fields:
            yield Expression(source, number, each, field=True)


def _told(each: Expression, message: str, **values: object) -> Fact:
    requirement = each.requirement
    return fact(
        each.source,
        message,
        term=each.term,
        key=NODE_NAME_FIELD if each.field else requirement.key,
        operator=requirement.operator,
        values=sorted(requirement.values)[:MAX_FACTS],
        **values,
    )
