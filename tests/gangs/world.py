"""A small cluster in which anything may happen to gangs, and what must hold whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error, unschedulable
from scheduler.model.workloads import POD_GROUP_LABEL, pod_group_of
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.outlet import StaleReason, never_stale
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.hints import HintRegistration
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.gangs.support import GroupBuilder, configured, make_group, member
from tests.pipeline.support import RecordingOutlet, Stage, turns

GROUPS = ("g", "h", "i")
UNDOING = ("unplaced", "refused", "error")


class SlowOutlet(RecordingOutlet):
    """Bindings end when the test ends them, well or badly; ``asked`` is called when they begin."""

    def __init__(self, asked: Callable[[PodInfo], None]) -> None:
        super().__init__()
        self.open: dict[str, asyncio.Future[Status]] = {}
        self._asked = asked

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self._asked(pod)
        future: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.open[pod.key] = future
        status = await future
        if status.ok:
            self.bound.append((pod.key, node))
        return status

    def nominate(self, pod: PodInfo, node: str) -> None:
        """No pod is nominated here, so nothing is taken back."""


class Moody:
    """Rejects, at permit and after all other plugins, the pods that are labelled so."""

    name = "Moody"

    def __init__(self, args: Any, handle: Any) -> None: ...

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        refused = "moody" in cycle.pod.pod.metadata.labels
        return (unschedulable("not today") if refused else SUCCESS), 0.0

    def hints(self) -> Sequence[HintRegistration]:
        return ()


class World:
    """Nodes, gangs and other pods. Names are given by number and never used again."""

    def __init__(self) -> None:
        self.outlet = SlowOutlet(self._begins_to_bind)
        config = configured()
        config["profiles"][0]["plugins"]["postFilter"] = {"disabled": [{"name": "*"}]}
        config["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "Moody"})
        self.stage = Stage({**IN_TREE, "Moody": Moody}, (config,), self.outlet)
        self.violations: list[str] = []
        self.pods: dict[str, PodBuilder] = {}
        self.nodes: dict[str, NodeBuilder] = {}
        self.groups: dict[str, GroupBuilder] = {}
        self.minimum: dict[str, int] = {}
        self.sizes: dict[str, set[str]] = {group: set() for group in GROUPS}
        self._number = 0

    # What may happen

    def add_node(self, cpus: int) -> None:
        name = self._name("n")
        self.nodes[name] = make_node(name).cpu(str(cpus))
        self.stage.see(self.nodes[name])

    def remove_node(self, which: int) -> None:
        if name := self._pick(self.nodes, which):
            self.stage.lose(self.nodes.pop(name))

    def set_group(self, group: str, minimum: int) -> None:
        self.groups[group] = make_group(group, minimum)
        self.minimum[group] = minimum
        self.stage.see(self.groups[group])

    def remove_group(self, group: str) -> None:
        if group in self.groups:
            self.stage.lose(self.groups.pop(group))
            del self.minimum[group]

    def add_pod(self, group: str, cpus: int, priority: int = 0) -> None:
        name = self._name("p")
        pod = member(name, group, str(cpus)) if group else make_pod(name).cpu(str(cpus))
        self.pods[name] = pod.priority(priority)
        if group:
            self.sizes[group].add(str(cpus))
        self.stage.see(self.pods[name])

    def add_moody_pod(self, group: str) -> None:
        name = self._name("p")
        self.pods[name] = member(name, group).label(moody="yes")
        self.sizes[group].add("1")
        self.stage.see(self.pods[name])

    def bind_by_others(self, which: int) -> None:
        """Another scheduler binds a pod to a node, which our watch has not shown."""
        if name := self._pick(self._without_node(), which):
            self.stage.see(self.pods[name].on("elsewhere"))

    def relabel(self, which: int, group: str) -> None:
        """A pod without a node changes its group."""
        if name := self._pick(self._without_node(), which):
            pod = self.pods[name].label(**{POD_GROUP_LABEL: group})
            self.sizes[group].add(
                pod.obj()["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            )
            self.stage.see(pod)

    def _without_node(self) -> dict[str, PodBuilder]:
        return {
            name: pod
            for name, pod in self.pods.items()
            if "nodeName" not in pod.obj()["spec"] and f"default/{name}" not in self.outlet.open
        }

    def remove_pod(self, which: int) -> None:
        if name := self._pick(self.pods, which):
            self.stage.lose(self.pods.pop(name))
            self._answer(f"default/{name}", error("NotFound: it is gone"))

    async def attempt(self) -> None:
        before, assumed = self._undone(), set(self._assumed())
        self.stage.attempt()
        if self._undone() > before:
            assert set(self._assumed()) == assumed, "a failed pass left something assumed"
        await turns()

    async def attempt_in_slices(self, meanwhile: Iterator[Callable[[], None]]) -> None:
        """One attempt that gives the loop back at each checkpoint, where something else happens.

        Until its members begin to be bound: what happens after that happens to bindings.
        """
        core, before, assumed = self.stage.core, self._undone(), set(self._assumed())
        bindings = len(core.bindings)
        attempt = asyncio.create_task(core.scheduler.in_turn(core.scheduler.schedule_one))
        await asyncio.sleep(0)
        while not attempt.done():
            happen = next(meanwhile, None) if len(core.bindings) == bindings else None
            if happen is not None:
                happen()
            await asyncio.sleep(0)
        await attempt
        if self._undone() > before:
            assert set(self._assumed()) <= assumed, "a failed pass left something assumed"
        await turns()

    def answer(self, which: int, well: bool) -> None:
        """One binding ends; a good one is seen by the watch."""
        if key := self._pick(self.outlet.open, which):
            self._answer(key, SUCCESS if well else error("the API server is busy"))

    def finish(self, which: int, phase: str) -> None:
        """A pod on a node ends."""
        placed = {name: pod for name, pod in self.pods.items() if "nodeName" in pod.obj()["spec"]}
        if name := self._pick(placed, which):
            self.stage.see(self.pods[name].phase(phase))

    async def pass_time(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)
        self.stage.core.queue.flush()
        await turns()
        self.see_bindings()

    def see_bindings(self) -> None:
        """The watch shows all that was bound."""
        for key, node in self.outlet.bound:
            name = key.split("/")[1]
            if name in self.pods and "nodeName" not in self.pods[name].obj()["spec"]:
                self.stage.see(self.pods[name].on(node))
        self.outlet.bound.clear()

    # What must hold

    def _begins_to_bind(self, pod: PodInfo) -> None:
        """The law: a bound pod belongs to a gang of which enough members hold nodes."""
        group = pod_group_of(pod.pod.metadata)
        if group is None:
            return
        minimum = self.minimum.get(group.split("/")[1])
        placed = self._placed(group)
        if minimum is None or placed < minimum:
            self.violations.append(f"{pod.key} is bound, and {placed} of {minimum} are placed")

    async def settle(self) -> None:
        """Nothing happens any more but what the scheduler does; well within the unschedulable
        timeout, so that it is events that bring gangs back."""
        for _ in range(24):
            while self.stage.core.queue.view.counts()["active"]:
                await self.attempt()
            while self.outlet.open:
                self.answer(0, True)
                await turns()
            await self.pass_time(2.0)

    def check(self) -> None:
        """No pod waits that could be placed: there is no deadlock, and no lost event."""
        assert not self.violations
        core, held = self.stage.core, self._held()
        assert core.queue.view.counts()["in-flight"] == len(held)
        for group, minimum in self.minimum.items():
            key = f"default/{group}"
            waiting = [
                name
                for name, pod in self.pods.items()
                if not pod.obj()["spec"].get("nodeName")
                and pod_group_of(pod.struct().metadata) == key
                and core.state.pod(f"uid-{name}") is None
                and "moody" not in pod.obj()["metadata"]["labels"]
            ]
            lacking = minimum - self._placed(key)
            if lacking <= 0 or len(waiting) < lacking or len(self.sizes[group]) != 1:
                continue
            (size,) = self.sizes[group]
            assert self._room(int(size)) < lacking, f"{group} fits, and waits"
        for name in self.nodes:
            described = core.state.describe(name)
            assert described["requested"].get("cpu", 0) <= described["allocatable"]["cpu"]

    def _room(self, cpus: int) -> int:
        room = 0
        for name in self.nodes:
            described = self.stage.core.state.describe(name)
            free = described["allocatable"]["cpu"] - described["requested"].get("cpu", 0)
            room += max(0, free // (1000 * cpus))
        return room

    def _placed(self, group: str) -> int:
        """How many members hold a node or have succeeded, counted anew."""
        count = 0
        for name, pod in self.pods.items():
            struct = pod.struct()
            if pod_group_of(struct.metadata) == group:
                holds = self.stage.core.state.pod(f"uid-{name}") is not None
                count += holds or struct.status.phase == "Succeeded"
        return count

    def _held(self) -> list[str]:
        return list(self.stage.core.frameworks["equipoise"].waiting)

    def _assumed(self) -> list[str]:
        state = self.stage.core.state
        return [name for name in self.pods if state.assumed(f"uid-{name}")]

    def _undone(self) -> float:
        samples = (self.stage.sample("equipoise_gang_passes_total", result=r) for r in UNDOING)
        return sum(samples)

    def _answer(self, key: str, status: Status) -> None:
        if future := self.outlet.open.pop(key, None):
            future.set_result(status)

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    @staticmethod
    def _pick(among: Mapping[str, object], which: int) -> str | None:
        names = list(among)
        return names[which % len(names)] if names else None
