"""The solver process from the event loop: started, asked, and ended when it takes too long.

Nothing that happens to it may cost more than one batch: a solver that dies, takes too long or was
never installed raises `SolverFailed`, and the caller places pods one by one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal

from scheduler import machine
from scheduler.flow.problem import Problem, Solution, decode, encode
from scheduler.flow.worker import LENGTH_BYTES, SolverAnswer, SolverRequest, framed
from scheduler.observe.logs import get_logger

log = get_logger(__name__)

Reason = Literal["missing", "died", "timeout", "fault"]

PAUSE_SECONDS = 60.0
"""How long the solver is left alone after a failure."""


START_SECONDS = 30.0
"""How long the process may take to load its libraries; this does not count as solving."""


class SolverFailed(Exception):
    """No solution; the message says why."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason: Reason = reason


class SolverProcess:
    """Starts the process when first needed and keeps it; one problem at a time."""

    def __init__(
        self,
        timeout: float,
        *,
        command: Sequence[str] = (sys.executable, "-m", "scheduler.flow.worker"),
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._timeout = timeout
        self._command = command
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._not_before = -float("inf")

    @property
    def usable(self) -> bool:
        """Whether to send a problem: false for a while after a failure, always if not installed."""
        return self._clock() >= self._not_before

    async def solve(self, problem: Problem) -> Solution:
        """The solution; raises SolverFailed, after which nothing of the process is left."""
        try:
            answer = await self._ask(problem)
        except TimeoutError:
            text = f"the solver gave no answer within {self._timeout:g} s and was ended"
            raise await self._failed("timeout", text) from None
        except (OSError, asyncio.IncompleteReadError) as fault:
            raise await self._failed("died", f"the solver's process ended: {fault}") from fault
        except asyncio.CancelledError:
            await self.close()
            raise
        if answer.missing:
            text = f"the solver is not installed (pip install 'equipoise[flow]'): {answer.fault}"
            raise await self._failed("missing", text)
        if answer.solution is None:
            raise await self._failed("fault", f"the solver failed: {answer.fault}")
        return answer.solution

    async def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            try:
                process.kill()
            except ProcessLookupError:
                log.debug("The solver's process was gone already")
        await process.wait()
        # Its pipes are closed with the transport, which the process object does not offer.
        if process.stdin is not None:
            process.stdin.close()

    async def _ask(self, problem: Problem) -> SolverAnswer:
        process = await self._running()
        assert process.stdin is not None, "made with pipes"
        async with asyncio.timeout(self._timeout):
            process.stdin.write(framed(encode(SolverRequest(problem, self._timeout))))
            await process.stdin.drain()
            return decode(await self._message(process), SolverAnswer)

    @staticmethod
    async def _message(process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None, "made with pipes"
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "little")
        return await process.stdout.readexactly(length)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            # Arrays are too small to be worth threads, which would take cores from the scheduler.
            environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environ,
            )
            async with asyncio.timeout(max(START_SECONDS, self._timeout)):
                await self._message(self._process)
        return self._process

    async def _failed(self, reason: Reason, text: str) -> SolverFailed:
        await self.close()
        self._not_before = float("inf") if reason == "missing" else self._clock() + PAUSE_SECONDS
        return SolverFailed(reason, text)
