"""Every verdict and every score for one pod, in plain values: the answer to "why (not) there?"."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.pipeline.placement import best_of, fit_error, judge, promised_row
from scheduler.state.cache import ClusterState


def explain(
    framework: Framework, state: ClusterState, pod: PodInfo, seed: int = 0
) -> dict[str, Any]:
    """What the cycle would find for the pod now; changes nothing.

    Scores are given even for a single feasible node. ``node`` is the one that would be chosen.
    """
    cycle = Cycle(pod, state)
    diagnosis = judge(framework, cycle)
    verdicts = _verdicts(state, diagnosis)
    feasible = diagnosis.rows[diagnosis.codes == 0]
    answer: dict[str, Any] = {
        "pod": pod.key,
        "node": None,
        "fit": sorted(state.name(int(row)) for row in feasible),
        "nodes": {name: _verdict(status) for name, status in sorted(verdicts.items())},
        "scores": {},
        "message": "",
    }
    if not len(feasible):
        answer["message"] = fit_error(cycle, diagnosis)
        return answer
    scored = framework.run_scores(cycle, feasible)
    promised = promised_row(cycle)
    if promised is None or promised not in feasible:
        promised = int(feasible[best_of(cycle, feasible, scored.totals, seed)])
    answer["node"] = state.name(promised)
    answer["scores"] = {
        state.name(int(row)): {
            "total": int(scored.totals[i]),
            "plugins": {name: int(part[i]) for name, part in scored.plugins.items()},
        }
        for i, row in enumerate(feasible)
    }
    return answer


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
