"""Views of queue, nodes and verdicts as plain values, for the serving endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.assembly import Core
from scheduler.equivalence import debug_view
from scheduler.gangs.status import describe_group
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.pipeline import explanation
from scheduler.pipeline.explanation import PodProgress
from scheduler.pipeline.permits import SUSPENDED, WAITING, suspended_entries
from scheduler.queueing.queued_pod import Tier
from scheduler.slices import checkpoint, in_slices
from scheduler.state.scratch import scratch
from scheduler.webhooks.answers import RemoteAnswers
from scheduler.webhooks.suspension import answered


class UnknownPod(LookupError):
    """The scheduler does not know this pod."""


class NothingKept(LookupError):
    """There is no such class or node, or nothing is kept at all."""


def queue(core: Core, limit: int) -> dict[str, Any]:
    """How many pods wait in each tier, and the first of them, best first."""
    waiting = core.permits.entries()
    suspended = suspended_entries(core.suspension, core.queue.view.now())
    queued = core.queue.view.first(limit)
    # They are half of what is shown, or more where the queue leaves room.
    others = [*waiting, *suspended][: max(limit // 2, limit - len(queued))]
    counts = {**core.queue.view.counts(), WAITING: len(waiting), SUSPENDED: len(suspended)}
    counts["in-flight"] = max(0, counts["in-flight"] - len(waiting) - len(suspended))
    return {
        "counts": counts,
        "pods": [_plain(entry) for entry in [*others, *queued][:limit]],
    }


def waiting(core: Core, limit: int) -> dict[str, Any]:
    """Pods that hold a node and wait for permission, the oldest first."""
    entries = core.permits.entries()
    return {"count": len(entries), "pods": [_plain(entry) for entry in entries[:limit]]}


def nodes(core: Core, limit: int) -> dict[str, Any]:
    """Each node's row: what it offers, what is taken, what keeps pods away."""
    names = sorted(core.state.names())
    described = []
    for name in names[:limit]:
        checkpoint()
        if core.state.row(name) is not None:  # else it has gone since
            described.append(core.state.describe(name))
    return {"count": len(names), "nodes": described}


def decisions(core: Core, limit: int) -> dict[str, Any]:
    """The latest decisions, newest first."""
    return {"decisions": [_plain(decision) for decision in core.decisions.latest(limit)]}


def _plain(value: Any) -> Any:
    checkpoint()
    return msgspec.to_builtins(value)


def equivalence(core: Core, name: int | None, node: str | None, limit: int) -> dict[str, Any]:
    """The classes of equal pods; or one of them, and what is kept for it on all nodes or on one."""
    kept = core.equivalence
    if kept is None:
        raise NothingKept("equivalence.enabled is false: nothing is kept")
    if name is None:
        return debug_view.overview(kept, limit)
    if node is not None and core.state.row(node) is None:
        raise NothingKept(f"unknown node: {node}")
    try:
        if node is None:
            return debug_view.one_class(kept, name, limit)
        return debug_view.one_node(kept, name, node)
    except debug_view.UnknownClass as unknown:
        raise NothingKept(str(unknown)) from unknown


async def explain(
    core: Core, pods: Mapping[str, Pod], key: str, *, leading: bool = True
) -> dict[str, Any]:
    """How far a pod is, and the verdict of every node for it, as if it were scheduled now.

    A pod that is on a node, or holds one, is judged as if it did not; one that is not tried, as if
    nothing held it. Waits for answers of webhooks and extenders. Only the leader's queue
    has the state of a pod.
    """
    pod = pods.get(key)
    if pod is None:
        raise UnknownPod(key)
    waiting = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    info = PodInfo(waiting, core.config.equipoise.limits)
    progress = _progress(core, pod, info, leading)
    framework = core.frameworks.get(pod.spec.scheduler_name)
    framework = framework or next(iter(core.frameworks.values()))

    def judged(answers: RemoteAnswers) -> explanation.Findings:
        if info.volumes.attachable:
            core.state.attachments.catch_up()
        placed = core.state.pod(info.uid)
        if placed is None:
            room = not progress.held
            return explanation.judge_all(framework, core.state, info, core.seed, answers, room=room)
        with scratch(core.state) as changes:
            changes.remove(placed)
            return explanation.judge_all(framework, core.state, info, core.seed, answers)

    findings = await answered(judged)
    answer = await in_slices(explanation.described, findings)
    group = describe_group(core.state, pod)
    said = explanation.concluded(answer, progress, framework.own_books, group)
    return {**said, "batch": explanation.batched(core.config.equipoise.batch)}


def _progress(core: Core, pod: Pod, info: PodInfo, leading: bool) -> PodProgress:
    """How far a pod is, by what the API server has said of it and by what is under way here."""
    on_its_way = explanation.beyond_scheduling(pod)
    if on_its_way is not None:
        return on_its_way
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        return explanation.elsewhere(pod, core.frameworks)
    if (placed := core.state.pod(info.uid)) is not None:
        return _holding(core, info.uid, placed.node_name)
    if core.suspension.awaits(info.uid):
        return PodProgress("in-flight", "an answer from outside is awaited")
    if core.queue.is_in_flight(info.uid):
        return PodProgress("in-flight")
    group = framework.groups.group_of(info) if framework.groups is not None else None
    entry = core.queue.view.entry(info.key, info.uid)
    if entry is None:
        gate = explanation.gated(framework, info)
        return gate or PodProgress("new", "it has not reached the queue yet")
    # A standby calls no webhooks, so their gates are shut here.
    outside = framework.bookkeepers.intersection(entry.plugins)
    if leading or (entry.tier == Tier.GATED.value and not outside):
        return explanation.waiting(entry, group)
    if group is not None:
        return PodProgress("group", f"pod group {group} is placed as a whole, by the leader")
    return PodProgress("standby")


def _holding(core: Core, uid: str, node: str) -> PodProgress:
    """How far a pod is that holds a node and is not known to be bound."""
    if uid in core.unconfirmed:
        return PodProgress("binding", "the watch has not told of its binding yet", node=node)
    if uid not in core.bindings.uids():
        return PodProgress("in-flight", "its pod group is being placed")
    holders = core.permits.holders(uid)
    if not holders:
        return PodProgress("binding", node=node)
    plugins = tuple(plugin for each in holders for plugin in each.pending_plugins)
    return PodProgress("permit", "", plugins, node)
