"""From an evaluation to a node: the highest total that no plugin vetoes, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from scheduler.model.status import Status
from scheduler.pipeline.evaluation import (
    NODES,
    OWN_VERDICTS,
    Evaluation,
    filter_with_nominated_pods,
)
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.state.columns import Rows, Scores

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Placement(msgspec.Struct, frozen=True):
    """A node for a pod, and how it was chosen."""

    node: str
    score: int | None
    """None if the node was taken without comparison: nominated, or proposed by a cost model."""
    feasible: int
    evaluated: int
    model: str = ""
    """The cost model that chose the node for a whole backlog; empty: the pod was placed alone."""


class Proposals(NamedTuple):
    """Nodes that a cost model proposes; each is taken without comparison if the pod fits there."""

    nodes: Mapping[str, str]
    """By the uid of the pod."""
    model: str


NO_PROPOSALS = Proposals({}, "")


def select_node(evaluation: Evaluation, seed: int) -> Placement | Diagnosis:
    """The best node, or why there is none. All nodes are evaluated, whatever their number.

    The node that the pod is nominated to is taken without comparison, if the pod fits there now.
    """
    if evaluation.nominated_row is not None:
        nominated = _nominated_node(evaluation, evaluation.nominated_row)
        if nominated is not None:
            return nominated
    rows = evaluation.feasible()
    if not len(rows):
        return evaluation.diagnosis()
    cycle = evaluation.cycle
    kept = None if evaluation.framework.vetoes else evaluation.best_kept()
    if kept is not None:
        row, score = kept.rows.item(_among_equals(cycle, kept.names, seed)), kept.total
    else:
        position = choose(evaluation, seed)
        if position is None:
            return evaluation.diagnosis()
        row, score = int(rows[position]), int(evaluation.totals()[position])
    return Placement(cycle.state.name(row), score, len(rows), cycle.state.node_count)


def _nominated_node(evaluation: Evaluation, row: int) -> Placement | Diagnosis | None:
    """The nominated node if the pod fits there now; None if all nodes have to be evaluated."""
    framework, cycle = evaluation.framework, evaluation.cycle
    if not _passes(evaluation, row):
        return None
    if not evaluation.passes_after_filter(_one(row)):
        return evaluation.diagnosis()
    node = cycle.state.name(row)
    if not framework.run_post_score(cycle, node).ok:
        return None
    return Placement(node=node, score=None, feasible=1, evaluated=1)


def proposed_node(evaluation: Evaluation, node: str, model: str) -> Placement | None:
    """The node that a cost model proposes, if all filters pass there now."""
    row = evaluation.cycle.state.row(node)
    if row is None or evaluation.rejection is not None or evaluation.node_names is not None:
        return None
    if not _passes(evaluation, row):
        return None
    return Placement(node=node, score=None, feasible=1, evaluated=1, model=model)


def _passes(evaluation: Evaluation, row: int) -> bool:
    """Whether all filters pass; a filter that fails is met again when all nodes are judged."""
    codes = filter_with_nominated_pods(evaluation.framework, evaluation.cycle, _one(row))
    return not codes.any()


def _one(row: int) -> Rows:
    return np.array([row], np.intp)


def choose(evaluation: Evaluation, seed: int) -> int | None:
    """The position of the best feasible row that no plugin vetoes; None if all are vetoed.

    The evaluation gets the vetoes.
    """
    framework, cycle = evaluation.framework, evaluation.cycle
    rows, totals = evaluation.feasible(), evaluation.totals()
    if not framework.vetoes:
        return _best_of(cycle, rows, totals, seed)
    vetoes: dict[int, Status] = {}
    chosen = None
    for position in _in_turn(cycle, rows, totals, seed):
        row = int(rows[position])
        status = framework.run_post_score(cycle, cycle.state.name(row))
        if status.ok:
            chosen = position
            break
        vetoes[row] = status
    evaluation.veto(vetoes)
    return chosen


def _best_of(cycle: Cycle, rows: Rows, totals: Scores, seed: int) -> int:
    """The position of the highest total; equals are ranked by a hash of node, pod and seed.

    So the choice depends on nothing but names: not on history, row numbers or replica, and
    different pods break the same tie differently.
    """
    (best,) = (totals == totals.item(totals.argmax())).nonzero()
    names = cycle.state.columns.name_hash.take(rows.take(best))
    return int(best[_among_equals(cycle, names, seed)])


def _among_equals(cycle: Cycle, names: NDArray[np.uint64], seed: int) -> int:
    """The position of one of the nodes with these hashes, chosen by a hash of node, pod and seed.

    Hashes of two nodes are taken to be different, so that the order of nodes has no effect.
    """
    return 0 if len(names) == 1 else int(_ranks(cycle.pod.key, names, seed).argmin())


def _in_turn(cycle: Cycle, rows: Rows, totals: Scores, seed: int) -> Iterator[int]:
    """Positions, the best first; all are sorted only if the first is vetoed."""
    best = _best_of(cycle, rows, totals, seed)
    yield best
    ranks = _ranks(cycle.pod.key, cycle.state.columns.name_hash.take(rows), seed)
    for position in np.lexsort((ranks, -totals)).tolist():
        if position != best:
            yield position


def tie_ranks(pod: str, nodes: Sequence[str], seed: int) -> NDArray[np.uint64]:
    """What ranks nodes with equal totals for a pod: the lowest is chosen."""
    hashes = [xxhash.xxh64_intdigest(node.encode()) for node in nodes]
    return _ranks(pod, np.array(hashes, np.uint64), seed)


def _ranks(pod: str, names: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    pod_hash = xxhash.xxh64_intdigest(pod.encode(), seed)
    # Both are good hashes already. One multiplication lets every bit of both move the upper bits,
    # which decide the order.
    mixed: NDArray[np.uint64] = names ^ np.uint64(pod_hash)
    mixed *= _ODD
    return mixed


def allows_post_filter(diagnosis: Diagnosis) -> bool:
    """Whether PostFilter runs: not if the pod itself is wrong, or there are no nodes."""
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
