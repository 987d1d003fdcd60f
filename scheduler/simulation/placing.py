"""Schedules all pods that wait, until no attempt would change anything."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from msgspec import structs

from scheduler.assembly import Core
from scheduler.flow.problem import Solution
from scheduler.model.objects import Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.workloads import pod_group_of
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.queueing.queued_pod import Tier
from scheduler.simulation.loading import Config, Object, batching, load, of_daemon_set, offline_core
from scheduler.simulation.outlet import PREEMPTED, OfflineOutlet, StillClock

T = TypeVar("T")


class Placed(NamedTuple):
    """Where a pod went, or why it waits."""

    pod: str
    node: str | None
    message: str


Look = Callable[[Core, list[PodInfo], list["Placed"]], T]
"""Called when all is placed, with the core, the pods that waited, and their outcome."""


class Eviction(NamedTuple):
    """An evicted pod, the pod for which it was evicted, and its node."""

    pod: str
    by: str
    node: str


def eviction_of(placed: Placed) -> Eviction | None:
    """What the message of a pod says about its eviction; None if it was not evicted."""
    if placed.node is not None or not placed.message.startswith(PREEMPTED):
        return None
    by, _, node = placed.message.removeprefix(PREEMPTED).partition(" on node ")
    return Eviction(placed.pod, by, node.partition(" ")[0])


def place(
    objects: Iterable[Object],
    config: Config = None,
    *,
    evict: bool = False,
    prepare: bool = False,
) -> list[tuple[str, str | None, str]]:
    """Schedule every pending pod that names one of our schedulers (or none), in queue order.

    A pod that fits nowhere, also after all others are placed, comes with its message. Volumes are
    bound, or made on the node of their pod, as soon as it has one. Evicts no pod, unless ``evict``
    says so: post-filters run then, and victims are gone and come last, with who took their place.
    With ``prepare``, plugins from outside the tree prepare nodes (pre-bind) too; what they do
    elsewhere they do for real.
    """
    return list(asyncio.run(_place(objects, config, evict, prepare)))


async def _place(
    objects: Iterable[Object], config: Config, evict: bool, prepare: bool
) -> list[Placed]:
    recorder = OfflineOutlet()
    objects = list(objects)
    clock = StillClock()
    core = offline_core(config, objects, recorder, clock, evict=evict, prepare=prepare)
    try:
        return await place_waiting(core, recorder, load(core, objects), clock)
    finally:
        await core.stop()


def played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    *,
    batch: bool | None,
    begin: Callable[[Core], None] | None = None,
    watch: Callable[[BatchProblem, Solution], None] | None = None,
    evict: bool = False,
) -> T:
    """Schedule as ``place`` does, and pass the result to ``look``.

    At once, one by one, or with ``batch=None`` as the configuration says. ``begin`` sees the
    cluster before.
    """
    return asyncio.run(_played(objects, config, look, batch, begin, watch, evict))


async def _played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    batch: bool | None,
    begin: Callable[[Core], None] | None,
    watch: Callable[[BatchProblem, Solution], None] | None,
    evict: bool,
) -> T:
    recorder = OfflineOutlet()
    objects = list(objects)
    clock = StillClock()
    if batch is not None:
        config = batching(config, objects, batch)
    core = offline_core(config, objects, recorder, clock, evict=evict)
    if core.scheduler.batches is not None:
        core.scheduler.batches.watch = watch
        core.scheduler.batches.reports = deque()  # all of them, however many
    waiting = load(core, objects)
    if begin is not None:
        begin(core)
    try:
        return look(core, waiting, await place_waiting(core, recorder, waiting, clock))
    finally:
        await core.stop()


async def place_waiting(
    core: Core, recorder: OfflineOutlet, waiting: list[PodInfo], clock: StillClock
) -> list[Placed]:
    recorder.names = {info.uid: info.key for info in waiting}
    core.scheduler.begin()
    await core.background.idle()
    await _place_daemons(core, recorder, waiting)
    at_once: dict[str, None] = {}
    if core.scheduler.batches is not None and core.scheduler.batches.due:
        ready = Tier.ACTIVE.value
        at_once = dict.fromkeys(e.pod for e in core.queue.view.snapshot() if e.tier == ready)
        while (head := core.queue.peek()) is not None and not head.attempts:
            if not await core.scheduler.run_batch():
                break
            await _bound(core, recorder)
    await settle(core, recorder, clock)
    # In the order of their first attempt; those that are never tried (gated) come last.
    order = at_once | recorder.tried | dict.fromkeys(info.key for info in waiting)
    order = {key: None for key in order if key not in recorder.evicted} | recorder.evicted
    for entry in core.queue.view.snapshot():
        recorder.messages.setdefault(entry.pod, entry.message)
    for info in waiting:
        if info.pod.deleting:
            recorder.messages.setdefault(info.key, "the pod is being deleted")
    return [Placed(key, recorder.bound.get(key), _message(recorder, key)) for key in order]


async def _place_daemons(core: Core, recorder: OfflineOutlet, waiting: Iterable[PodInfo]) -> None:
    """Attempt pods of DaemonSets before all others, as on nodes that have just joined.

    Those of pod groups wait for their groups.
    """
    daemons = [
        info.key
        for info in waiting
        if of_daemon_set(info.pod) and pod_group_of(info.pod.metadata) is None
    ]
    for profile in core.frameworks:
        for queued in core.queue.pop_together(daemons, profile):
            core.scheduler.schedule_popped(queued)
            await _bound(core, recorder)


async def settle(core: Core, recorder: OfflineOutlet, clock: StillClock) -> None:
    """Attempt pods until no attempt would change anything, as in a cluster at rest.

    Pods that were placed or evicted may have cured others, which back off: time passes for them,
    as long as some pod was since it last did.
    """
    pause, before = 2.0 * core.config.scheduler.pod_max_backoff_seconds, -1
    while recorder.progress > before:
        before = recorder.progress
        while core.scheduler.schedule_one() is not None:
            await _bound(core, recorder)
        clock.now += pause
        core.queue.flush()


async def _bound(core: Core, recorder: OfflineOutlet) -> None:
    """Let attempts and bindings end, and the watch deliver them."""
    await core.scheduler.finish_suspended()
    await core.bindings.idle()
    await core.background.idle()
    told = [
        Change(pod, structs.replace(pod, spec=structs.replace(pod.spec, node_name=node)))
        for pod, node in recorder.unseen
    ]
    recorder.unseen.clear()
    core.event_handlers.handler("Pod")(told)


def _message(recorder: OfflineOutlet, key: str) -> str:
    return "" if key in recorder.bound else recorder.messages.get(key, "")
