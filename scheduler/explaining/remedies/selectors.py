"""Correct or drop what a pod requires of nodes: `nodeSelector` and required node affinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scheduler.explaining.remedies.costs import cost, repeated
from scheduler.explaining.remedies.patches import Object, at, listed, put
from scheduler.explaining.remedies.scene import Scene, Step, one_less, rows_of, ways
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.selectors import NodeMatcher, compile_node_selector, compile_set
from scheduler.plugin_api.cycle import Cycle
from scheduler.state.columns import Rows

CORRECT = "correct-selector"
SELECTOR = "nodeSelector"
EMPTY = "term"
"""In place of a field: the term has no requirements, and matches no node."""
DROP = "drop-selector"
MOST_TERMS = 8
MOST_SETS = 8
MOST_WRONG = 2
"""Of so many requirements that a node does not meet, each may be misspelt."""
MOST_NODES_READ = 256
"""Labels of so many nodes are compared with a name that may be misspelt."""
REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
TERMS = (*REQUIRED, "nodeSelectorTerms")


class NodeRequirement(NamedTuple):
    """One requirement of a pod: of its selector, or of a term of its affinity."""

    term: int
    """Which term; -1 for the selector."""
    field: str
    """``matchExpressions`` or ``matchFields``; for the selector ``nodeSelector``."""
    place: int
    requirement: NodeSelectorRequirement

    def __str__(self) -> str:
        if self.field == EMPTY:
            return "of an empty term, which no node meets"
        key, operator, values = (
            self.requirement.key,
            self.requirement.operator,
            "|".join(self.requirement.values),
        )
        return f"{key}={values}" if operator == "In" else f"{key} {operator} {values}".strip()


def drop(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Drop the requirements that some node does not meet; the fewest first."""
    for entries, _ in _failing(scene, names):
        yield _dropping(entries)


def _dropping(entries: Sequence[NodeRequirement]) -> Step:
    what = listed([*map(str, entries)])
    return Step(
        DROP,
        f"drop the node requirement{'s' if len(entries) > 1 else ''} {what}",
        repeated(DROP, len(entries)),
        partial(_dropped, entries=entries),
        parts=frozenset((e.term, e.field, e.place) for e in entries),
        smaller=one_less(entries, _dropping),
    )


def correct(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Correct a value or a key that some node nearly has; of two that fail, each."""
    for entries, there in _failing(scene, names):
        for entry in entries if len(entries) <= MOST_WRONG else ():
            yield from _correcting(scene, entry, there)


def _correcting(scene: Scene, entry: NodeRequirement, there: Sequence[str]) -> Iterator[Step]:
    wanted = entry.requirement
    if wanted.operator not in ("In", "Exists") or entry.field in ("matchFields", EMPTY):
        return
    labels = [
        node.metadata.labels
        for name in there[:MOST_NODES_READ]
        if (node := scene.state.node(name)) is not None
    ]
    for key, values in _corrections(wanted, labels):
        text = f"{key}={'|'.join(values)}" if values else key
        yield Step(
            CORRECT,
            f"ask for nodes with {text} in place of {entry}",
            cost(CORRECT),
            partial(_corrected, entry=entry, key=key, values=values),
            parts=frozenset({(entry.term, entry.field, entry.place, key, values)}),
        )


def _corrections(
    wanted: NodeSelectorRequirement, labels: Sequence[Any]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    there = sorted({each[wanted.key] for each in labels if wanted.key in each})
    for value in wanted.values[:4]:
        for close in close_to(value, there, 1, 0.6):
            yield wanted.key, (close,)
    if there:
        return
    keys = sorted({key for each in labels for key in each})
    for key in close_to(wanted.key, keys, 2, 0.7):
        yield key, wanted.values


def _failing(scene: Scene, names: list[str]) -> list[tuple[tuple[NodeRequirement, ...], list[str]]]:
    """The sets of requirements that some nodes do not meet, and these nodes; smallest first.

    Of several terms one has to match: each of them is looked at by itself.
    """
    if scene.raw is None:
        return []
    selector, terms = _entries(scene.raw)
    with scene.acted() as cycle:
        there, rows = rows_of(cycle.state, names)
        if not len(rows):
            return []
        basic = [_met(cycle, entry, rows) for entry in selector]
        met = [[_met(cycle, entry, rows) for entry in term] for term in terms]
    matched = np.zeros(len(rows), np.bool_)
    for masks in met:
        matched |= np.logical_and.reduce(masks)
    groups: dict[tuple[NodeRequirement, ...], list[str]] = {}
    if not terms or matched.any():
        here = matched if terms else np.ones(len(rows), np.bool_)
        _group(groups, selector, basic, here, there)
    for term, masks in zip(terms, met, strict=True):
        _group(groups, [*selector, *term], [*basic, *masks], ~matched, there)
    return sorted(groups.items(), key=lambda each: (len(each[0]), -len(each[1]), str(each[0])))[
        :MOST_SETS
    ]


def _group(
    groups: dict[tuple[NodeRequirement, ...], list[str]],
    entries: Sequence[NodeRequirement],
    masks: Sequence[Any],
    here: Any,
    names: Sequence[str],
) -> None:
    if not masks or not here.any():
        return
    places = np.flatnonzero(here)
    table = ~np.array(masks)[:, places]
    different, which = ways(table)
    order = np.argsort(different.sum(axis=0), kind="stable")[: 4 * MOST_SETS]
    for number in order.tolist():
        failing = tuple(entries[i] for i in np.flatnonzero(different[:, number]).tolist())
        if failing:
            there = [names[places[i]] for i in np.flatnonzero(which == number).tolist()]
            groups.setdefault(failing, []).extend(there)


def _entries(raw: Object) -> tuple[list[NodeRequirement], list[list[NodeRequirement]]]:
    selector = [
        NodeRequirement(-1, SELECTOR, place, NodeSelectorRequirement(key, "In", (value,)))
        for place, (key, value) in enumerate((at(raw, "spec", SELECTOR) or {}).items())
    ]
    terms = []
    for number, term in enumerate((at(raw, *TERMS) or [])[:MOST_TERMS]):
        found = [
            NodeRequirement(number, field, index, _requirement(each))
            for field in ("matchExpressions", "matchFields")
            for index, each in enumerate(term.get(field) or [])
        ]
        nothing = NodeRequirement(number, EMPTY, 0, NodeSelectorRequirement("", "In", ()))
        terms.append(found or [nothing])
    return selector, terms


def _requirement(raw: Object) -> NodeSelectorRequirement:
    values = tuple(raw.get("values") or ())
    return NodeSelectorRequirement(raw.get("key", ""), raw.get("operator", ""), values)


def _met(cycle: Cycle, entry: NodeRequirement, rows: Rows) -> Any:
    """Which rows meet one requirement."""
    if entry.field == EMPTY:
        return np.zeros(len(rows), np.bool_)
    return cycle.state.columns.labels.match(_matcher(entry), rows)


def _matcher(entry: NodeRequirement) -> NodeMatcher:
    wanted = entry.requirement
    if entry.field == SELECTOR:
        return NodeMatcher(compile_set({wanted.key: wanted.values[0]}))
    fields = entry.field == "matchFields"
    term = NodeSelectorTerm(match_fields=(wanted,)) if fields else NodeSelectorTerm((wanted,))
    return NodeMatcher(terms=compile_node_selector(NodeSelector((term,)), "spec"))


def _dropped(raw: Object, entries: Sequence[NodeRequirement]) -> Object:
    for entry in entries:
        if entry.term < 0:
            raw = put(raw, ("spec", SELECTOR, entry.requirement.key), None)
    of_terms = [entry for entry in entries if entry.term >= 0]
    if not of_terms:
        return raw
    path = (*TERMS, of_terms[0].term)
    term = dict(at(raw, *path))
    for field in ("matchExpressions", "matchFields"):
        gone = {entry.place for entry in of_terms if entry.field == field}
        left = [each for i, each in enumerate(term.get(field) or []) if i not in gone]
        term[field] = left
    term = {field: value for field, value in term.items() if value}
    # A term without requirements matches no node: without any, nothing is required.
    return put(raw, path, term) if term else put(raw, REQUIRED, None)


def _corrected(raw: Object, entry: NodeRequirement, key: str, values: tuple[str, ...]) -> Object:
    if entry.term < 0:
        wrong = entry.requirement.key
        selector = {
            (key if k == wrong else k): (values[0] if k == wrong else v)
            for k, v in at(raw, "spec", SELECTOR).items()
        }
        return put(raw, ("spec", SELECTOR), selector)
    path = (*TERMS, entry.term, entry.field, entry.place)
    changed = put(raw, path, {**at(raw, *path), "key": key, "values": list(values)})
    if not values:
        changed = put(changed, (*path, "values"), None)
    return changed
