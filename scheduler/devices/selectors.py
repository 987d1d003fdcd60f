"""Verdicts of CEL selectors, kept: one evaluation per distinct value of what a selector reads."""

from __future__ import annotations

from weakref import WeakSet

from scheduler.bounded import ENTRY_BYTES, MEBIBYTE, Recent, Usage
from scheduler.cel import CelCompileError, CelDevice, CelRuntimeError, Selector, compile_selector
from scheduler.devices.shapes import DeviceShape, Read

_MANY_SELECTORS = 2048
SELECTOR_BYTES = 32 * MEBIBYTE
"""Of compiled selectors, by an estimate from above."""
MANY_VERDICTS = 262_144
"""Of all selectors together: there may be as many for each as there are devices."""

Answer = bool | str
"""Whether a device is selected; a text: why that cannot be said."""


class VerdictTally:
    """Counts the verdicts of all selectors, and has all forgotten when there are too many."""

    def __init__(self) -> None:
        self.verdicts = 0
        self.evictions = 0
        self._selectors: WeakSet[KeptSelector] = WeakSet()

    def count(self, selector: KeptSelector) -> None:
        """A selector is about to keep one more."""
        if self.verdicts >= MANY_VERDICTS:
            self.evictions += self.verdicts
            self.verdicts = 0
            for each in list(self._selectors):
                each.forget()
            self._selectors.clear()
        self.verdicts += 1
        self._selectors.add(selector)


class KeptSelector:
    """A selector with what it said about shapes so far."""

    def __init__(self, expression: str, tally: VerdictTally) -> None:
        self.selector: Selector | None = None
        self.evaluations = 0
        self._tally = tally
        self._fault = ""
        self._answers: dict[object, Answer] = {}
        try:
            self.selector = compile_selector(expression)
        except CelCompileError as fault:
            self._fault = f"CEL compile error: {fault}"

    @property
    def reads(self) -> frozenset[Read] | None:
        """What it may read of attributes and capacities; None if it may read anything."""
        if self.selector is None:
            return frozenset()
        return None if self.selector.reads is None else frozenset(self.selector.reads)

    def answer(self, shape: DeviceShape) -> Answer:
        """What the selector says about a device of this shape."""
        if self.selector is None:
            return self._fault
        key = self._key(shape, self.selector)
        answer = self._answers.get(key)
        if answer is None:
            self._tally.count(self)
            answer = self._answers[key] = self._evaluate(shape, self.selector)
        return answer

    def forget(self) -> None:
        """Drop all verdicts; they are made again on demand."""
        self._answers.clear()

    @property
    def bytes(self) -> int:
        """About what it takes, without its verdicts."""
        return len(self._fault) if self.selector is None else self.selector.size

    def _evaluate(self, shape: DeviceShape, selector: Selector) -> Answer:
        self.evaluations += 1
        raw = shape.raw
        device = CelDevice(shape.driver, raw.attributes, raw.capacity, shape.shareable)
        try:
            return selector.evaluate(device)
        except CelRuntimeError as fault:
            return f"CEL runtime error: {fault}"

    @staticmethod
    def _key(shape: DeviceShape, selector: Selector) -> object:
        if selector.reads is None or shape.unreadable:
            return shape.key
        return (
            shape.driver,
            shape.shareable,
            *(shape.written(kind, domain, name) for kind, domain, name in sorted(selector.reads)),
        )


class SelectorTable:
    """Selectors by expression; the least recently used ones go."""

    def __init__(self) -> None:
        self._tally = VerdictTally()
        self._kept: Recent[str, KeptSelector] = Recent(
            SELECTOR_BYTES, lambda expression, kept: len(expression) + kept.bytes, _MANY_SELECTORS
        )

    def get(self, expression: str) -> KeptSelector:
        """The selector of an expression."""
        kept = self._kept.find(expression)
        if kept is None:
            kept = KeptSelector(expression, self._tally)
            self._kept.put(expression, kept)
        return kept

    def usage(self) -> Usage:
        """How much is kept; may be called from another thread."""
        selectors, tally = self._kept.usage(), self._tally
        return Usage(
            selectors.entries,
            selectors.bytes + 2 * ENTRY_BYTES * tally.verdicts,
            selectors.evictions + tally.evictions,
        )
