"""A solver that dies, hangs, fails or is missing costs one batch, and says why."""

from __future__ import annotations

import asyncio
import sys

import pytest

from scheduler.flow.process import PAUSE_SECONDS, SolverFailed, SolverProcess
from tests.flow.problems import problem
from tests.patience import PATIENCE
from tests.pipeline.support import FakeClock

SMALL = problem([2], [[10, 20]], [[1, 1]], [[2, 2], [2, 2]])

ANSWERS_MISSING = """
import sys
sys.modules["ortools.graph.python"] = None
from scheduler.flow.worker import serve
serve(sys.stdin.buffer, sys.stdout.buffer)
"""
ANSWERS_FAULT = """
import sys
from scheduler.flow import solving
def broken(problem):
    raise ValueError("no such luck")
solving.solved = broken
from scheduler.flow.worker import serve
serve(sys.stdin.buffer, sys.stdout.buffer)
"""
READY = "import sys, time; sys.stdout.buffer.write(bytes(8)); sys.stdout.flush(); "
HANGS = READY + "sys.stdin.buffer.read(8); time.sleep(600)"
DIES = READY + "sys.stdin.buffer.read(8); sys.exit(3)"


def script(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


async def test_it_answers_and_is_asked_again() -> None:
    solver = SolverProcess(60.0)
    try:
        first = await solver.solve(SMALL)
        second = await solver.solve(SMALL)
    finally:
        await solver.close()

    assert first.node.tolist() == second.node.tolist() == [1]
    assert first.pods.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "reason", "words", "timeout"),
    [
        pytest.param(DIES, "died", "process ended", 60.0, id="dies"),
        pytest.param(HANGS, "timeout", "no answer within 1 s", 1.0, id="hangs"),
        pytest.param(ANSWERS_MISSING, "missing", r"equipoise\[flow\]", 60.0, id="is missing"),
        pytest.param(ANSWERS_FAULT, "fault", "ValueError: no such luck", 60.0, id="has a fault"),
    ],
)
async def test_a_failure_is_named_and_leaves_nothing_behind(
    text: str, reason: str, words: str, timeout: float
) -> None:
    clock = FakeClock()
    solver = SolverProcess(timeout, command=script(text), clock=clock)

    with pytest.raises(SolverFailed, match=words) as caught:
        await solver.solve(SMALL)

    assert caught.value.reason == reason
    assert not solver.usable
    clock.advance(PAUSE_SECONDS)
    assert solver.usable == (reason != "missing")


async def test_no_such_program() -> None:
    solver = SolverProcess(5.0, command=("/nonexistent",))

    with pytest.raises(SolverFailed, match="nonexistent"):
        await solver.solve(SMALL)


async def test_after_a_failure_a_new_process_is_started() -> None:
    clock = FakeClock()
    solver = SolverProcess(60.0, command=script(DIES), clock=clock)
    with pytest.raises(SolverFailed):
        await solver.solve(SMALL)

    solver._command = SolverProcess(1.0)._command
    try:
        assert (await solver.solve(SMALL)).pods.tolist() == [2]
    finally:
        await solver.close()


async def test_cancelling_ends_the_process() -> None:
    solver = SolverProcess(60.0, command=script(HANGS))
    task = asyncio.create_task(solver.solve(SMALL))
    async with asyncio.timeout(PATIENCE):
        while solver._process is None:  # noqa: ASYNC110  nobody tells of a start
            await asyncio.sleep(0.01)
    process = solver._process

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert process is not None
    assert process.returncode is not None
    assert solver._process is None
