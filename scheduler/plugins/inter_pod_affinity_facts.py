"""What InterPodAffinity knows about its rejections: which term, and the pods that match it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.model.affinity import HOSTNAME, AffinityTerm, PodSet
from scheduler.model.podinfo import PodInfo
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import (
    MAX_FACTS,
    Fact,
    FactBudget,
    LaterFacts,
    Told,
    closest,
    fact,
    selector_text,
    told,
)
from scheduler.state.columns import Mask, Rows
from scheduler.state.podindex import PodCounter, TermCounter

_DOMAINS = 32
"""Values and pods are told of keys that have no more values: not of host names."""

Rule = Literal["podAffinity", "podAntiAffinity", "existingAntiAffinity"]


class _Term(NamedTuple):
    """A term, the pods that it is about, and which values of its key it forbids."""

    rule: Rule
    number: int
    term: AffinityTerm
    counter: PodCounter | TermCounter
    forbidden: Mask
    """By the id of a value; 0 stands for nodes without the label."""


_Broken = tuple[int, str | None, str | None]
"""The term, the value of its key, and one of the pods that it is about."""


class PodRelations:
    """All terms that decide about a pod: its own, and those of pods on nodes; the first of many."""

    def __init__(self, cycle: Cycle, repelling: Sequence[TermCounter]) -> None:
        self._cycle = cycle
        self._state = cycle.state
        self._labels = cycle.state.columns.labels
        self._budget = FactBudget()
        self._terms = [*self._near(), *self._apart(), *self._kept_away(repelling)]

    def _near(self) -> Iterator[_Term]:
        """Required affinity: forbidden is where no pod is that matches all terms."""
        terms = self._cycle.pod.affinity.required
        if not terms:
            return
        sets = tuple(term.pods for term in terms)
        counter = self._state.index.counter(*sets)
        marks = {term.topology_key: self._domains(term, counter.rows) for term in terms}
        first = not any(found.any() for found in marks.values())
        first = first and self._state.index.belongs(self._cycle.pod, sets)
        for number, term in enumerate(terms[:MAX_FACTS]):
            forbidden = ~marks[term.topology_key]
            if first:  # then it suffices to have the label
                forbidden = np.zeros_like(forbidden)
                forbidden[0] = True
            yield _Term("podAffinity", number, term, counter, forbidden)

    def _apart(self) -> Iterator[_Term]:
        for number, term in enumerate(self._cycle.pod.affinity.anti_required[:MAX_FACTS]):
            counter = self._state.index.counter(term.pods)
            yield _Term("podAntiAffinity", number, term, counter, self._domains(term, counter.rows))

    def _kept_away(self, repelling: Sequence[TermCounter]) -> Iterator[_Term]:
        for number, counter in enumerate(repelling[:MAX_FACTS]):
            forbidden = self._domains(counter.term, counter.rows)
            yield _Term("existingAntiAffinity", number, counter.term, counter, forbidden)

    def _domains(self, term: AffinityTerm, rows: Rows) -> Mask:
        """The domains of some rows; the rows without the label are in none."""
        column = self._labels.column(term.topology_key)
        marks: Mask = np.zeros(len(column.values), np.bool_)
        marks[column.ids[rows]] = True
        marks[0] = False
        return marks

    # On a node

    def failures(self, rows: Rows) -> Sequence[Told]:
        """The terms that each row breaks."""
        table: list[tuple[dict[int, _Broken], NDArray[np.int32]]] = []
        for place, each in enumerate(self._terms):
            column = self._labels.column(each.term.topology_key)
            ids = column.ids.take(rows)
            broken = each.forbidden.take(ids)
            if len(column.values) > _DOMAINS:
                np.minimum(ids, 1, out=ids)  # with the label or without: more is not told
            if broken.any():
                table.append((self._broken(place, each, ids[broken]), np.where(broken, ids, -1)))

        def made() -> Sequence[Told]:
            columns = ([said.get(number) for number in ids.tolist()] for said, ids in table)
            return told(list(zip(*columns, strict=True)), self._facts)

        return LaterFacts(len(rows), made) if table else told([()] * len(rows), self._facts)

    def _broken(self, place: int, each: _Term, ids: NDArray[np.int32]) -> dict[int, _Broken]:
        """For each domain the value and a pod; of many domains neither is told."""
        values = self._labels.column(each.term.topology_key).values.values
        if len(values) > _DOMAINS:
            return {0: (place, None, None), 1: (place, "", None)}
        return {
            number: (place, values[number], self._example(each, number))
            for number in np.unique(ids).tolist()
        }

    def _example(self, each: _Term, number: int) -> str | None:
        """A pod in a domain that the term is about."""
        if each.rule == "podAffinity" or not number:
            return None
        column = self._labels.column(each.term.topology_key)
        rows = each.counter.rows
        there = rows[column.ids[rows] == number]
        concerns = self._concerned(each)
        for row in there[:1].tolist():
            for pod in self._budget.within(self._state.pods_on(self._state.name(row))):
                if concerns(pod):
                    return pod.key
        return None

    def _concerned(self, each: _Term) -> Callable[[PodInfo], bool]:
        if each.rule == "existingAntiAffinity":
            return lambda pod: each.term in pod.affinity.anti_required
        return lambda pod: self._state.index.belongs(pod, (each.term.pods,))

    def _facts(self, way: tuple[_Broken | None, ...]) -> Iterator[Fact]:
        for place, value, pod in filter(None, way):
            each = self._terms[place]
            yield _fact(each, _message(each, value, pod), domain=value or None, pod=pod)

    # In the cluster

    def cluster_facts(self, rejected: Rows) -> Iterator[Fact]:
        """How many pods match each term, and how many nodes it rules out."""
        rows = self._state.rows()
        facts = []
        for each in self._terms:
            column = self._labels.column(each.term.topology_key)
            number = int(np.count_nonzero(each.forbidden.take(column.ids.take(rows))))
            if number:
                pods = self._matching(each)
                message = self._counted(each, number, pods, len(rows))
                facts.append(_fact(each, message, pods=pods, nodes=number))
        yield from sorted(facts, key=lambda told: -told["nodes"])

    def _matching(self, each: _Term) -> int:
        if each.rule == "podAffinity":
            return self._state.index.counter(each.term.pods).total
        return each.counter.total

    def _counted(self, each: _Term, number: int, pods: int, total: int) -> str:
        term, text = each.term, _pods(each.term.pods)
        key = term.topology_key
        if key not in self._labels:
            meant = closest(key, self._labels.keys())
            return f"no node has the label {key}" + (f"; did you mean {meant}?" if meant else "")
        if each.rule == "podAffinity":
            if not pods:
                return f"no pod has {text}"
            if not each.counter.total:
                return f"{_are(pods)} {text}, but none matches all required terms"
            without = "have none of them" if key == HOSTNAME else f"are in no {key} with one"
            return f"{_are(pods)} {text}; {number} of {total} nodes {without}"
        if each.rule == "podAntiAffinity":
            there = "have" if key == HOSTNAME else f"are in a {key} with"
            return f"{number} of {total} nodes {there} a pod that has {text}"
        said = "1 pod keeps" if pods == 1 else f"{pods} pods keep"
        place = "node" if key == HOSTNAME else key
        return f"{said} pods with {text} off their {place}: {number} of {total} nodes"


def _are(pods: int) -> str:
    return "1 pod has" if pods == 1 else f"{pods} pods have"


def _message(each: _Term, value: str | None, pod: str | None) -> str:
    key, text = each.term.topology_key, _pods(each.term.pods)
    if value is None:
        return f"the node has no label {key}"
    place = f"in {key}={value}" if value else f"in its {key}"
    if key == HOSTNAME:
        place = "on the node"
    if each.rule == "podAffinity":
        return f"no pod with {text} is {place}"
    if each.rule == "podAntiAffinity":
        return f"{pod or 'a pod'} with {text} is {place}"
    return f"{pod or 'a pod'} {place} keeps pods with {text} away"


def _pods(pods: PodSet) -> str:
    return selector_text(pods.selector.requirements)


def _fact(each: _Term, message: str, **values: object) -> Fact:
    pods = each.term.pods
    return fact(
        each.rule,
        message,
        term=each.number,
        topologyKey=each.term.topology_key,
        selector=_pods(pods),
        namespaces=sorted(pods.namespaces)[:MAX_FACTS],
        **values,
    )
