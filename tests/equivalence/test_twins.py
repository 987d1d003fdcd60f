"""Two schedulers that get the same events, one of which caches nothing, do the same.

Who is tried when depends on whom an event wakes, and equal pods that wait are woken one after the
other. So that this shows in nothing but effort, both queues go by priority and name, without
back-off, and every binding is confirmed before the next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.queueing.queued_pod import Backoff
from tests.equivalence.searching import SETTINGS, SHORTER, Change, changes
from tests.equivalence.templates import PROFILES, TEMPLATES, waiting
from tests.equivalence.things import KINDS
from tests.equivalence.world import World

MOST_ATTEMPTS = 2000
FAULTY = ("broken disk",)
"""Pods that fail by a fault: without back-off they would be tried for ever."""

REMOTE_ANSWERS = tuple(kind for kind in KINDS if kind != "StorageClass")


class Twin(World):
    """A world that settles by itself."""

    def __init__(self, *, reserve: bool = False, **equivalence: Any) -> None:
        super().__init__(reserve=reserve, **equivalence)
        self.core.queue._backoff = Backoff(maximum=0)
        self.failing: set[str] = set()
        """Pods whose next binding fails."""
        self.evictions: list[str] = []

    async def settle(self) -> None:
        """Attempt all ready pods, and deliver all that follows from it."""
        self.clock.advance(5)
        self.core.queue.flush()
        for _ in range(MOST_ATTEMPTS):
            if await self.attempt() is None:
                return
            await self.come_true()
        raise AssertionError("some pod is tried over and over again")

    async def come_true(self) -> None:
        for key in list(self.outlet.binding):
            ok = key not in self.failing
            self.failing.discard(key)
            await self.answer(key, ok=ok)
        while self.outlet.evicted:
            key = self.outlet.evicted.pop(0)
            self.evictions.append(key)
            self.traits.pop(("Pod", key.split("/")[1]), None)
            if ("Pod", key) in self.seen:
                self.lose(("Pod", key))
                await self.turns()

    async def try_all(self) -> None:
        """Attempt all pods again, so that all messages are about the current cluster."""
        self.core.queue.activate([entry.pod for entry in self.core.queue.view.snapshot()])
        await self.settle()

    def outcome(self) -> dict[str, Any]:
        """Who is where, and who waits for what."""
        state = self.core.state
        return {
            "bound": self.outlet.bound,
            "evicted": self.evictions,
            "assumed": {info.key: info.node_name for info in state.assumed_pods()},
            "promised": {
                info.key: node
                for node in state.nominations.nodes()
                for info in state.nominations.on(node)
            },
            "tiers": {entry.pod: entry.tier for entry in self.core.queue.view.snapshot()},
        }

    def words(self) -> dict[str, Any]:
        """Why each pod waits."""
        return {
            entry.pod: (entry.plugins, entry.message) for entry in self.core.queue.view.snapshot()
        }


class Twins(RuleBasedStateMachine):
    """Sends two worlds the same events."""

    key = "Content"
    reserve = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.keeping = Twin(reserve=self.reserve, key=self.key)
        self.forgetful = Twin(reserve=self.reserve, enabled=False)
        self.count = 0

    def teardown(self) -> None:
        try:
            self.they_settle()
        finally:
            for world in (self.keeping, self.forgetful):
                self.run(world.close())
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)

    def both(self, verb: str, *args: Any, **kwargs: Any) -> None:
        async def work() -> None:
            for world in (self.keeping, self.forgetful):
                getattr(world, verb)(*args, **kwargs)
                await world.turns()

        self.run(work())

    @initialize()
    def a_small_cluster(self) -> None:
        for i in range(3):
            self.both("change", "Node", f"n{i}", zone=i % 3, rack=i % 2)
            self.both("change", "CSINode", f"n{i}", limit=2)
        for name in ("late", "now"):
            self.both("change", "StorageClass", name)
        for i in range(3):
            self.both("change", "PersistentVolume", f"v{i}")
        self.both("change", "PersistentVolumeClaim", "c0", volume=1)

    @rule(change=changes(*REMOTE_ANSWERS))
    def something_comes_or_changes(self, change: Change) -> None:
        kind, name, traits = change
        self.both("change", kind, name, **traits)

    @rule(change=changes("Node", "Pod"))
    def nodes_and_pods_come_or_change(self, change: Change) -> None:
        self.something_comes_or_changes(change)

    @precondition(lambda self: self.keeping.traits)
    @rule(data=st.data())
    def something_goes(self, data: st.DataObject) -> None:
        there = sorted(self.keeping.traits.keys() & self.forgetful.traits.keys())
        self.both("remove", *data.draw(st.sampled_from(there)))

    @rule(
        template=st.sampled_from(sorted(TEMPLATES.keys() - set(FAULTY))),
        profile=st.sampled_from(PROFILES),
        number=st.integers(1, 4),
        failing=st.booleans(),
    )
    def pods_arrive(self, template: str, profile: str, number: int, failing: bool) -> None:
        for _ in range(number):
            self.count += 1
            pod = waiting(template, f"w{self.count:02}", profile)
            if failing:
                for world in (self.keeping, self.forgetful):
                    world.failing.add(f"default/w{self.count:02}")
            self.both("see", pod.obj())

    @rule()
    def they_settle(self) -> None:
        for world in (self.keeping, self.forgetful):
            self.run(world.settle())
        assert self.keeping.outcome() == self.forgetful.outcome()
        for world in (self.keeping, self.forgetful):
            self.run(world.try_all())
        assert self.keeping.outcome() == self.forgetful.outcome()
        assert self.keeping.words() == self.forgetful.words()


class TwinsByController(Twins):
    """The same where only pods of one controller may share a class."""

    key = "ControllerRef"


class TwinsWithReserve(Twins):
    """The same with the reserve cache of NUMA cells."""

    reserve = True


TestTwins = Twins.TestCase
TestTwins.settings = SETTINGS
TestTwinsByController = TwinsByController.TestCase
TestTwinsByController.settings = SHORTER
TestTwinsWithReserve = TwinsWithReserve.TestCase
TestTwinsWithReserve.settings = SHORTER
