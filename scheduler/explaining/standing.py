"""How far a pod is in a running scheduler: from the queue, bindings, suspension and nominations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice

from msgspec.structs import replace

from scheduler import machine
from scheduler.assembly import Core
from scheduler.explaining import pod_progress
from scheduler.explaining.pod_progress import PodProgress
from scheduler.explaining.wake_events import WakeEvents, wake_events
from scheduler.framework.runtime import Framework
from scheduler.gangs.registry import find_registry
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.workloads import pod_group_of
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.permits import permit_waits
from scheduler.queueing.queued_pod import Tier
from scheduler.queueing.view import QueueEntry

MOST_NAMED = 20
"""Of the pods that a pod waits for, so many are named."""
_UNTRIED = "what a pod waits for is known to the leader"


def standing(core: Core, pod: Pod, info: PodInfo, leading: bool) -> PodProgress:
    """How far a pod is, by what the API server has said of it and by what is under way here.

    Only the leader's queue has the state of a pod. O(pods that are being bound, pods on the
    nominated node, members of the group).
    """
    on_its_way = pod_progress.beyond_scheduling(pod)
    if on_its_way is not None:
        return on_its_way
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        return pod_progress.elsewhere(pod, core.frameworks)
    if (placed := core.state.pod(info.uid)) is not None:
        return _holding(core, info.uid, placed.node_name)
    if core.suspension.awaits(info.uid):
        return _suspended(core, info.uid)
    if core.queue.is_in_flight(info.uid):
        return PodProgress("in-flight")
    return _queued(core, framework, info, leading)


def hypothetical(core: Core, pod: Pod, info: PodInfo) -> PodProgress:
    """How far a pod would be that does not exist, right after its creation."""
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        return pod_progress.elsewhere(pod, core.frameworks)
    gate = pod_progress.gated(framework, info)
    if gate is not None:
        return replace(gate, waits_for=_awaited(core, info))
    group = _group(framework, info)
    if group is not None:
        return PodProgress("group", f"pod group {group} is placed as a whole")
    return PodProgress("new", "it does not exist: it is judged as if it were created now")


def _group(framework: Framework, info: PodInfo) -> str | None:
    return framework.groups.group_of(info) if framework.groups is not None else None


# In the queue


def _queued(core: Core, framework: Framework, info: PodInfo, leading: bool) -> PodProgress:
    group = _group(framework, info)
    entry = core.queue.view.entry(info.key, info.uid)
    if entry is None:
        gate = pod_progress.gated(framework, info)
        if gate is None:
            return PodProgress("new", "it has not reached the queue yet")
        return replace(gate, waits_for=_awaited(core, info))
    # A standby calls no webhooks, so their gates are shut here.
    outside = framework.remote.plugins.keys() & set(entry.plugins)
    if leading or (entry.tier == Tier.GATED.value and not outside):
        return _waiting(core, framework, info, entry, group)
    if group is not None:
        return PodProgress("group", f"pod group {group} is placed as a whole, by the leader")
    return PodProgress("standby", _UNTRIED)


def _waiting(
    core: Core, framework: Framework, info: PodInfo, entry: QueueEntry, group: str | None
) -> PodProgress:
    progress = pod_progress.waiting(entry, group)
    if entry.tier == Tier.GATED.value and not framework.remote.plugins.keys() & set(entry.plugins):
        # What held it when it came may hold no longer, or for another reason.
        gate = pod_progress.gated(framework, info)
        if gate is not None:
            progress = replace(progress, message=gate.message, plugins=gate.plugins)
    asleep = entry.tier in (Tier.UNSCHEDULABLE.value, Tier.GATED.value)
    return replace(
        progress,
        since=machine.wall() - entry.waiting_seconds,
        wakes=_wakes(core, framework, entry) if asleep else (),
        waits_for=_awaited(core, info),
    )


def _wakes(core: Core, framework: Framework, entry: QueueEntry) -> tuple[WakeEvents, ...]:
    """What may have the pod tried again, by the plugins that rejected it."""
    found = wake_events(entry.plugins, partial(core.queue.registrations, framework.profile))
    groups = framework.groups
    if groups is None or groups.name not in entry.plugins:
        return found
    # The registry of gangs activates members by itself; see `Coscheduling.hints`.
    event = f"a member of pod group {entry.group} is added, bound or deleted, or the group changes"
    return (*found, WakeEvents(groups.name, (event,), event))


def _awaited(core: Core, info: PodInfo) -> tuple[str, ...]:
    """What has to happen before the pod is tried, or can succeed, as far as that is known."""
    gates = tuple(f"gate {gate.name} to be removed" for gate in info.pod.spec.scheduling_gates)
    return (*gates, *_victims(core, info), *_members(core, info.pod))


def _victims(core: Core, info: PodInfo) -> Iterable[str]:
    """Pods that leave the node for which the pod is nominated."""
    node = core.state.nominations.node_of(info.uid)
    if not node:
        return ()
    leaving = (
        f"pod {each.key} to leave {node}: it is terminating"
        for each in core.state.pods_on(node)
        if each.pod.deleting and each.priority < info.priority
    )
    return islice(leaving, MOST_NAMED)


def _members(core: Core, pod: Pod) -> Iterable[str]:
    """Members that its group lacks."""
    registry = find_registry(core.state)
    gang = registry.of(pod) if registry is not None else None
    if gang is None:
        key = pod_group_of(pod.metadata)
        return () if key is None or registry is None else (f"pod group {key} to be created",)
    if gang.rules is None:
        return (f"pod group {gang.key} to be created",)
    missing = gang.rules.min_member - gang.existing
    if gang.rules.fault or missing <= 0:
        return ()
    return (f"{missing} more member{'s' if missing > 1 else ''} of pod group {gang.key}",)


# In flight


def _suspended(core: Core, uid: str) -> PodProgress:
    """How far a pod is whose attempt waits for an answer from outside."""
    for attempt, plugin in core.suspension.asking():
        if attempt.queued.info.uid == uid:
            waits = (f"the answer of {plugin}",)
            message = f"the answer of {plugin} is awaited"
            return _tried(core, attempt, PodProgress("suspended", message, (plugin,), None), waits)
    return PodProgress("suspended", "it has its answer and is tried again next")


def _holding(core: Core, uid: str, node: str) -> PodProgress:
    """How far a pod is that holds a node and is not known to be bound."""
    if uid in core.unconfirmed:
        return PodProgress("binding", "the watch has not told of its binding yet", node=node)
    attempt = core.bindings.attempt_of(uid)
    if attempt is None:
        return PodProgress("in-flight", "its pod group is being placed")
    now, holders = machine.wall(), core.permits.holders(uid)
    if not holders:
        why = core.headroom.explain(uid)
        return _tried(core, attempt, PodProgress("binding", why, node=node))
    waits = permit_waits(holders, now)
    plugins = tuple(wait.plugin for wait in waits)
    message = "; ".join(each.message for each in holders)
    progress = _tried(core, attempt, PodProgress("permit", message, plugins, node))
    since, awaited = min(each.since for each in holders), tuple(_members(core, holders[0].pod.pod))
    return replace(progress, since=since, permit=waits, waits_for=awaited)


def _tried(
    core: Core, attempt: Attempt, progress: PodProgress, waits_for: tuple[str, ...] = ()
) -> PodProgress:
    """The progress of a pod that is in an attempt."""
    elapsed = max(0.0, core.queue.view.now() - attempt.started)
    return replace(
        progress,
        attempts=attempt.queued.attempts,
        last_tried_seconds=elapsed,
        since=machine.wall() - elapsed,
        waits_for=waits_for,
    )
