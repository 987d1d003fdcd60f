"""Columns: what plugins keep of the pods that they rejected, so that an event asks for all at once.

A plugin that registers a hint may register a *column* beside it, with a row for each cohort or
gated pod that the plugin rejected (a *waiter*, by number). The column returns which waiters an
event may have cured, and for which the hint must be called one by one; it must leave out no waiter
whose hint would return Queue. NodeResourcesFit, for example, compares what all of them request with
what a node now has. The two columns here suit most other plugins:

- `Alike` calls the hint once for all pods with the same key, if it reads nothing else of them.
- `Indexed` finds by tokens, such as the labels of a pod that was added, those the event concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler.model.events import Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement

HintFunction = Callable[[PodInfo, Event], Hint]

MOST_TOKENS = 64
"""Under how many tokens one pod is kept; a pod that needs more is found by every event."""

MOST_KEYS = 1024
"""For how many different keys a hint is called at once; fewer if pods have long lists."""

Numbers = Collection[int] | int
"""Numbers of waiters; where there may be thousands, as the bits of one integer."""


def bits_of(numbers: Numbers, limit: int) -> int:
    """Numbers below a limit as bits; whatever else a plugin may return is left out."""
    if isinstance(numbers, int):
        return max(numbers, 0)
    bits = bytearray(limit)
    for number in numbers:
        if isinstance(number, int) and 0 <= number < limit:
            bits[number] = 1
    return int(bits[::-1].translate(_DIGITS) or b"0", 2)


def members(numbers: Numbers) -> Collection[int]:
    """Numbers one by one."""
    if not isinstance(numbers, int):
        return numbers
    return [number for number, bit in enumerate(reversed(f"{numbers:b}")) if bit == "1"]


_DIGITS = bytes.maketrans(b"\0\1", b"01")


class Answer(NamedTuple):
    """The effect of an event on waiters."""

    cured: Numbers = ()
    """Those that it may have cured."""
    unsure: Collection[int] = ()
    """Those for which the hint must be called."""


class WaitingColumn(Protocol):
    """All waiters that one plugin rejected; each is added once and removed once."""

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Add a waiter: this pod, or pods equal to it. Numbers are small and reused."""

    def remove(self, waiter: int) -> None:
        """Remove a waiter."""

    def hopeless(self) -> Numbers:
        """Waiters that the plugin would reject on every node now, if that is cheap to know."""

    def answer(self, event: Event) -> Answer:
        """The effect of an event that the state has applied.

        Updates of waiting pods themselves are not among these events: their hints are called.
        """


ColumnFactory = Callable[[], WaitingColumn]
"""Makes the column of one queue; registrations of a plugin with the same factory share it."""


class Alike:
    """Calls the hint once for all pods with the same key. O(distinct keys) for each event.

    Beyond `MOST_KEYS` keys it leaves the hint to be called for each pod. A pod with long lists
    counts as many (`PodInfo.weight`).
    """

    def __init__(self, hint: HintFunction, key: Callable[[PodInfo], Hashable]) -> None:
        self._hint = hint
        self._key = key
        self._keys: dict[int, Hashable] = {}
        self._groups: dict[Hashable, tuple[PodInfo, set[int]]] = {}

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Add a waiter to those with the same key."""
        key = self._keys[waiter] = self._key(pod)
        self._groups.setdefault(key, (pod, set()))[1].add(waiter)

    def remove(self, waiter: int) -> None:
        """Remove a waiter."""
        key = self._keys.pop(waiter)
        waiters = self._groups[key][1]
        waiters.remove(waiter)
        if not waiters:
            del self._groups[key]

    def hopeless(self) -> Collection[int]:
        """None that it knows."""
        return ()

    def answer(self, event: Event) -> Answer:
        """Call the hint for one pod of each key."""
        if len(self._groups) > MOST_KEYS:
            return Answer(unsure=self._keys)
        cured: list[int] = []
        unsure: list[int] = []
        left = MOST_KEYS
        for pod, waiters in self._groups.values():
            if left <= 0:
                unsure.extend(waiters)
                continue
            left -= pod.weight
            if self._hint(pod, event) is Hint.QUEUE:
                cured.extend(waiters)
        return Answer(cured, unsure)


def alike(
    hint: HintFunction, key: Callable[[PodInfo], Hashable] = lambda pod: None
) -> ColumnFactory:
    """Makes `Alike`; without a key, for hints that read the event alone."""
    return lambda: Alike(hint, key)


Term = Sequence[Sequence[Hashable]]
"""Requirements that an event must meet all to concern a pod; one of a requirement's tokens does."""


class Indexed:
    """Finds the waiters that an event may concern by tokens; the hint is called for each of them.

    ``terms`` says of a pod what an event must have to concern it: all requirements of some term.
    A pod is kept under the rarest requirement of each term. A term without requirements, or None
    for all terms, stands for every event. ``tokens`` says what an event has, None for everything.
    An event costs O(its tokens + those found).
    """

    def __init__(
        self,
        terms: Callable[[PodInfo], Iterable[Term] | None],
        tokens: Callable[[Event], Iterable[Hashable] | None],
    ) -> None:
        self._terms = terms
        self._tokens = tokens
        self._found: dict[Hashable, dict[int, None]] = {}
        self._of: dict[int, tuple[Hashable, ...]] = {}
        self._always: dict[int, None] = {}

    def add(self, waiter: int, pod: PodInfo) -> None:
        """Keep a waiter under the tokens that matter."""
        chosen = self._chosen(self._terms(pod))
        if chosen is None or len(chosen) > MOST_TOKENS:
            self._always[waiter] = None
            return
        for token in chosen:
            self._found.setdefault(token, {})[waiter] = None
        self._of[waiter] = tuple(chosen)

    def remove(self, waiter: int) -> None:
        """Remove a waiter."""
        self._always.pop(waiter, None)
        for token in self._of.pop(waiter, ()):
            found = self._found[token]
            del found[waiter]
            if not found:
                del self._found[token]

    def hopeless(self) -> Collection[int]:
        """None that it knows."""
        return ()

    def answer(self, event: Event) -> Answer:
        """Look up the tokens of an event."""
        tokens = self._tokens(event)
        if tokens is None:
            return Answer(unsure=[*self._always, *self._of])
        unsure = dict(self._always)
        for token in tokens:
            if found := self._found.get(token):
                unsure.update(found)
        return Answer(unsure=unsure)

    def _chosen(self, terms: Iterable[Term] | None) -> set[Hashable] | None:
        chosen: set[Hashable] = set()
        for term in terms if terms is not None else ((),):
            if not term:
                return None
            rarest: Sequence[Hashable] = min(term, key=self._frequency)
            chosen.update(rarest)
        return chosen

    def _frequency(self, tokens: Sequence[Hashable]) -> tuple[int, int]:
        kept = sum(len(self._found.get(token, ())) for token in tokens)
        return kept, len(tokens)


def required_tokens(requirements: Iterable[Requirement], scope: Hashable = "") -> Term:
    """What labels must have to meet all requirements, as far as that is something they have."""
    found: list[Sequence[Hashable]] = []
    for each in requirements:
        if each.operator == "In":
            found.append([(scope, each.key, value) for value in each.values])
        elif each.operator not in ("NotIn", "DoesNotExist"):
            found.append([(scope, each.key)])
    return found


def label_tokens(labels: Mapping[str, str], scope: Hashable = "") -> Iterable[Hashable]:
    """What labels have."""
    for key, value in labels.items():
        yield scope, key, value
        yield scope, key
