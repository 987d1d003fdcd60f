"""What people may look at: the queue, the nodes, a verdict, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.assembly import Core
from scheduler.equivalence import window
from scheduler.framework.answers import Told
from scheduler.gangs.status import describe_group
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.pipeline import explanation
from scheduler.pipeline.suspension import answered
from scheduler.slices import checkpoint, in_slices
from scheduler.state.scratch import scratch


class UnknownPod(LookupError):
    """Nobody has heard of this pod."""


class NothingKept(LookupError):
    """There is no such class or node, or nothing is kept at all."""


def queue(core: Core, limit: int) -> dict[str, Any]:
    """How many pods wait in each tier, and the first of them, best first."""
    entries = core.queue.first(limit)
    return {"counts": core.queue.counts(), "pods": [_plain(entry) for entry in entries]}


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
        return window.overview(kept, limit)
    if node is not None and core.state.row(node) is None:
        raise NothingKept(f"unknown node: {node}")
    try:
        if node is None:
            return window.one_class(kept, name, limit)
        return window.one_node(kept, name, node)
    except window.UnknownClass as unknown:
        raise NothingKept(str(unknown)) from unknown


async def explain(core: Core, pods: Mapping[str, Pod], key: str) -> dict[str, Any]:
    """The verdict of every node for a pod, as if it were scheduled now.

    A pod that is on a node already is judged as if it were not. Waits for answers of webhooks and
    extenders.
    """
    pod = pods.get(key)
    if pod is None:
        raise UnknownPod(key)
    framework = core.frameworks.get(pod.spec.scheduler_name)
    if framework is None:
        names = ", ".join(sorted(core.frameworks))
        raise UnknownPod(f"{key} asks for scheduler {pod.spec.scheduler_name!r}, not for {names}")
    waiting = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    info = PodInfo(waiting, core.config.equipoise.limits)

    def judged(told: Told) -> explanation.Findings:
        if info.volumes.attachable:
            core.state.attachments.catch_up()
        with scratch(core.state) as changes:
            if (placed := core.state.pod(info.uid)) is not None:
                changes.remove(placed)
            return explanation.judge_all(framework, core.state, info, core.seed, told)

    findings = await answered(judged)
    answer = await in_slices(explanation.described, findings)
    gang = {"group": group} if (group := describe_group(core.state, pod)) else {}
    return {**answer, **gang, "boundTo": pod.spec.node_name or None}
