"""What a piece of synchronous work costs, in operations: exact, and the same on any machine.

An operation is a bytecode instruction, or a comparison or a hash of a `Counted` string: C code
(sets, dicts, structs) compares strings where no instruction shows it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
from greenlet import getcurrent

from scheduler import slices
from scheduler.config.schema import OWN_API_VERSION, OWN_KIND
from scheduler.model.limits import PodLimits

UNLIMITED = {
    "apiVersion": OWN_API_VERSION,
    "kind": OWN_KIND,
    "limits": {field.encode_name: 10**9 for field in msgspec.structs.fields(PodLimits)},
}
"""A configuration that bounds no pod, for laws that must hold without any bound."""


_CHECKPOINTS = {slices.checkpoint.__code__, slices.whole_slice.__code__}


class Counted(str):
    """A string whose comparisons and hashes are counted. Longer work with it is as with any."""

    __slots__ = ()
    operations = 0

    def __eq__(self, other: object) -> bool:
        Counted.operations += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        Counted.operations += 1
        return str.__ne__(self, other)

    def __hash__(self) -> int:
        Counted.operations += 1
        return str.__hash__(self)


def counted(value: Any) -> Any:
    """An object with all strings replaced by counted ones."""
    if isinstance(value, str):
        return Counted(value)
    if isinstance(value, dict):
        return {counted(key): counted(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(counted, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: counted(getattr(value, name)) for name in value.__struct_fields__}
        return type(value)(**fields)
    return value


def plain(value: Any) -> Any:
    """An object with counted strings replaced by common ones, as encoders need them."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return type(value)(**fields)
    return value


class PlainEncoder:
    """Stands in for an encoder, which does in C what here is done in Python and not counted."""

    def __init__(self, encoder: msgspec.msgpack.Encoder | msgspec.json.Encoder) -> None:
        self._encoder = encoder

    def encode(self, value: object) -> bytes:
        """What the encoder says of the same value without counted strings."""
        return self._encoder.encode(plain(value))


class Cost:
    """How many operations some work took, and the longest stretch of it without a checkpoint."""

    def __init__(self) -> None:
        self.operations = 0
        self.longest = 0
        self._since = 0
        self._seen = 0

    def of(self, work: Callable[[], object]) -> None:
        """Do the work as a slice of the event loop would, and count."""
        self._since, self._seen = 0, Counted.operations
        sliced = slices._Sliced(self._traced(work))
        sliced.ends_at = float("inf")
        sliced.switch()
        self._stretch_ends()

    def _traced(self, work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            before, collecting = sys.gettrace(), gc.isenabled()
            gc.disable()  # what others left behind is finalized at any moment, and would be counted
            sys.settrace(self._enter)
            try:
                work()
            finally:
                sys.settrace(before)
                if collecting:
                    gc.enable()

        return run

    def _enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if frame.f_code in _CHECKPOINTS:
            if not getcurrent().unbroken:
                self._stretch_ends()
            return None
        if frame.f_code.co_filename == __file__:
            return None  # already counted as a comparison
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._inside

    def _inside(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if event == "opcode":
            self._since += 1
        return self._inside

    def _stretch_ends(self) -> None:
        stretch = self._since + Counted.operations - self._seen
        self._since, self._seen = 0, Counted.operations
        self.operations += stretch
        self.longest = max(self.longest, stretch)


def cost(work: Callable[[], object]) -> Cost:
    """What some work costs."""
    taken = Cost()
    taken.of(work)
    return taken
