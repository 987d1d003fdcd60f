"""One run: a scheduler in a world, from the first arrival to two NRT periods after the last."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, never_stale
from tests.numa.churn.scenario import OURS, Scenario
from tests.numa.churn.world import World

PLUGIN = "NodeResourceTopologyMatch"
_TICK = 0.25
_MOST_ATTEMPTS = 5_000
"""At one instant; no pod waits as long as that."""
_SETTLE = 5.0
"""Seconds beyond the two NRT periods, for what is under way to arrive."""


class Mode(Enum):
    """The scheduler's source of cells."""

    PLAIN = "no plugin"
    NO_CACHE = "cache off"
    CACHE = "cache on"
    """The default: what the daemon does without a configuration file."""
    CLAIRVOYANT = "clairvoyant"


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run."""

    mode: Mode
    seed: int
    errors: int
    """Pods of ours that kubelets refused, but for those below."""
    foreign_errors: int
    """Refused because of foreign bindings that our watch had not delivered yet."""
    mean_use: float
    """CPUs in use over allocatable ones, while pods arrived and after the cluster had filled."""
    final_use: float
    p50: float
    p99: float
    """Seconds from the wish for a pod to its running."""
    never_ran: int
    left: int
    """Pending at the end although they would fit."""
    arrivals: int
    samples: tuple[str, ...] = ()
    """The first errors in words."""
    journal: tuple[str, ...] = ()
    """What had happened on the node of the first error."""


def configuration(mode: Mode) -> list[dict[str, Any]]:
    """The scheduler's configuration documents."""
    if mode is Mode.CACHE:
        return []
    profile: dict[str, Any] = {"schedulerName": OURS}
    if mode is not Mode.PLAIN:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": 5}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return [document]


class _Outlet:
    """Binds at once in the world; all other writes are dropped."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        return SUCCESS if self._world.bind(pod.key, node) else error("the pod is gone")

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Nobody reads it."""

    async def send(self, request: ObjectRequest) -> Any:
        raise AssertionError("no pod has claims")

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        raise AssertionError("all pods are equal, so nobody has to go")

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Nobody reads it."""

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Nobody reads it."""

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nobody reads it."""


def run(scenario: Scenario, mode: Mode) -> Report:
    """Play a scenario to its end."""
    return asyncio.run(_Run(scenario, mode).play())


class _Run:
    def __init__(self, scenario: Scenario, mode: Mode) -> None:
        self._scenario = scenario
        self._mode = mode
        self._world = World(scenario, instant=mode is Mode.CLAIRVOYANT)
        self._core: Core | None = None
        self._ticking = False

    async def play(self) -> Report:
        world, scenario = self._world, self._scenario
        self._start()
        for at in scenario.restarts:
            world.clock.at(at, self._start)
        end = scenario.seconds + 2 * scenario.publish_seconds + _SETTLE
        while world.clock.step(end):
            await self._schedule()
        world.count()
        return self._report()

    def _start(self) -> None:
        """A new scheduler takes over; what the old one had in hand is lost."""
        config = from_dicts(configuration(self._mode), available(), environ={})
        core = assemble(config, _Outlet(self._world), Metrics(), clock=self._world.clock)
        self._core = core
        self._world.restart(lambda kind, changes: core.event_handlers.handler(kind)(changes))

    async def _schedule(self) -> None:
        """Try whom there is to try; with perfect knowledge, one at a time."""
        core = self._core
        assert core is not None, "a run begins with a scheduler"
        core.queue.flush()
        for _ in range(_MOST_ATTEMPTS):
            if core.scheduler.schedule_one() is None:
                break
            if self._mode is Mode.CLAIRVOYANT:
                await core.bindings.idle()
        else:
            now = self._world.clock.now
            raise AssertionError(f"at {now:.2f} s pods are tried in circles: {self._scenario}")
        await core.bindings.idle()
        counts = core.queue.view.counts()
        if not self._ticking and (counts["backoff"] or counts["error-backoff"]):
            self._ticking = True
            self._world.clock.at(self._world.clock.now + _TICK, self._tick)

    def _tick(self) -> None:
        """Time passes for pods that back off."""
        self._ticking = False

    def _report(self) -> Report:
        world, scenario = self._world, self._scenario
        mine = [story for story in world.stories if not story.arrival.foreign]
        waits = sorted(s.ran_at - s.arrival.at for s in mine if s.ran_at is not None)
        errors = [each for each in world.tally.errors if not each.foreign]
        window = scenario.seconds * 3 / 4
        return Report(
            self._mode,
            scenario.seed,
            len(errors),
            len(world.tally.errors) - len(errors),
            world.tally.cpu_seconds / window / scenario.capacity,
            world.cpus_in_use / scenario.capacity,
            _quantile(waits, 0.5),
            _quantile(waits, 0.99),
            sum(s.ran_at is None and s.arrival.patience is None for s in mine),
            self._left(),
            len(world.stories),
            tuple(
                f"{each.at:.2f}s {each.pod} on {each.node}: {each.refusal.reason}"
                for each in errors[:5]
            ),
            errors[0].journal if errors else (),
        )

    def _left(self) -> int:
        """How many pods that wait would fit after all, one after the other."""
        kubelets = copy.deepcopy(list(self._world.kubelets.values()))
        waiting = [
            pod
            for pod in self._world.pods.values()
            if pod.spec.scheduler_name == OURS and not pod.spec.node_name and not pod.finished
        ]
        return sum(any(kubelet.admit(pod) is None for kubelet in kubelets) for pod in waiting)


def _quantile(ordered: list[float], share: float) -> float:
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
