"""What a pod's status says of its wait is true after whatever happens to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.registry import Registry
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.pipeline.permits import NotWaiting, PermitDecision, Undecidable
from scheduler.plugin_api.waiting import WAITING_ON_PERMIT
from scheduler.plugins.table import IN_TREE
from tests.builders import PodBuilder, make_pod, make_worker
from tests.pipeline.support import Stage, turns

PLUGINS = ("First", "Second")


def holding(plugin: str) -> type:
    """A plugin that has pods wait whose label says so."""

    class Holding:
        name = plugin

        def __init__(self, args: object, handle: object) -> None: ...

        def permit(self, cycle: Any, node: str) -> tuple[Status, float]:
            held = plugin in cycle.pod.pod.metadata.labels
            return (Status(Code.WAIT), 600.0) if held else (SUCCESS, 0.0)

    return Holding


REGISTRY: Registry = {**IN_TREE, **{name: holding(name) for name in PLUGINS}}


class World:
    """A stage, and what was said of its pods last."""

    def __init__(self) -> None:
        enabled = [{"name": name} for name in PLUGINS]
        profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
        document = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
        self.stage = Stage(REGISTRY, config=(document,))
        self.stage.see(make_worker("n1").cpu(100))
        self.pods: list[PodBuilder] = []
        self.gone: set[str] = set()
        self.held: set[str] = set()
        self.nudges = 0

    async def submit(self, *plugins: str) -> None:
        name = f"p{len(self.pods)}"
        pod = make_pod(name).cpu(1).label(**dict.fromkeys(plugins, "yes"))
        self.pods.append(pod)
        if plugins:
            self.held.add(f"default/{name}")
        self.stage.see(pod)
        await self.settle()

    async def decide(self, verb: Any, number: int, plugin: str) -> None:
        if self.pods:
            key = f"default/p{number % len(self.pods)}"
            with suppress(NotWaiting, Undecidable):
                self.stage.core.permits.decide(PermitDecision(verb, key, "alice", plugin=plugin))
            await self.settle()

    async def delete(self, number: int) -> None:
        if self.pods:
            name = f"p{number % len(self.pods)}"
            key = f"default/{name}"
            if key not in self.gone and key not in self.bound():
                self.gone.add(key)
                self.stage.lose(self.pods[number % len(self.pods)])
                await self.settle()

    async def wait(self) -> None:
        self.stage.clock.advance(400.0)
        self.stage.core.queue.flush()
        await self.settle()

    async def nudge(self) -> None:
        """Something happens to the node: who was rejected is tried again after a back-off."""
        self.nudges += 1
        self.stage.see(make_worker("n1").cpu(100).label(nudge=str(self.nudges)))
        self.stage.clock.advance(11.0)
        self.stage.core.queue.flush()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(4):
            while self.stage.attempt() is not None:
                await turns()
            await turns()

    def bound(self) -> dict[str, str]:
        return dict(self.stage.outlet.bound)

    def check(self) -> None:
        outlet, core = self.stage.outlet, self.stage.core
        nominations = dict(outlet.nominations)
        words = {word.pod: word for word in outlet.conditions}
        waiting = {entry.pod: entry for entry in core.permits.entries()}
        queued = {entry.pod for entry in core.queue.view.snapshot()}
        for number in range(len(self.pods)):
            key = f"default/p{number}"
            places = [key in self.gone, key in self.bound(), key in waiting, key in queued]
            assert sum(places) == 1, f"{key} is in one place: {places}"
            if key in waiting:
                assert nominations[key] == waiting[key].node
                assert words[key].reason == WAITING_ON_PERMIT
                assert all(plugin in words[key].message for plugin in waiting[key].plugins)
            elif key in queued:
                assert nominations.get(key, "") == "", "it has given its node back, and says so"
                assert words[key].reason != WAITING_ON_PERMIT
            if key not in self.held:
                assert key not in nominations, "a pod that is bound at once says nothing"
        assert core.state.assumed_count == len(waiting) + len(self.bound())


STEPS = st.one_of(
    st.tuples(st.just("submit"), st.sets(st.sampled_from(PLUGINS))),
    st.tuples(
        st.sampled_from(["approve", "reject"]),
        st.integers(0, 4),
        st.sampled_from(["", *PLUGINS]),
    ),
    st.tuples(st.just("delete"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["wait", "nudge"])),
)


@given(st.lists(STEPS, max_size=12))
@example([("submit", {"First"}), ("reject", 0, ""), ("nudge",), ("reject", 0, "")])
def test_status_tells_the_truth_about_every_wait(steps: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        world = World()
        for step in steps:
            match step:
                case ("submit", plugins):
                    await world.submit(*sorted(plugins))
                case (("approve" | "reject") as verb, number, plugin):
                    await world.decide(verb, number, plugin)
                case ("delete", number):
                    await world.delete(number)
                case ("nudge",):
                    await world.nudge()
                case _:
                    await world.wait()
            world.check()
        await world.stage.core.stop()

    asyncio.run(play())
