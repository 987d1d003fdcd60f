"""Every verdict and every score for one pod, in plain values: the answer to "why (not) there?"."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
import numpy as np

from scheduler.config.schema import BatchSettings
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import Status, error
from scheduler.pipeline.evaluation import CycleError, Evaluation, evaluate
from scheduler.pipeline.placement import allows_post_filter, choose, fit_error
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import RoomPreview
from scheduler.queueing.view import QueueEntry
from scheduler.slices import checkpoint, unbroken
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Scores
from scheduler.webhooks.answers import REMOTE_ANSWERS, RemoteAnswers

State = Literal[
    "new",
    "active",
    "backoff",
    "error-backoff",
    "unschedulable",
    "gated",
    "in-flight",
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

_NO_PREEMPTION_IN_GROUPS = RoomPreview(
    "preemption: members of a pod group evict no pods before enough of them hold nodes"
)
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

    @property
    def held(self) -> bool:
        """Whether the pod is not tried, or not by itself: a node that fits is not yet its node."""
        return self.state in _HELD


class Findings(msgspec.Struct, frozen=True):
    """What was found for a pod, of all nodes at one moment; nothing here refers to rows."""

    pod: str
    node: str | None
    """The node that would be chosen."""
    nodes: Sequence[str]
    verdicts: Sequence[Status]
    """For each of the nodes."""
    scored: Sequence[str]
    """Nodes that were compared."""
    totals: Scores
    parts: Mapping[str, Scores]
    message: str
    nominated: str = ""
    """The node that the pod is nominated to."""
    room: RoomPreview | None = None
    """What PostFilter would do, if the pod fits nowhere; None if it was not called."""


def explain(
    framework: Framework,
    state: ClusterState,
    pod: PodInfo,
    seed: int = 0,
    answers: RemoteAnswers | None = None,
) -> dict[str, Any]:
    """What the cycle would find for the pod now; changes nothing.

    Scores are given even for a single feasible node. ``node`` is the one that would be chosen; a
    node that was vetoed before it counts as one that does not fit. A fault that would end the
    attempt is the verdict on every node. With ``answers`` plugins out of process take part, and
    AnswerNeeded is raised for what they have not been asked yet; without, that is a fault too.
    """
    return described(judge_all(framework, state, pod, seed, answers))


def judge_all(
    framework: Framework,
    state: ClusterState,
    pod: PodInfo,
    seed: int = 0,
    answers: RemoteAnswers | None = None,
    *,
    room: bool = False,
) -> Findings:
    """Evaluate a pod: the first half of `explain`.

    With ``room``, post-filter plugins say what they would do for a pod that fits nowhere.
    """
    cycle = Cycle(pod, state)
    if answers is not None:
        cycle.put(REMOTE_ANSWERS, answers)
    try:
        return _judge_all(framework, cycle, seed, room)
    except (PluginFault, CycleError) as fault:
        status = error(str(fault)).by(fault.plugin)
        names = state.names()
        nothing = np.zeros(0, np.int64)
        verdicts = [status] * len(names)
        return Findings(pod.key, None, names, verdicts, (), nothing, {}, str(fault))


def concluded(
    answer: dict[str, Any],
    progress: PodProgress,
    bookkeepers: Collection[str],
    group: Any = None,
) -> dict[str, Any]:
    """An answer with how far the pod is, and how its group stands.

    A pod that is not tried, or not by itself, has no node: ``wouldGoTo`` is where it would go if
    nothing held it. ``countsItself`` is the plugin that rejects the pod's own node and keeps books
    (of NUMA cells, or out of process) from which a trial cannot remove the pod itself.
    """
    own = answer["nodes"].get(progress.node)
    found = answer["node"]
    said = {
        **answer,
        "node": None if progress.held else found,
        "wouldGoTo": found if progress.held else None,
        "standing": {**msgspec.to_builtins(progress), "plugins": list(progress.plugins)},
        "boundTo": progress.node if progress.state == "bound" else None,
        "countsItself": own["plugin"] if own and own["plugin"] in bookkeepers else None,
    }
    if progress.state == "group":
        said["preemption"] = _preview(_NO_PREEMPTION_IN_GROUPS)
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
        return PodProgress("ended", f"it has ended: {pod.status.phase}", node=node or None)
    if node:
        return PodProgress("bound", "it is being deleted" if pod.deleting else "", node=node)
    return PodProgress("terminating", "it is being deleted") if pod.deleting else None


def elsewhere(pod: Pod, profiles: Iterable[str]) -> PodProgress:
    """A pod that none of our profiles schedules."""
    ours = ", ".join(sorted(profiles))
    asked = pod.spec.scheduler_name
    return PodProgress("other-scheduler", f"it asks for scheduler {asked!r}, not for {ours}")


def waiting(entry: QueueEntry, group: str | None) -> PodProgress:
    """How far a pod is that waits in the queue; ``group`` if it is placed with others only."""
    state, message = cast("State", entry.tier), entry.message
    if group is not None and state != "gated":
        state = "group"
        message = message or f"pod group {group} has not been tried yet"
    return PodProgress(state, message, entry.plugins, None, entry.retry_seconds)


def gated(framework: Framework, pod: PodInfo) -> PodProgress | None:
    """What keeps a pod from being tried at all, if anything does."""
    try:
        status = framework.run_pre_enqueue(pod)
    except PluginFault as fault:
        return PodProgress("gated", str(fault), (fault.plugin,))
    return None if status.ok else PodProgress("gated", status.message, (status.plugin,))


def described(findings: Findings) -> dict[str, Any]:
    """Findings as plain values: the second half of `explain`. Has checkpoints."""
    verdicts = dict(zip(findings.nodes, findings.verdicts, strict=True))
    # Nodes fail in few different ways, so each way is spelt out once.
    distinct = {id(status): status for status in findings.verdicts}
    spelt = {number: _verdict(status) for number, status in distinct.items()}
    nodes, scores = {}, {}
    for name in sorted(verdicts):
        checkpoint()
        nodes[name] = spelt[id(verdicts[name])]
    for i, name in enumerate(findings.scored):
        checkpoint()
        if verdicts[name].ok:
            parts = {plugin: int(part[i]) for plugin, part in findings.parts.items()}
            scores[name] = {"total": int(findings.totals[i]), "plugins": parts}
    return {
        "pod": findings.pod,
        "node": findings.node,
        "fit": [name for name in nodes if verdicts[name].ok],
        "nodes": nodes,
        "scores": scores,
        "message": findings.message,
        "nominated": findings.nominated or None,
        "preemption": _preview(findings.room),
    }


def _preview(room: RoomPreview | None) -> dict[str, Any] | None:
    if room is None:
        return None
    return {
        "node": room.node or None,
        "victims": [victim.key for victim in room.victims],
        "violations": room.violations,
        "message": room.message,
    }


def _judge_all(framework: Framework, cycle: Cycle, seed: int, room: bool) -> Findings:
    with unbroken():  # after a checkpoint rows may be those of other nodes
        findings, diagnosis = _judged(framework, cycle, seed)
    if not room or findings.node is not None or not allows_post_filter(diagnosis):
        return findings
    preview = framework.preview_room(cycle, diagnosis)
    return msgspec.structs.replace(findings, room=preview)


def _judged(framework: Framework, cycle: Cycle, seed: int) -> tuple[Findings, Diagnosis]:
    state, evaluation = cycle.state, evaluate(framework, cycle)
    feasible = evaluation.feasible()
    node, totals = None, np.zeros(0, np.int64)
    if len(feasible):
        totals = evaluation.totals()
        node = _choice(evaluation, seed)
    diagnosis = evaluation.diagnosis()
    names, verdicts = _verdicts(state, diagnosis)
    message = "" if node else fit_error(cycle, diagnosis)
    compared = [state.name(row) for row in feasible.tolist()]
    nominated = state.nominations.node_of(cycle.pod.uid)
    findings = Findings(
        cycle.pod.key,
        node,
        names,
        verdicts,
        compared,
        totals,
        evaluation.parts,
        message,
        nominated,
    )
    return findings, diagnosis


def _choice(evaluation: Evaluation, seed: int) -> str | None:
    """The node that would be chosen; vetoes on others become verdicts of the evaluation."""
    state, feasible = evaluation.cycle.state, evaluation.feasible()
    nominated = evaluation.nominated_row
    if nominated is not None and nominated in feasible:
        node = state.name(nominated)
        if evaluation.framework.run_post_score(evaluation.cycle, node).ok:
            return node
    best = choose(evaluation, seed)
    return None if best is None else state.name(int(feasible[best]))


def _verdicts(state: ClusterState, diagnosis: Diagnosis) -> tuple[list[str], list[Status]]:
    if diagnosis.pre_filter is not None:
        return state.names(), [diagnosis.pre_filter] * state.node_count
    known = {int(code): state.statuses.status(int(code)) for code in np.unique(diagnosis.codes)}
    names = [state.name(row) for row in diagnosis.rows.tolist()]
    return names, [known[code] for code in diagnosis.codes.tolist()]


def _verdict(status: Status) -> dict[str, Any]:
    if status.ok:
        return {"fit": True, "plugin": "", "code": status.code.value, "reasons": []}
    return {
        "fit": False,
        "plugin": status.plugin,
        "code": status.code.value,
        "reasons": list(status.reasons),
    }
