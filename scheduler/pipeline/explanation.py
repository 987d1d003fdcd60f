"""Every verdict and every score for one pod, in plain values: the answer to "why (not) there?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.framework.answers import TOLD, Told
from scheduler.framework.complaints import PluginFault
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, error
from scheduler.pipeline.choosing import choose, veto_codes
from scheduler.pipeline.placement import (
    CycleError,
    after_filters,
    fit_error,
    judge,
    promised_row,
)
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows, Scores


class Findings(msgspec.Struct, frozen=True):
    """What was found for a pod, of all nodes at one moment; nothing here refers to rows."""

    pod: str
    node: str | None
    """The one that would be chosen."""
    nodes: Sequence[str]
    verdicts: Sequence[Status]
    """For each of the nodes."""
    scored: Sequence[str]
    """Nodes that were compared."""
    totals: Scores
    parts: Mapping[str, Scores]
    message: str


def explain(
    framework: Framework,
    state: ClusterState,
    pod: PodInfo,
    seed: int = 0,
    told: Told | None = None,
) -> dict[str, Any]:
    """What the cycle would find for the pod now; changes nothing.

    Scores are given even for a single feasible node. ``node`` is the one that would be chosen; a
    node that was vetoed before it counts as one that does not fit. A fault that would end the
    attempt is what is said of every node. With ``told`` plugins outside have their say, and
    AnswerNeeded is raised for what they have not been asked yet; without, that is a fault too.
    """
    return described(judge_all(framework, state, pod, seed, told))


def judge_all(
    framework: Framework,
    state: ClusterState,
    pod: PodInfo,
    seed: int = 0,
    told: Told | None = None,
) -> Findings:
    """The first half of it: judge all nodes and score those that fit."""
    cycle = Cycle(pod, state)
    if told is not None:
        cycle.put(TOLD, told)
    try:
        return _judge_all(framework, cycle, seed)
    except (PluginFault, CycleError) as fault:
        status = error(str(fault)).by(fault.plugin)
        names = state.names()
        nothing = np.zeros(0, np.int64)
        verdicts = [status] * len(names)
        return Findings(pod.key, None, names, verdicts, (), nothing, {}, str(fault))


def described(findings: Findings) -> dict[str, Any]:
    """The second half of it: say so in plain values. Gives the loop back."""
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
    }


def _judge_all(framework: Framework, cycle: Cycle, seed: int) -> Findings:
    state, diagnosis = cycle.state, judge(framework, cycle)
    feasible = diagnosis.rows[diagnosis.codes == 0]
    ended = None if diagnosis.pre_filter else after_filters(framework, cycle, feasible)
    if ended is not None:
        diagnosis, feasible = ended, ended.rows
    node, totals, parts = None, np.zeros(0, np.int64), {}
    if len(feasible):
        scored = framework.run_scores(cycle, feasible)
        totals, parts = scored.totals, dict(scored.plugins)
        node = _choice(framework, cycle, diagnosis, feasible, totals, seed)
    names, verdicts = _verdicts(state, diagnosis)
    message = "" if node else fit_error(cycle, diagnosis)
    compared = [state.name(row) for row in feasible.tolist()]
    return Findings(cycle.pod.key, node, names, verdicts, compared, totals, parts, message)


def _choice(
    framework: Framework,
    cycle: Cycle,
    diagnosis: Diagnosis,
    feasible: Rows,
    totals: Scores,
    seed: int,
) -> str | None:
    """The node that would be chosen; vetoes go into the diagnosis."""
    state = cycle.state
    promised = promised_row(cycle)
    if promised is not None and promised in feasible:
        node = state.name(promised)
        if framework.run_post_score(cycle, node).ok:
            return node
    best, vetoes = choose(framework, cycle, feasible, totals, seed)
    diagnosis.codes[diagnosis.codes == 0] = veto_codes(cycle, feasible, vetoes)
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
