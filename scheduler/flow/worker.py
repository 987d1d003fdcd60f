"""The solver's process: ``python -m scheduler.flow.worker`` reads problems and writes solutions.

The library computes without letting other threads run, so it has a process of its own. A message is
its length in eight bytes and then itself. The process ends with its input, and ends itself if one
problem takes longer than it may, even if its parent process is gone.
"""

from __future__ import annotations

import math
import signal
import sys
from importlib import import_module
from typing import BinaryIO

import msgspec

from scheduler.flow.problem import Problem, Solution, decode, encode

LENGTH_BYTES = 8


class SolverRequest(msgspec.Struct, frozen=True):
    """A problem, and how many seconds it may take."""

    problem: Problem
    seconds: float


class SolverAnswer(msgspec.Struct, frozen=True):
    """A solution, or why there is none."""

    solution: Solution | None = None
    missing: bool = False
    """The library is not installed."""
    fault: str = ""


def framed(message: bytes) -> bytes:
    """A message as it goes through a pipe."""
    return len(message).to_bytes(LENGTH_BYTES, "little") + message


def answer(request: SolverRequest) -> SolverAnswer:
    """Solve, and put whatever goes wrong into words."""
    from scheduler.flow.solver import SolverMissing
    from scheduler.flow.solving import solved

    try:
        return SolverAnswer(solved(request.problem))
    except SolverMissing as fault:
        return SolverAnswer(missing=True, fault=str(fault))
    except Exception as fault:
        return SolverAnswer(fault=f"{type(fault).__name__}: {fault}")


def serve(problems: BinaryIO, solutions: BinaryIO) -> None:
    """Say that all is loaded, then answer until there are no more problems."""
    import_module("scheduler.flow.solving")
    solutions.write(framed(b""))
    solutions.flush()
    while len(length := problems.read(LENGTH_BYTES)) == LENGTH_BYTES:
        request = decode(problems.read(int.from_bytes(length, "little")), SolverRequest)
        # The default action of this signal ends the process, also from within the library.
        signal.alarm(math.ceil(request.seconds) + 1)
        solutions.write(framed(encode(answer(request))))
        solutions.flush()
        signal.alarm(0)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
