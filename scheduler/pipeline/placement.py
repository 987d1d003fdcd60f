"""Where to put a pod: filter all nodes, score all that fit, pick the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.runtime import Framework, PreFilterOutcome
from scheduler.framework.what_if import trial
from scheduler.model.status import Code, Status
from scheduler.pipeline.choosing import choose, veto_codes
from scheduler.pipeline.own_verdicts import (
    NODES,
    OWN_VERDICTS,
    no_nodes,
    too_large,
    unreadable,
)
from scheduler.state.columns import Codes, Rows

_NO_ROWS: Rows = np.zeros(0, np.intp)
_NO_CODES: Codes = np.zeros(0, np.int32)


class Placement(msgspec.Struct, frozen=True):
    """A node for a pod, and how it came out on top."""

    node: str
    score: int | None
    """None if the node was promised and taken without comparison."""
    feasible: int
    evaluated: int
    model: str = ""
    """The cost model that chose the node for a whole backlog; empty: the pod was placed alone."""


class CycleError(Exception):
    """The attempt cannot go on: a plugin reported a fault instead of a verdict."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin


def place(framework: Framework, cycle: Cycle, seed: int) -> Placement | Diagnosis:
    """The best node, or why there is none. All nodes are looked at, whatever their number."""
    prepared = prepare(framework, cycle)
    if isinstance(prepared, Diagnosis):
        return rejected(prepared, cycle)
    return finish(framework, cycle, prepared, seed)


def finish(
    framework: Framework, cycle: Cycle, prepared: PreFilterOutcome, seed: int
) -> Placement | Diagnosis:
    """Judge nodes, score those that fit and pick one.

    A node that was promised to the pod is taken without comparison, if the pod fits there now.
    """
    taken = _take_promised(framework, cycle)
    if taken is not None:
        return taken
    diagnosis = _judge_nodes(framework, cycle, prepared)
    feasible = diagnosis.rows[diagnosis.codes == 0]
    if (ended := after_filters(framework, cycle, feasible)) is not None:
        return ended
    if not len(feasible):
        return rejected(diagnosis, cycle)
    totals = framework.run_scores(cycle, feasible).totals
    best, vetoes = choose(framework, cycle, feasible, totals, seed)
    if best is None:
        diagnosis.codes[diagnosis.codes == 0] = veto_codes(cycle, feasible, vetoes)
        return rejected(diagnosis, cycle)
    return Placement(
        node=cycle.state.name(int(feasible[best])),
        score=int(totals[best]),
        feasible=len(feasible),
        evaluated=len(diagnosis.rows),
    )


def _take_promised(framework: Framework, cycle: Cycle) -> Placement | Diagnosis | None:
    """The promised node if it will do now; None if all have to be looked at."""
    promised = promised_row(cycle)
    if promised is None:
        return None
    alone = np.array([promised], np.intp)
    if filter_rows(framework, cycle, alone).any():
        return None
    if (ended := after_filters(framework, cycle, alone)) is not None:
        return ended
    node = cycle.state.name(promised)
    if not framework.run_post_score(cycle, node).ok:
        return None
    return Placement(node=node, score=None, feasible=1, evaluated=1)


def after_filters(framework: Framework, cycle: Cycle, feasible: Rows) -> Diagnosis | None:
    """The verdict of a plugin that would not have the pod on any of these rows, if one said so."""
    status = framework.run_after_filters(cycle, feasible)
    if status.ok:
        return None
    return rejected(msgspec.structs.replace(_rejected_whole(status), settled=True), cycle)


def as_proposed(framework: Framework, cycle: Cycle, node: str, model: str = "") -> Placement | None:
    """A node that a cost model proposes for the pod, if all filters let it pass now."""
    row = cycle.state.row(node)
    prepared = prepare(framework, cycle)
    if row is None or isinstance(prepared, Diagnosis) or prepared.node_names is not None:
        return None
    if filter_rows(framework, cycle, np.array([row], np.intp)).any():
        return None
    return Placement(node=node, score=None, feasible=1, evaluated=1, model=model)


def judge(framework: Framework, cycle: Cycle) -> Diagnosis:
    """A verdict for every node. Rows with code 0 fit."""
    prepared = prepare(framework, cycle)
    if isinstance(prepared, Diagnosis):
        return prepared
    return _judge_nodes(framework, cycle, prepared)


def promised_row(cycle: Cycle) -> int | None:
    """The row of the node that was promised to the pod, if there is one."""
    return cycle.state.row(cycle.state.nominations.node_of(cycle.pod.uid))


def prepare(framework: Framework, cycle: Cycle) -> PreFilterOutcome | Diagnosis:
    """What is known before nodes are looked at, or why none needs to be."""
    if cycle.pod.excess:
        return _rejected_whole(too_large(cycle.pod.excess))
    if cycle.pod.faults:
        return _rejected_whole(unreadable(cycle.pod.faults))
    if not cycle.state.node_count:
        return _rejected_whole(no_nodes())
    outcome = framework.run_pre_filter(cycle)
    if outcome.rejection is not None:
        if not outcome.rejection.rejected:
            raise CycleError(outcome.rejection.plugin, outcome.rejection.message)
        return _rejected_whole(outcome.rejection, outcome.narrowing)
    return outcome


def _judge_nodes(framework: Framework, cycle: Cycle, outcome: PreFilterOutcome) -> Diagnosis:
    state = cycle.state
    rows = state.rows()
    if outcome.node_names is None:
        return Diagnosis(rows, filter_rows(framework, cycle, rows))
    named = [row for name in outcome.node_names if (row := state.row(name)) is not None]
    codes: Codes = np.full(len(rows), state.statuses.code(outcome.excluded), np.int32)
    chosen = np.isin(rows, named)
    codes[chosen] = filter_rows(framework, cycle, rows[chosen])
    return Diagnosis(rows, codes, unschedulable_plugins=set(outcome.narrowing))


def filter_rows(framework: Framework, cycle: Cycle, rows: Rows) -> Codes:
    """A verdict per row, which holds whether or not pods come that were promised a place there.

    Only promises to pods of this priority or higher count. They may yet come, and may yet not, so
    both cases must pass.
    """
    codes = framework.run_filters(cycle, rows)
    if not cycle.state.nominations:
        return codes
    promised = np.flatnonzero(np.isin(rows, promised_to_others(cycle)))
    if len(promised):
        verdicts = crowded(framework, cycle, rows[promised])
        codes[promised] = np.where(verdicts, verdicts, codes[promised])
    return codes


def crowded(framework: Framework, cycle: Cycle, rows: Rows) -> Codes:
    """A verdict per row on which others were promised a place: as if they had come."""
    codes: Codes = np.zeros(len(rows), np.int32)
    everything = np.arange(len(rows))
    together = len(rows) > 0 and framework.judges_row_by_row(cycle)
    for group in [everything] if together else everything[:, np.newaxis]:
        with trial(framework, cycle) as changes:
            for row in rows[group].tolist():
                node = cycle.state.name(row)
                for pod in cycle.state.nominations.ahead_of(cycle.pod, node):
                    changes.add(pod, node)
            codes[group] = framework.run_filters(cycle, rows[group])
    return codes


def promised_to_others(cycle: Cycle) -> Rows:
    """The rows on which pods were promised a place that this pod must respect."""
    state = cycle.state
    rows = [
        row
        for node in state.nominations.nodes()
        if (row := state.row(node)) is not None and state.nominations.ahead_of(cycle.pod, node)
    ]
    return np.array(sorted(rows), np.intp)


def _rejected_whole(status: Status, narrowing: Iterable[str] = ()) -> Diagnosis:
    return Diagnosis(_NO_ROWS, _NO_CODES, pre_filter=status, unschedulable_plugins=set(narrowing))


def rejected(diagnosis: Diagnosis, cycle: Cycle) -> Diagnosis:
    """The diagnosis with the plugins noted that must be cured before another attempt."""
    statuses = (
        [diagnosis.pre_filter]
        if diagnosis.pre_filter is not None
        else [cycle.state.statuses.status(int(code)) for code in np.unique(diagnosis.codes)]
    )
    for status in statuses:
        if status.code is Code.PENDING:
            diagnosis.pending_plugins.add(status.plugin)
        else:
            diagnosis.unschedulable_plugins.add(status.plugin)
    return diagnosis


def may_make_room(diagnosis: Diagnosis) -> bool:
    """Whether post-filter plugins are asked: not if the pod itself or an empty cluster is wrong."""
    own = diagnosis.pre_filter is not None and diagnosis.pre_filter.plugin in OWN_VERDICTS
    return not diagnosis.settled and not own


def fit_error(cycle: Cycle, diagnosis: Diagnosis) -> str:
    """Why no node fits, in the words of kube-scheduler, which people and tools search for."""
    rejection = diagnosis.pre_filter
    if rejection is not None and rejection.plugin == NODES:
        text = rejection.message
    elif rejection is not None:
        text = f"0/{cycle.state.node_count} nodes are available: {rejection.message}."
    else:
        counts = _reason_counts(cycle, diagnosis)
        reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
        text = f"0/{cycle.state.node_count} nodes are available: {', '.join(reasons)}."
    return f"{text} {diagnosis.post_filter}" if diagnosis.post_filter else text


def _reason_counts(cycle: Cycle, diagnosis: Diagnosis) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    codes, numbers = np.unique(diagnosis.codes, return_counts=True)
    for code, number in zip(codes, numbers, strict=True):
        for reason in cycle.state.statuses.status(int(code)).reasons:
            counts[reason] = counts.get(reason, 0) + int(number)
    return counts
