"""The scheduling state of a pod: gated, waiting, holding a node, bound; and answers with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from scheduler import machine
from scheduler.assembly import Core
from scheduler.config.schema import BatchSettings
from scheduler.explaining.comparison import comparison
from scheduler.explaining.findings import preview
from scheduler.explaining.wake_events import WakeEvents, wake_events
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.gangs.registry import find_registry
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, admission_error
from scheduler.model.workloads import pod_group_of
from scheduler.observe.verdict_history import Verdict
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.permits import permit_waits
from scheduler.plugin_api.extension_points import PostFilterPreview
from scheduler.queueing.queued_pod import Tier
from scheduler.queueing.view import PermitWait, QueueEntry

State = Literal[
    "new",
    "active",
    "backoff",
    "error-backoff",
    "unschedulable",
    "gated",
    "in-flight",
    "suspended",
    "group",
    "permit",
    "binding",
    "bound",
    "terminating",
    "ended",
    "other-scheduler",
    "standby",
]
"""The tiers of the queue, and what comes before and after."""

_NO_PREEMPTION_IN_GROUPS = PostFilterPreview(
    "preemption: members of a pod group evict no pods before enough of them hold nodes"
)
SETTLED: Collection[State] = ("permit", "binding", "bound", "terminating", "ended")
"""A pod that needs no node any more, or has one: nothing has to change for it."""
MOST_NAMED = 20
"""Of the pods that a pod waits for, so many are named."""
_UNTRIED = "what a pod waits for is known to the leader"
_HELD: Collection[State] = ("gated", "group", "terminating", "ended", "other-scheduler")


class PodProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The scheduling state of a pod, and which plugins hold it."""

    state: State
    message: str = ""
    """Why, for people."""
    plugins: tuple[str, ...] = ()
    """The plugins that hold or rejected it."""
    node: str | None = None
    """The node that it is on, or that it holds."""
    retry_seconds: float | None = None
    """Until it is tried again by itself, if that is known."""
    attempts: int = 0
    """How often it was tried."""
    last_tried_seconds: float | None = None
    """Since its last attempt ended, or began if it is under way; None if it was never tried."""
    since: float | None = None
    """When this state began, in seconds since the epoch, if that is known."""
    behind: str | None = None
    """The equal pod that is tried first; this one follows when that one has found a node."""
    wakes: tuple[WakeEvents, ...] = ()
    """The events that may have it tried again."""
    waits_for: tuple[str, ...] = ()
    """What has to happen first: gates, victims that terminate, members, answers."""
    permit: tuple[PermitWait, ...] = ()
    """The plugins at which it waits for permission."""

    @property
    def held(self) -> bool:
        """Whether the pod is not tried, or not by itself: a node that fits is not yet its node."""
        return self.state in _HELD


def progress_of(core: Core, pod: Pod, info: PodInfo, leading: bool) -> PodProgress:
    """The state of a pod: from the API server, the queue, bindings, suspension and nominations.

    Only the leader's queue has the state of a pod. O(pods that are being bound, pods on the
    nominated node, members of the group).
    """
    on_its_way = beyond_scheduling(pod)
    if on_its_way is not None:
        return on_its_way
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        return elsewhere(pod, core.frameworks)
    if (placed := core.state.pod(info.uid)) is not None:
        return _holding(core, info.uid, placed.node_name)
    if core.suspension.awaits(info.uid):
        return _suspended(core, info.uid)
    if core.queue.is_in_flight(info.uid):
        return PodProgress("in-flight")
    return _queued(core, framework, info, leading)


def hypothetical(core: Core, pod: Pod, info: PodInfo) -> PodProgress:
    """The state that a pod would have right after its creation."""
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        return elsewhere(pod, core.frameworks)
    gate = gated(framework, info)
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
        gate = gated(framework, info)
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
    progress = waiting(entry, group)
    if entry.tier == Tier.GATED.value and not framework.remote.plugins.keys() & set(entry.plugins):
        # What held it when it came may hold no longer, or for another reason.
        gate = gated(framework, info)
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
    """The state of a pod whose attempt waits for an answer from outside."""
    for attempt, plugin in core.suspension.asking():
        if attempt.queued.info.uid == uid:
            waits = (f"the answer of {plugin}",)
            message = f"the answer of {plugin} is awaited"
            return _tried(core, attempt, PodProgress("suspended", message, (plugin,), None), waits)
    return PodProgress("suspended", "it has its answer and is tried again next")


def _holding(core: Core, uid: str, node: str) -> PodProgress:
    """The state of a pod that holds a node and is not known to be bound."""
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


# States


def beyond_scheduling(pod: Pod) -> PodProgress | None:
    """The state of a pod that needs no node any more; None if it may need one."""
    node = pod.spec.node_name
    if pod.finished:
        reason = admission_error(pod)
        why = f", its kubelet refused it: {reason}" if reason else ""
        return PodProgress("ended", f"it has ended: {pod.status.phase}{why}", node=node or None)
    if node:
        return PodProgress("bound", "it is being deleted" if pod.deleting else "", node=node)
    return PodProgress("terminating", "it is being deleted") if pod.deleting else None


def elsewhere(pod: Pod, profiles: Iterable[str]) -> PodProgress:
    """A pod that none of our profiles schedules."""
    ours = ", ".join(sorted(profiles))
    asked = pod.spec.scheduler_name
    return PodProgress("other-scheduler", f"it names scheduler {asked!r}, not {ours}")


def waiting(entry: QueueEntry, group: str | None) -> PodProgress:
    """The state of a pod in the queue; ``group`` if it is placed with others only."""
    state, message = cast("State", entry.tier), entry.message
    if group is not None and state != "gated":
        state = "group"
        message = message or f"pod group {group} has not been tried yet"
    return PodProgress(
        state,
        message,
        entry.plugins,
        retry_seconds=entry.retry_seconds,
        attempts=entry.attempts,
        last_tried_seconds=entry.waiting_seconds if entry.attempts else None,
        behind=entry.behind or None,
    )


def gated(framework: Framework, pod: PodInfo) -> PodProgress | None:
    """What keeps a pod from being tried at all, if anything does."""
    try:
        status = framework.run_pre_enqueue(pod)
    except PluginFault as fault:
        return PodProgress("gated", str(fault), (fault.plugin,))
    return None if status.ok else PodProgress("gated", status.message, (status.plugin,))


# In an answer


def concluded(
    answer: dict[str, Any],
    progress: PodProgress,
    counting_own_pods: Collection[str],
    group: Any = None,
    *,
    history: Sequence[Verdict] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """An answer with the state of the pod, its history, and the state of its group.

    A pod that is not tried, or not by itself, has no node: ``wouldGoTo`` is where it would go if
    nothing held it. ``countsItself`` is the plugin that rejects the pod's own node and has an
    accounting of its own (of NUMA cells, or out of process) from which a trial cannot remove the
    pod.
    ``seed`` breaks ties. Has checkpoints.
    """
    own = answer["nodes"].get(progress.node)
    found = answer["node"]
    bound_to = progress.node if progress.state == "bound" else None
    said = {
        **answer,
        "node": None if progress.held else found,
        "wouldGoTo": found if progress.held else None,
        "standing": _plain(progress),
        "boundTo": bound_to,
        "countsItself": own["plugin"] if own and own["plugin"] in counting_own_pods else None,
        "comparison": comparison(answer, bound_to, seed),
        "history": [_plain(each) for each in history],
    }
    if progress.state == "group":
        said["preemption"] = preview(_NO_PREEMPTION_IN_GROUPS)
    return {**said, "group": group} if group else said


def batched(settings: BatchSettings, model: str = "") -> dict[str, Any] | None:
    """How backlogs are placed, and whether the cost model chose this pod's node; None: one by one.

    ``scores`` choose among the nodes that fit only if that is the model, or the pod comes alone.
    """
    if not settings.enabled:
        return None
    return {
        "costModel": settings.cost_model,
        "minPending": settings.min_pending,
        "chose": bool(model),
    }


def _plain(value: msgspec.Struct) -> Any:
    """What JSON makes of a struct: lists, not tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))
