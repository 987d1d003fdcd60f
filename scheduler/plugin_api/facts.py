"""Facts about rejections: what a plugin knows besides its reasons, for explanations.

A reason is a text that kube-scheduler's users know ("Insufficient cpu"). A fact says what it rests
on: how much is asked and how much is free, which taint, which term. Facts are collected only when
a user asks why a pod does not fit, never while pods are scheduled.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.node_view import NodeView
from scheduler.state.columns import Codes, Rows

T = TypeVar("T")
W = TypeVar("W", bound=Hashable)
Fact = dict[str, Any]
"""``type``, ``message`` (a short sentence for people) and plain values of that type."""

MAX_FACTS = 16
"""So many facts are shown of one plugin on one node, and of one plugin about the cluster."""
MAX_NODES = 256
"""Of so many nodes at most facts are asked one node at a time."""
MAX_TEXT = 512
"""So many characters are shown of a text."""

_SHOWN_VALUES = 8
_COMPARED = 64
"""So many names are compared to find the closest one."""
_LONGEST = 320
"""No name in Kubernetes is longer; longer texts are not compared."""


def fact(type_: str, message: str, **values: Any) -> Fact:
    """A fact; values are plain: texts, numbers, booleans, None, and lists of them."""
    return {"type": type_, **values, "message": message}


class Told:
    """A failure that holds its facts already: for failures of which there are few."""

    __slots__ = ("facts",)

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = tuple(islice(facts, MAX_FACTS))


class LaterFacts(Sequence[T]):
    """Failures that are made when the first of them is read: outside of the moment of the verdicts.

    What makes them must not read the state, only what was copied from it.
    """

    def __init__(self, length: int, make: Callable[[], Sequence[T]]) -> None:
        self._length = length
        self._make = make
        self._made: Sequence[T] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if self._made is None:
            self._made = self._make()
        return self._made[index]

    def __iter__(self) -> Iterator[T]:
        if self._made is None:
            self._made = self._make()
        return iter(self._made)


def told(ways: Sequence[W], spell: Callable[[W], Iterable[Fact]]) -> list[Told]:
    """Failures from what sets rows apart; rows that are alike share one."""
    known = {way: Told(spell(way)) for way in dict.fromkeys(ways)}
    return [known[way] for way in ways]


@runtime_checkable
class FactsPlugin(Protocol):
    """A filter that says on what its rejections rest.

    ``failures`` and ``cluster_facts`` are called within one moment, right after the verdicts;
    ``facts`` is called later, when the cluster may have changed, once for each distinct failure.
    An exception leaves the facts out, and is counted under the plugin's name.
    """

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Hashable]:
        """What sets each of these rejected rows apart: rows with equal failures have equal facts.

        ``codes`` are the plugin's verdicts: of ``filter``, or of ``pre_filter`` if that rejected.
        A failure holds all that ``facts`` needs besides the pod. The cost to aim at is a few array
        operations and one pass over the rows.
        """
        ...

    def facts(self, pod: PodInfo, failure: Any) -> Iterable[Fact]:
        """The facts of one failure, at most `MAX_FACTS`. Must not read the state of the cluster."""
        ...

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """Facts about all nodes together, most telling first.

        Each has, besides ``type`` and ``message``, the number of ``nodes`` that it rules out.
        """
        ...


@runtime_checkable
class NodeFactsPlugin(Protocol):
    """A filter that gives facts about one node at a time, in place of ``FactsPlugin``: simpler."""

    def node_facts(self, cycle: Cycle, node: NodeView) -> Iterable[Fact]:
        """The facts of a node that the plugin has rejected; asked of the first `MAX_NODES`."""
        ...


@runtime_checkable
class DescribingPlugin(Protocol):
    """A plugin that has more to say than verdicts and facts, such as what a pod would get."""

    def describe(self, cycle: Cycle, diagnosis: Diagnosis, feasible: Rows) -> dict[str, Any]:
        """Plain values that are added to the answer under these names. Changes nothing.

        Called in the moment of the verdicts: the cost to aim at is that of a filter.
        """
        ...


class FactBudget:
    """How many pods are looked at to name one of them: facts must not take longer than verdicts."""

    def __init__(self, steps: int = 1000) -> None:
        self._steps = steps

    def within(self, pods: Iterable[PodInfo]) -> Iterator[PodInfo]:
        """The pods, as long as the budget lasts."""
        for pod in pods:
            if not self._steps:
                return
            self._steps -= 1
            yield pod


def have(number: int, total: int) -> str:
    """The beginning of a sentence about some of all nodes: ``2 of 3 nodes have``."""
    return f"{number} of {total} nodes {'has' if number == 1 else 'have'}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; None if none is close. Compares a bounded number."""
    length = len(name)
    if length > _LONGEST:
        return None
    spare = max(2, length // 4)
    near = []
    for each in known:
        if each != name and abs(len(each) - length) <= spare:
            near.append(each)
            if len(near) == _COMPARED:
                break
    found = difflib.get_close_matches(name, near, 1, 0.75 if length > 4 else 0.6)
    return found[0] if found else None


def selector_text(requirements: Iterable[Requirement]) -> str:
    """Requirements as kubectl writes selectors: ``app=web,tier!=db``."""
    return ",".join(map(requirement_text, islice(requirements, _SHOWN_VALUES))) or "any labels"


def requirement_text(requirement: Requirement) -> str:
    """A requirement as kubectl writes selectors: ``zone in (a, b)``, ``disk=ssd``, ``!gpu``."""
    key, operator = requirement.key, requirement.operator
    values = sorted(requirement.values)
    shown = ", ".join(values[:_SHOWN_VALUES]) + (", …" if len(values) > _SHOWN_VALUES else "")
    if operator == "In" and not values:
        return "nothing"
    match operator:
        case "In":
            return f"{key}={shown}" if len(values) == 1 else f"{key} in ({shown})"
        case "NotIn":
            return f"{key}!={shown}" if len(values) == 1 else f"{key} notin ({shown})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return f"{key}{'>' if operator == 'Gt' else '<'}{shown}"
