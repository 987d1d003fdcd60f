"""How many more pods like one fit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from msgspec import structs

from scheduler.assembly import Core
from scheduler.explaining.replicas import by_sums
from scheduler.framework.runtime import Framework
from scheduler.model.objects import Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, PodStatus
from scheduler.simulation.loading import (
    Config,
    Object,
    batching,
    completed,
    decode,
    framework_of,
    load,
    offline_core,
    with_uid,
)
from scheduler.simulation.outlet import OfflineOutlet, StillClock
from scheduler.simulation.placing import place_waiting, settle

MOST_BY_SUMS = 10_000_000
"""More pods are not counted, even where counting costs nothing."""


MOST_PLACED = 10_000
"""So many pods are placed to see how many fit, where only that tells."""


_FIRST_PORTION = 256


class More(NamedTuple):
    """How many more pods fit."""

    fit: int
    complete: bool
    """Whether no more do; otherwise no more were tried."""
    nodes: dict[str, int]
    """How many go to each node, in one way of placing them."""


MorePods = Callable[[int], Iterable[Object]]
"""The objects of so many pods, without those that it has returned before."""


def how_many_more(
    objects: Iterable[Object],
    pod: Object,
    config: Config = None,
    most: int = MOST_PLACED,
    *,
    copies: MorePods | None = None,
) -> More:
    """How many more pods like this one fit together, when all that wait are placed.

    The pod itself, if it is among the objects, is placed like any other and not counted. Where
    filters read nothing of other pods but what they request, the number follows from sums of
    columns. Otherwise pods are placed until one fits nowhere, ``most`` at most. Pods that have
    claims of their own come with them from ``copies``.
    """
    return asyncio.run(_how_many_more(list(objects), pod, config, most, copies))


async def _how_many_more(
    objects: list[Object], pod: Object, config: Config, most: int, copies: MorePods | None
) -> More:
    recorder, clock = OfflineOutlet(), StillClock()
    core = offline_core(batching(config, objects, False), objects, recorder, clock)
    try:
        await place_waiting(core, recorder, load(core, objects), clock)
        if copies is not None:
            added = partial(_loaded, core, copies)
            return await _placed_until_full(core, recorder, clock, added, most)
        own = completed(core, decode(pod, Pod, "Pod"))
        framework = framework_of(core, own)
        # Of a pod that another scheduler places, it counts how many more this one would.
        spec = structs.replace(own.spec, scheduler_name=framework.profile)
        own = structs.replace(own, spec=spec)
        info = PodInfo(_another(own, 0), core.config.equipoise.limits)
        sums = _counted_by_sums(core, framework, info)
        if sums is None:
            added = partial(_copied, core, own)
            return await _placed_until_full(core, recorder, clock, added, most)
        nodes = {name: number for name, number in sorted(sums.items()) if number}
        return More(sum(nodes.values()), True, nodes)
    finally:
        await core.stop()


def _counted_by_sums(core: Core, framework: Framework, info: PodInfo) -> dict[str, int] | None:
    """How many pods each node takes; None if others than filters, or more than sums, decide."""
    if framework.remote.enabled and framework.remote.concerns(info):
        return None
    if framework.groups is not None and framework.groups.group_of(info) is not None:
        return None
    return by_sums(framework, core.state, info, MOST_BY_SUMS)


async def _placed_until_full(
    core: Core,
    recorder: OfflineOutlet,
    clock: StillClock,
    added: Callable[[int, int], list[str]],
    most: int,
) -> More:
    """Place pods like one, ever more at a time, until some fit nowhere."""
    nodes: Counter[str] = Counter()
    made, complete = 0, False
    while made < most and not complete:
        number = min(max(made, _FIRST_PORTION), most - made)
        names = added(made, number)
        await settle(core, recorder, clock)
        found = [recorder.bound[name] for name in names if name in recorder.bound]
        nodes.update(found)
        made, complete = made + number, len(found) < number
    return More(nodes.total(), complete, dict(sorted(nodes.items())))


def _copied(core: Core, pod: Pod, made: int, number: int) -> list[str]:
    """Have so many copies of a pod come, after those that were made; returns their names."""
    copies = [_another(pod, made + i) for i in range(number)]
    core.event_handlers.handler("Pod")([Change(None, copy) for copy in copies])
    return [copy.key for copy in copies]


def _loaded(core: Core, copies: MorePods, made: int, number: int) -> list[str]:
    """Have so many more pods come with their claims; returns their names."""
    return [info.key for info in load(core, copies(made + number))]


def _another(pod: Pod, number: int) -> Pod:
    """A pod like this one that waits: nothing has befallen it yet."""
    name = f"{pod.metadata.name}-more-{number}"
    metadata = structs.replace(pod.metadata, name=name, uid="", deletion_timestamp=None)
    spec = structs.replace(pod.spec, node_name="", scheduling_gates=())
    named: Pod = with_uid(structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus()))
    return named
