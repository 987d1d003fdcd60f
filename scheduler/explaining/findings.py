"""Every verdict and every score for one pod, in plain values: the answer to "why (not) there?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from scheduler.explaining.rejections import Entry, Rejections, collect, rejection, spell
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, error
from scheduler.pipeline.evaluation import CycleError, Evaluation, evaluate
from scheduler.pipeline.placement import allows_post_filter, choose, fit_error
from scheduler.pipeline.rehearsal import label_columns
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import PostFilterPreview
from scheduler.plugin_api.facts import DescribingPlugin
from scheduler.slices import PACE, checkpoint, unbroken, whole_slice
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows, Scores
from scheduler.state.interning import distinct_codes
from scheduler.webhooks.answers import REMOTE_ANSWERS, RemoteAnswers

T = TypeVar("T")


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
    rejections: Rejections | None = None
    """All rejections of all nodes; None if a fault ended the evaluation."""
    more: Mapping[str, Any] = {}
    """What plugins have to say besides (`DescribingPlugin`), by name."""
    room: PostFilterPreview | None = None
    """What PostFilter would do, if the pod fits nowhere; None if it was not called."""

    @property
    def fits(self) -> bool:
        """Whether some node fits."""
        return any(status.ok for status in self.verdicts)


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
    if pod.long and not pod.excess:
        _derive_ahead(framework, state, pod)
    cycle = Cycle(pod, state)
    if answers is not None:
        cycle.put(REMOTE_ANSWERS, answers)
    try:
        return _judge_all(framework, cycle, seed, room)
    except (PluginFault, CycleError) as fault:
        nothing = np.zeros(0, np.int64)
        names, verdicts = _after_fault(state, fault)
        return Findings(pod.key, None, names, verdicts, (), nothing, {}, str(fault))


def _derive_ahead(framework: Framework, state: ClusterState, pod: PodInfo) -> None:
    """Derive what a long pod is judged by, with checkpoints: the moment itself has none."""
    pod.derive_asked()
    label_columns(pod, state)
    framework.count_ahead(pod, state.index)
    whole_slice()


def _after_fault(
    state: ClusterState, fault: PluginFault | CycleError
) -> tuple[list[str], list[Status]]:
    """All nodes, and their verdicts: the fault, unless it is that of a filter on some nodes."""
    diagnosis = fault.diagnosis if isinstance(fault, CycleError) else None
    if diagnosis is None:
        names = state.names()
        return names, [error(str(fault)).by(fault.plugin)] * len(names)
    rows, codes = diagnosis.rows.tolist(), diagnosis.codes.tolist()
    return [state.name(row) for row in rows], [state.statuses.status(code) for code in codes]


def described(findings: Findings) -> dict[str, Any]:
    """Findings as plain values: the second half of `explain`. Has checkpoints."""
    verdicts = dict(zip(findings.nodes, findings.verdicts, strict=True))
    nodes, scores = _nodes(findings), {}
    for i, name in enumerate(findings.scored):
        checkpoint()
        if verdicts[name].ok:
            parts = {plugin: int(part[i]) for plugin, part in findings.parts.items()}
            scores[name] = {"total": int(findings.totals[i]), "plugins": parts}
    checkpoint()
    return {
        "pod": findings.pod,
        "node": findings.node,
        "fit": [name for name in nodes if verdicts[name].ok],
        "nodes": nodes,
        "scores": scores,
        "message": findings.message,
        "facts": list(findings.rejections.cluster) if findings.rejections else [],
        "nominated": findings.nominated or None,
        "preemption": preview(findings.room),
        **findings.more,
    }


def _nodes(findings: Findings) -> dict[str, Any]:
    """The verdict on each node, by name. Nodes that fail alike share one."""
    if findings.rejections is not None:
        everything = spell(findings.rejections, findings.verdicts)
    else:  # one fault is the verdict on all nodes
        distinct = {id(each): each for each in findings.verdicts}
        faults = {number: [rejection(each)] for number, each in distinct.items()}
        everything = [faults[id(each)] for each in findings.verdicts]
    spelt: dict[tuple[int, int], dict[str, Any]] = {}
    nodes = {}
    checkpoint()
    for place in sorted(range(len(findings.nodes)), key=findings.nodes.__getitem__):
        checkpoint()
        status, rejections = findings.verdicts[place], everything[place]
        key = id(status), 0 if status.ok else id(rejections)
        if key not in spelt:
            spelt[key] = _verdict(status, rejections)
        nodes[findings.nodes[place]] = spelt[key]
    return nodes


def preview(room: PostFilterPreview | None) -> dict[str, Any] | None:
    """What PostFilter would do, as plain values."""
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
        moment = _judged(framework, cycle, seed)
    findings, diagnosis = _found(moment, cycle.pod.key), moment.diagnosis
    if not room or findings.node is not None or not allows_post_filter(diagnosis):
        return findings
    preview = framework.preview_post_filter(cycle, diagnosis)
    return msgspec.structs.replace(findings, room=preview)


class _Moment(NamedTuple):
    """What was found of rows, and the names of nodes that they had then."""

    diagnosis: Diagnosis
    names: Sequence[str]
    """By row."""
    rows: Rows
    feasible: Rows
    node: str | None
    totals: Scores
    parts: Mapping[str, Scores]
    message: str
    nominated: str
    statuses: Mapping[int, Status]
    """The verdicts behind the codes of the diagnosis."""
    rejections: Rejections
    more: Mapping[str, Any]


def _found(moment: _Moment, pod: str) -> Findings:
    """The moment without rows. Has checkpoints: to name all nodes takes longer than to judge."""
    diagnosis = moment.diagnosis
    if diagnosis.pre_filter is not None:
        verdicts = [diagnosis.pre_filter] * len(moment.rows)
    else:
        verdicts = _looked_up(moment.statuses, diagnosis.codes)
    return Findings(
        pod,
        moment.node,
        _looked_up(moment.names, moment.rows),
        verdicts,
        _looked_up(moment.names, moment.feasible),
        moment.totals,
        moment.parts,
        moment.message,
        moment.nominated,
        moment.rejections,
        moment.more,
    )


def _looked_up(values: Mapping[int, T] | Sequence[T], keys: Rows | Codes) -> list[T]:
    """The value of each key, in slices."""
    found: list[T] = []
    for start in range(0, len(keys), PACE):
        found += [values[key] for key in keys[start : start + PACE].tolist()]
        checkpoint()
    return found


def _judged(framework: Framework, cycle: Cycle, seed: int) -> _Moment:
    state, evaluation = cycle.state, evaluate(framework, cycle)
    feasible = evaluation.feasible()
    node, totals = None, np.zeros(0, np.int64)
    if len(feasible):
        totals = evaluation.totals()
        node = _choice(evaluation, seed)
    diagnosis = evaluation.diagnosis()
    codes = distinct_codes(diagnosis.codes)
    return _Moment(
        diagnosis,
        list(state.columns.names),
        state.rows().copy(),
        feasible,
        node,
        totals,
        evaluation.parts,
        "" if node else fit_error(cycle, diagnosis),
        state.nominations.node_of(cycle.pod.uid),
        {code: state.statuses.status(code) for code in codes},
        collect(evaluation, diagnosis),
        _more(evaluation, diagnosis),
    )


def _more(evaluation: Evaluation, diagnosis: Diagnosis) -> dict[str, Any]:
    more: dict[str, Any] = {}
    for plugin in evaluation.framework.plugins.values():
        if isinstance(plugin, DescribingPlugin):
            more |= plugin.describe(evaluation.cycle, diagnosis, evaluation.feasible())
    return more


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


def _verdict(status: Status, rejections: Sequence[Entry]) -> dict[str, Any]:
    return {
        "fit": status.ok,
        "plugin": status.plugin,
        "code": status.code.value,
        "reasons": list(status.reasons),
        "all": [] if status.ok else rejections,
    }
