"""``make bench-steps``: how long a step of the core takes for pods at several limits at once.

A step is what runs between two checkpoints (`scheduler/slices.py`); the loop is given back within
5 ms only if no step takes longer. The pods here have each list as long as `limits` allows: each
kind of list alone, each two of them, and all at once. What is shown is the CPU time of the longest
step, and between which lines of the program it was.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from bench.core.worlds import Change, World, a_node
from scheduler import machine, slices
from scheduler.observe.runtime import freeze_after_sync
from tests.builders import make_pod
from tests.cost.long_pods import (
    EVERYTHING,
    LISTS,
    NEAR_LABELS,
    PAIRS,
    claims_of,
    node_labels,
    pod_with,
)
from tests.plugins.storage import a_class, struct

OTHER = "another"
_MARKS = {each.__code__ for each in (slices.checkpoint, slices.whole_slice, slices._run)}


class Step(NamedTuple):
    """A stretch between two checkpoints."""

    seconds: float
    since: str
    until: str


class Steps:
    """Notes the CPU time of each step: checkpoints read a clock, and this stands in for it."""

    def __init__(self) -> None:
        self.longest: list[Step] = []
        self._clock = machine.perf_counter
        self._last, self._where = 0.0, "the start"

    def begin(self) -> None:
        self._last, self._where = time.thread_time(), "the start"

    def end(self) -> None:
        self._note("the end")

    def read(self) -> float:
        """What checkpoints read: each of them ends a step."""
        frame = sys._getframe(1)
        if frame.f_code in _MARKS:
            self._note(_place(frame))
        return self._clock()

    def _note(self, where: str) -> None:
        self.longest.append(Step(time.thread_time() - self._last, self._where, where))
        if len(self.longest) > 256:
            self.longest = sorted(self.longest, reverse=True)[:8]
        self._where, self._last = where, time.thread_time()

    def worst(self) -> Step:
        return max(self.longest)


def _place(frame: FrameType) -> str:
    caller = frame.f_back
    if caller is None:
        return "?"
    name = caller.f_code.co_filename.rpartition("/scheduler/")[2]
    return f"{name}:{caller.f_lineno}"


@contextmanager
def watched() -> Iterator[Steps]:
    steps, clock = Steps(), machine.perf_counter
    machine.perf_counter = steps.read
    try:
        yield steps
    finally:
        machine.perf_counter = clock


# What happens to them


def built(count: int) -> World:
    """Nodes with labels, a taint here and there, and pods on them."""
    world = World()
    world.add(*(a_node(number).label(**node_labels(number)) for number in range(count)))
    for number in range(10):
        world.add(make_pod(f"near-{number}").label(**NEAR_LABELS).on(f"node-{number:05}"))
    for number in range(2 * count):
        pod = make_pod(f"r-{number}").cpu("500m").label(app=f"a-{number % 100}")
        world.add(pod.on(f"node-{number % count:05}"))
    world.add(a_class("late"))
    world.is_synced()
    return world


class Play:
    """One world, and pods that come, are attempted and go."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tag = 0

    async def waiting(self, lists: tuple[str, ...], steps: Steps, **spec: Any) -> None:
        """A pod waits, is attempted twice, and goes."""
        await self._life(lists, steps, attempt=True, **spec)

    async def hopeless(self, lists: tuple[str, ...], steps: Steps) -> None:
        """The same for one that fits nowhere, and may evict others."""
        await self._life(lists, steps, attempt=True, priority=10, overhead={"cpu": "1000"})

    async def running(self, lists: tuple[str, ...], steps: Steps) -> None:
        """A pod of another scheduler is on a node; others are attempted beside it."""
        await self._life(lists, steps, attempt=False, nodeName="node-00001", schedulerName=OTHER)

    async def _life(
        self, lists: tuple[str, ...], steps: Steps, *, attempt: bool, **spec: Any
    ) -> None:
        self.tag += 1
        tag = f"t{self.tag}"
        if "volumes" in lists:
            volumes, claims = claims_of(tag)
            self.world.see("PersistentVolume", map(struct, volumes))
            self.world.see("PersistentVolumeClaim", map(struct, claims))
        raw = pod_with(lists, tag, **spec)
        pod = struct(raw)
        relabelled = struct({**raw, "metadata": {**raw["metadata"], "labels": {"changed": tag}}})
        handler = self.world.core.event_handlers.handler("Pod")
        await self._step(steps, handler, [Change(None, pod)])
        if attempt:
            await self._attempts(steps)
            await self._step(steps, handler, [Change(pod, relabelled)])
            await self._attempts(steps)
        else:
            beside = make_pod(f"beside-{tag}").label(**{f"{tag}-{i}": "yes" for i in range(64)})
            self.world.add(beside)
            await self._attempts(steps)
            await self._step(steps, handler, [Change(pod, relabelled)])
            gone = struct(beside.obj())
            handler([Change(gone, None)])
        await self._step(steps, handler, [Change(relabelled, None)])
        await self.world.core.bindings.idle()

    async def _attempts(self, steps: Steps) -> None:
        core = self.world.core
        while core.queue.active:
            steps.begin()
            await core.scheduler.run_slice()
            steps.end()
            await asyncio.sleep(0)
        await core.bindings.idle()

    async def _step(self, steps: Steps, work: Callable[..., object], *args: Any) -> None:
        steps.begin()
        await slices.in_slices(work, *args)
        steps.end()


ROLES = ("waiting", "hopeless", "running")


def combinations(asked: str) -> list[tuple[str, ...]]:
    """The lists of the pods to look at."""
    single: list[tuple[str, ...]] = [(name,) for name in LISTS]
    known: dict[str, list[tuple[str, ...]]]
    known = {"single": single, "pairs": [*PAIRS], "all": [*EVERYTHING]}
    return known.get(asked) or [tuple(asked.split(","))]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--lists", default="single")
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--over", type=float, default=0.0, help="show only steps of so many ms")
    asked = parser.parse_args()
    play = Play(built(asked.nodes))
    freeze_after_sync()
    for lists in combinations(asked.lists):
        for role in asked.roles.split(","):
            worst: list[Step] = []
            for _ in range(asked.rounds):
                with watched() as steps:
                    await getattr(play, role)(lists, steps)
                worst.append(steps.worst())
            best = min(worst)
            if best.seconds * 1000 >= asked.over:
                print(
                    f"{'+'.join(lists):<40} {role:<9} {best.seconds * 1000:7.1f} ms"
                    f"  {best.since} -> {best.until}",
                    flush=True,
                )
    await play.world.core.stop()


if __name__ == "__main__":
    asyncio.run(main())
