"""What a target of fuzzing is: how its inputs are drawn, and what must hold for each of them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol

Input = Any
"""Plain JSON. Bytes are texts with one character for each byte, so that a file can hold them."""


class Target(Protocol):
    """One thing that gets hostile input."""

    name: str
    what: str
    """For people: what gets which input, and what must hold."""
    share: int
    """How many inputs it gets of all: more where they are quick and the code is large."""

    def draw(self, rng: Random) -> Input:
        """Another input."""

    def check(self, given: Input) -> list[str]:
        """What is wrong about how an input is handled, one line each.

        An exception is a finding as well: nothing that anybody writes may raise out of here.
        """

    def close(self) -> None:
        """Give back what the target holds."""


def findings(target: Target, given: Input) -> list[str]:
    """What is wrong about how a target handles an input, exceptions and logged faults included."""
    with logged_faults() as faults:
        try:
            wrong = target.check(given)
        except Exception as fault:
            wrong = [f"raised {described(fault)}"]
    return [*wrong, *faults]


def described(fault: BaseException) -> str:
    """An exception in one line: what, and the innermost place in the project that raised it."""
    frames = traceback.extract_tb(fault.__traceback__)
    ours = [f for f in frames if "/scheduler/" in f.filename or "/tests/" in f.filename] or frames
    text = " ".join(str(fault).split())[:200]
    if not ours:
        return f"{type(fault).__name__}: {text}"
    file = ours[-1].filename
    path = file[max(file.rfind("/scheduler/"), file.rfind("/tests/")) + 1 :]
    return f"{type(fault).__name__} at {path}:{ours[-1].name}: {text}"


class _Faults(logging.Handler):
    """Keeps what is logged with a traceback: a fault that something has caught."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self.said: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = getattr(record, "fields", {})
        self.said.append((record.getMessage(), fields))
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(f"logged {record.getMessage()}: {described(record.exc_info[1])}")


_HANDLER = _Faults()
"""Stays where it is once it was needed: to put it in place for each input took a tenth of the time
of the quickest targets."""
_KEPT: list[tuple[bool, int]] = []
"""How the logger was before; empty while the handler is not in place."""


@contextmanager
def listening() -> Iterator[None]:
    """What is logged meanwhile is kept for `findings`, and not printed."""
    if _KEPT:
        yield
        return
    logger = logging.getLogger("scheduler")
    _KEPT.append((logger.propagate, logger.level))
    logger.addHandler(_HANDLER)
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(_HANDLER)
        logger.propagate, level = _KEPT.pop()
        logger.setLevel(level)


@contextmanager
def logged_faults() -> Iterator[list[str]]:
    """The faults that are logged meanwhile; nothing is printed."""
    with listening():
        _HANDLER.found, _HANDLER.said = [], []
        yield _HANDLER.found


def said() -> list[tuple[str, dict[str, Any]]]:
    """The warnings and errors that were logged about the current input, with their fields."""
    return _HANDLER.said


def as_bytes(text: str) -> bytes:
    """The bytes that a text of an input stands for."""
    return text.encode("latin-1")
