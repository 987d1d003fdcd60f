"""Runs targets on many inputs: on all cores, each input known by its seed and its number."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from types import FrameType

from tests.fuzz.shrinking import shrunk, signature
from tests.fuzz.target import Input, Target, findings, listening
from tests.fuzz.targets import TARGETS

SECONDS_PER_INPUT = 20.0
"""What takes longer, in CPU time, counts as a hang."""
BATCHES = 5
"""How many inputs a batch has for each one of a share: some seconds of work."""


@dataclass(frozen=True)
class Finding:
    """An input that is handled wrongly."""

    target: str
    seed: int
    number: int
    found: str
    given: Input


@dataclass
class Report:
    """What came of a number of inputs of one target."""

    target: str
    inputs: int = 0
    cpu_seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


class TooLong(BaseException):
    """An input takes longer than any may. No handler of exceptions may catch it."""


def drawn(target: Target, seed: int, number: int) -> Input:
    """An input, by the seed and its number."""
    return target.draw(Random(f"{seed}/{target.name}/{number}"))


def run_batch(name: str, seed: int, numbers: Sequence[int], *, shrink: bool = True) -> Report:
    """Check some inputs of a target; of equal findings only the first is kept."""
    target = TARGETS[name]()
    report = Report(name)
    known: set[str] = set()
    began = time.process_time()
    try:
        with listening(), deadlines():
            for number in numbers:
                given = drawn(target, seed, number)
                for found in within_time(target, given):
                    mark = signature(found)
                    if mark not in known:
                        known.add(mark)
                        small = shrunk(target, given, found) if shrink else given
                        report.findings.append(Finding(name, seed, number, found, small))
                report.inputs += 1
    finally:
        target.close()
    report.cpu_seconds = time.process_time() - began
    return report


def prepare() -> None:
    """Let collections look at what inputs leave alone, not at all that was imported."""
    gc.collect()
    gc.freeze()


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TooLong


@contextmanager
def deadlines() -> Iterator[None]:
    """The signal of a deadline raises `TooLong`."""
    before = signal.signal(signal.SIGPROF, _too_long)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)


def within_time(target: Target, given: Input) -> list[str]:
    """What is wrong about how an input is handled, within `deadlines`; also that it takes long."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_INPUT)
    try:
        return findings(target, given)
    except TooLong:
        return [f"took more than {SECONDS_PER_INPUT:g} s"]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(
    names: Sequence[str], seed: int, inputs: int, minutes: float, jobs: int
) -> Iterator[Report]:
    """Check inputs of targets, in batches, all targets in turn; ends with the inputs or the time.

    ``inputs`` are those of all targets together; 0: as many as fit the time. ``minutes`` 0: no
    limit.
    """
    ends = time.monotonic() + 60 * minutes if minutes else float("inf")
    batches = _batches(names, seed, inputs, ends)
    if jobs == 1:
        prepare()
        yield from (run_batch(*each) for each in batches)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, prepare) as pool:
        waiting = {pool.submit(run_batch, *each) for each in islice(batches, 2 * jobs)}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            waiting |= {pool.submit(run_batch, *each) for each in islice(batches, len(done))}
            yield from (each.result() for each in done)


def _batches(
    names: Sequence[str], seed: int, inputs: int, ends: float
) -> Iterator[tuple[str, int, range]]:
    """Batches of all targets in turn, as large as their shares."""
    whole = sum(TARGETS[name].share for name in names)
    first = dict.fromkeys(names, 0)
    last = {name: -(-inputs * TARGETS[name].share // whole) for name in names}
    left = list(names)
    while left:
        for name in list(left):
            if time.monotonic() >= ends:
                return
            end = first[name] + TARGETS[name].share * BATCHES
            if inputs and end >= last[name]:
                end = last[name]
                left.remove(name)
            if end > first[name]:
                yield name, seed, range(first[name], end)
            first[name] = end


def replayed(name: str, given: Input) -> list[str]:
    """What is wrong about how a kept input is handled."""
    target = TARGETS[name]()
    try:
        with deadlines():
            return within_time(target, given)
    finally:
        target.close()
