"""How far a pod is: gated, waiting, held, bound; and an answer completed by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, cast

import msgspec

from scheduler.config.schema import BatchSettings
from scheduler.explaining.comparison import comparison
from scheduler.explaining.findings import preview
from scheduler.explaining.wake_events import WakeEvents
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, admission_error
from scheduler.observe.verdict_history import Verdict
from scheduler.plugin_api.extension_points import PostFilterPreview
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
"""How far a pod is: the places of the queue, and what comes before and after."""

_NO_PREEMPTION_IN_GROUPS = PostFilterPreview(
    "preemption: members of a pod group evict no pods before enough of them hold nodes"
)
SETTLED: Collection[State] = ("permit", "binding", "bound", "terminating", "ended")
"""A pod that needs no node any more, or has one: nothing has to change for it."""
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


def concluded(
    answer: dict[str, Any],
    progress: PodProgress,
    counting_own_pods: Collection[str],
    group: Any = None,
    *,
    history: Sequence[Verdict] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """An answer with how far the pod is, how it got there, and how its group stands.

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


def beyond_scheduling(pod: Pod) -> PodProgress | None:
    """How far a pod is that needs no node any more; None if it may need one."""
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
    """How far a pod is that waits in the queue; ``group`` if it is placed with others only."""
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


def _plain(value: msgspec.Struct) -> Any:
    """What JSON makes of a struct: lists, not tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))
