"""A core without edges, an outlet that remembers, and short words for what tests do with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.framework.registry import Registry
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, never_stale
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.checker import differences
from tests.builders import Json
from tests.patience import PATIENCE


class Note(NamedTuple):
    """An event that was published about a pod."""

    pod: str
    type: str
    reason: str
    action: str
    note: str


class Word(NamedTuple):
    """A condition that was put on a pod."""

    pod: str
    reason: str
    message: str


class RecordingOutlet:
    """Binds at once, or when and as ``answer`` says, if that is not stale, and remembers all."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.events: list[Note] = []
        self.conditions: list[Word] = []
        self.nominations: list[tuple[str, str]] = []
        self.answer: Callable[[PodInfo, str], Awaitable[Status]] | None = None

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        status = SUCCESS if self.answer is None else await self.answer(pod, node)
        if status.ok and (reason := stale()):
            status = error(reason)
        if status.ok:
            self.bound.append((pod.key, node))
        return status

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        raise AssertionError("nothing here patches objects")

    async def send(self, request: ObjectRequest) -> Any:
        raise AssertionError("nothing here writes objects")

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        raise AssertionError("nothing here evicts pods")

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        self.events.append(Note(pod.key, type_, reason, action, note))

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.conditions.append(Word(pod.key, reason, message))

    def nominate(self, pod: PodInfo, node: str) -> None:
        self.nominations.append((pod.key, node))


class Builder(Protocol):
    """What tests say an object with."""

    def obj(self) -> Json: ...

    def struct(self) -> Any: ...


class Change(NamedTuple):
    old: Any
    new: Any


class FakeClock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.now = 100.5

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class TickingClock(FakeClock):
    """Moves a little whenever it is read, so that no two things happen at once."""

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


class Stage:
    """A core, fed by hand: what the watch would say is said by the test."""

    def __init__(
        self,
        registry: Registry = IN_TREE,
        config: tuple[Json, ...] = (),
        outlet: RecordingOutlet | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.outlet = outlet or RecordingOutlet()
        self.clock = clock or FakeClock()
        self.metrics = Metrics()
        self.core: Core = assemble(
            from_dicts(config, available(registry), environ={}),
            self.outlet,
            self.metrics,
            registry=registry,
            # Preemption has tests of its own, with an outlet that evicts.
            without=() if outlet else ("postFilter",),
            clock=self.clock,
        )
        self._truth: dict[tuple[str, str], Any] = {}

    def see(self, *objects: Builder) -> None:
        """The watch reports objects as they are now."""
        for builder in objects:
            kind, new = builder.obj()["kind"], builder.struct()
            key = (kind, new.metadata.key)
            self.core.event_handlers.handler(kind)([Change(self._truth.get(key), new)])
            self._truth[key] = new

    def lose(self, *objects: Builder) -> None:
        """The watch reports that objects are gone."""
        for builder in objects:
            kind = builder.obj()["kind"]
            old = self._truth.pop((kind, builder.struct().metadata.key))
            self.core.event_handlers.handler(kind)([Change(old, None)])

    def attempt(self) -> QueuedPod | None:
        """One attempt, up to the start of binding."""
        return self.core.scheduler.schedule_one()

    async def run(self) -> None:
        """Attempt pods until none is active, and let all bindings end."""
        while self.core.queue.active:
            self.attempt()
        await self.idle()

    async def idle(self) -> None:
        """All bindings have ended; a test that waits in vain fails."""
        async with asyncio.timeout(PATIENCE):
            await self.core.bindings.idle()

    async def later(self, seconds: float) -> None:
        """Let time pass, and go on."""
        self.clock.advance(seconds)
        self.core.queue.flush()
        await self.run()

    def tiers(self) -> dict[str, str]:
        """Where each waiting pod stands, by its short name."""
        return {entry.pod.split("/")[1]: entry.tier for entry in self.core.queue.view.snapshot()}

    def cpu(self, node: str) -> int:
        """Milli-CPUs in use on a node."""
        requested: dict[str, int] = self.core.state.describe(node)["requested"]
        return requested.get("cpu", 0)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def check(self) -> None:
        """The state says what the watch said."""
        nodes = [new for (kind, _), new in self._truth.items() if kind == "Node"]
        pods = [new for (kind, _), new in self._truth.items() if kind == "Pod"]
        assert differences(self.core.state, nodes, pods) == []


async def turns(count: int = 5) -> None:
    """Let tasks that are ready run for a few turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
