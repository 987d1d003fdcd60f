"""Every verdict and every score for one pod, in plain values: the answer to "why (not) there?"."""

from __future__ import annotations

from typing import Any

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
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows


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
    cycle = Cycle(pod, state)
    if told is not None:
        cycle.put(TOLD, told)
    try:
        return _explain(framework, cycle, seed)
    except (PluginFault, CycleError) as fault:
        status = error(str(fault)).by(fault.plugin)
        return {
            "pod": pod.key,
            "node": None,
            "fit": [],
            "nodes": {name: _verdict(status) for name in sorted(state.names())},
            "scores": {},
            "message": str(fault),
        }


def _explain(framework: Framework, cycle: Cycle, seed: int) -> dict[str, Any]:
    diagnosis = judge(framework, cycle)
    feasible = diagnosis.rows[diagnosis.codes == 0]
    ended = None if diagnosis.pre_filter else after_filters(framework, cycle, feasible)
    if ended is not None:
        diagnosis, feasible = ended, ended.rows
    node, scores = _choice(framework, cycle, diagnosis, feasible, seed)
    verdicts = _verdicts(cycle.state, diagnosis)
    return {
        "pod": cycle.pod.key,
        "node": node,
        "fit": sorted(name for name, status in verdicts.items() if status.ok),
        "nodes": {name: _verdict(status) for name, status in sorted(verdicts.items())},
        "scores": {name: score for name, score in scores.items() if verdicts[name].ok},
        "message": "" if node else fit_error(cycle, diagnosis),
    }


def _choice(
    framework: Framework, cycle: Cycle, diagnosis: Diagnosis, feasible: Rows, seed: int
) -> tuple[str | None, dict[str, Any]]:
    """The node that would be chosen, and all scores; vetoes go into the diagnosis."""
    if not len(feasible):
        return None, {}
    state = cycle.state
    scored = framework.run_scores(cycle, feasible)
    scores = {
        state.name(int(row)): {
            "total": int(scored.totals[i]),
            "plugins": {name: int(part[i]) for name, part in scored.plugins.items()},
        }
        for i, row in enumerate(feasible)
    }
    promised = promised_row(cycle)
    if promised is not None and promised in feasible:
        node = state.name(promised)
        if framework.run_post_score(cycle, node).ok:
            return node, scores
    best, vetoes = choose(framework, cycle, feasible, scored.totals, seed)
    diagnosis.codes[diagnosis.codes == 0] = veto_codes(cycle, feasible, vetoes)
    return (None if best is None else state.name(int(feasible[best]))), scores


def _verdicts(state: ClusterState, diagnosis: Diagnosis) -> dict[str, Status]:
    if diagnosis.pre_filter is not None:
        return dict.fromkeys(state.names(), diagnosis.pre_filter)
    known = {int(code): state.statuses.status(int(code)) for code in np.unique(diagnosis.codes)}
    return {
        state.name(int(row)): known[int(code)]
        for row, code in zip(diagnosis.rows, diagnosis.codes, strict=True)
    }


def _verdict(status: Status) -> dict[str, Any]:
    if status.ok:
        return {"fit": True, "plugin": "", "code": status.code.value, "reasons": []}
    return {
        "fit": False,
        "plugin": status.plugin,
        "code": status.code.value,
        "reasons": list(status.reasons),
    }
