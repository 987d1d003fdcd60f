"""The solver of batches, which has a process of its own: here it answers in virtual time.

A problem goes through bytes as it does on a pipe, and how long its solution takes is drawn from
the lots of the host. `mode` says how the process behaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from scheduler import machine
from scheduler.flow.problem import Problem, decode, encode
from scheduler.flow.process import SolverProcess
from scheduler.flow.worker import SolverAnswer, SolverRequest, answer

SHORTEST_SECONDS, LONGEST_SECONDS = 0.01, 1.0


class Solver:
    """One for all replicas; `here` puts it in the place of their processes."""

    def __init__(self) -> None:
        self.mode = "well"

    async def ask(self, problem: Problem, timeout: float) -> SolverAnswer:
        """What the process answers; raises what its end raises."""
        request = decode(encode(SolverRequest(problem, timeout)), SolverRequest)
        async with asyncio.timeout(timeout):
            seconds = LONGEST_SECONDS - SHORTEST_SECONDS
            await asyncio.sleep(SHORTEST_SECONDS + seconds * machine.random())
            match self.mode:
                case "hang":
                    await asyncio.get_running_loop().create_future()
                case "die":
                    raise BrokenPipeError(32, "Broken pipe")
                case "fail":
                    return SolverAnswer(fault="planned")
        found = decode(encode(answer(request)), SolverAnswer)
        if found.solution is None:
            return found
        timeless = replace(found.solution, build_seconds=0.0, solve_seconds=0.0, read_seconds=0.0)
        return SolverAnswer(timeless)


@contextmanager
def here(solver: Solver) -> Iterator[None]:
    """No process is started within the block."""

    async def ask(self: Any, problem: Problem) -> SolverAnswer:
        return await solver.ask(problem, self._timeout)

    right = SolverProcess._ask
    SolverProcess._ask = ask  # type: ignore[method-assign]  # the one place that talks to it
    try:
        yield
    finally:
        SolverProcess._ask = right  # type: ignore[method-assign]  # as it was
