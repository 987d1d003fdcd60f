"""One more pod of a known class takes little work, from the queue to the end of its binding.

Most of what a scheduler does all day is this. Calls and bytecode instructions of the daemon's own
functions are counted, since time is not the same on any two machines; whoever adds some to every
pod raises the bounds here, and says what for.
"""

from __future__ import annotations

import dis
import enum
import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import scheduler
from tests.builders import PodBuilder, constraint, make_pod, make_worker, pod_term
from tests.pipeline.support import Stage

ROOT = str(Path(scheduler.__file__).parent)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OWN = {"app": "web"}


def plain(name: str) -> PodBuilder:
    return make_pod(name).cpu("100m").memory("64Mi").label(**OWN)


def spread(name: str) -> PodBuilder:
    return plain(name).spread(constraint(ZONE, labelSelector={"matchLabels": OWN}))


def apart(name: str) -> PodBuilder:
    return plain(name).apart(pod_term(HOST, OWN))


def near(name: str) -> PodBuilder:
    return plain(name).near(pod_term(ZONE, OWN))


def near_in_one_zone(name: str) -> PodBuilder:
    """Of the same kind; the nodes are what differs."""
    return near(name)


def rather_near(name: str) -> PodBuilder:
    return plain(name).rather_near(1, pod_term(HOST, OWN))


def nodes(number: int, zones: int = 3) -> Stage:
    """So many nodes in so many zones."""
    stage = Stage()
    labels = [{HOST: f"node-{n}", ZONE: f"zone-{n % zones}"} for n in range(number)]
    stage.see(*(make_worker(each[HOST]).label(**each) for each in labels))
    return stage


class Work:
    """Counts calls and instructions of the daemon's functions while it is entered."""

    def __init__(self) -> None:
        self.calls = 0
        self.instructions = 0

    def __enter__(self) -> Work:
        gc.disable()  # what others left behind is finalized at any moment, and would be counted
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        self.calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        self.instructions += event == "opcode"
        return self._inside


@pytest.mark.parametrize(
    ("pod", "calls", "instructions"),
    [
        (plain, 250, 6015),  # 95 of them keep the best rows, which spares passes over all rows
        (spread, 312, 7225),
        (apart, 312, 7425),
        (near, 346, 8030),
        (near_in_one_zone, 330, 7745),
        (rather_near, 308, 7275),
    ],
)
async def test_one_more_pod_takes_little_work(
    pod: Callable[[str], PodBuilder], calls: int, instructions: int
) -> None:
    stage = nodes(30, zones=1 if pod is near_in_one_zone else 3)
    for number in range(12):
        stage.see(pod(f"pod-{number}"))
        with Work() as work:
            assert stage.attempt() is not None
            await stage.idle()
    assert len(stage.outlet.bound) == 12
    assert 100 < work.calls <= calls
    if sys.version_info[:2] == (3, 11):  # each version of Python has instructions of its own
        assert 1000 < work.instructions <= instructions


@pytest.mark.parametrize(
    ("pod", "columns"),
    [
        (plain, 1.5),
        (spread, 5.0),
        (apart, 6.0),
        (near, 2.6),
        (near_in_one_zone, 1.5),
        (rather_near, 3.5),
    ],
)
async def test_one_more_pod_makes_few_arrays(
    pod: Callable[[str], PodBuilder], columns: float
) -> None:
    """The most memory at a time during an attempt, in columns of eight bytes for each node.

    Instructions do not show a pass over all rows, which is a call or two; what it makes does.
    """
    rows = 1024
    stage = nodes(rows, zones=1 if pod is near_in_one_zone else 3)
    for number in range(8):
        stage.see(pod(f"pod-{number}"))
        gc.disable()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        assert stage.core.scheduler.schedule_one() is not None
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.enable()
        await stage.idle()
        if number >= 3:
            assert 1024 < most - before <= columns * 8 * rows
    assert len(stage.outlet.bound) == 8


class MemberReads:
    """Counts where the daemon's functions read members of enumerations while it is entered."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def __enter__(self) -> MemberReads:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        name = _attributes_of_globals(frame.f_code).get(frame.f_lasti, "")
        if event == "opcode" and isinstance(frame.f_globals.get(name), enum.EnumType):
            self.found[f"{name} in {frame.f_code.co_qualname}"] += 1
        return self._inside


@cache
def _attributes_of_globals(code: CodeType) -> dict[int, str]:
    """The instructions that read an attribute of a global, and what that is called."""
    pairs = pairwise(dis.get_instructions(code))
    return {
        each.offset: before.argval
        for before, each in pairs
        if before.opname == "LOAD_GLOBAL" and each.opname == "LOAD_ATTR"
    }


@pytest.mark.parametrize("pod", [plain, spread, apart, near, rather_near])
async def test_one_more_pod_reads_no_members_of_enumerations(
    pod: Callable[[str], PodBuilder],
) -> None:
    """Each takes a tenth of a microsecond, ten to twenty times what a global of a module does."""
    stage = nodes(30)
    for number in range(4):
        reads = MemberReads()
        waiting = pod(f"pod-{number}")
        stage.see(waiting)
        with reads:
            queued = stage.attempt()
            await stage.idle()
        assert queued is not None
        node = stage.outlet.bound[-1][1]
        bound = pod(f"pod-{number}").on(node)
        with reads:
            stage.see(bound)
    assert stage.outlet.bound
    assert not reads.found
