"""Which of the feasible nodes it is: the highest total that no plugin vetoes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xxhash
from numpy.typing import NDArray

from scheduler.framework.cycle import Cycle
from scheduler.framework.runtime import Framework
from scheduler.model.status import Status
from scheduler.state.columns import Codes, Rows, Scores

_ODD = np.uint64(0x9E3779B97F4A7C15)

Vetoes = dict[int, Status]
"""Why plugins would not have rows, in the order in which these were tried."""


def choose(
    framework: Framework, cycle: Cycle, rows: Rows, totals: Scores, seed: int
) -> tuple[int | None, Vetoes]:
    """The position of the best row that no plugin vetoes, if there is one; and all vetoes."""
    if not framework.vetoes:
        return best_of(cycle, rows, totals, seed), {}
    vetoes: Vetoes = {}
    for position in _in_turn(cycle, rows, totals, seed):
        row = int(rows[position])
        status = framework.run_post_score(cycle, cycle.state.name(row))
        if status.ok:
            return position, vetoes
        vetoes[row] = status
    return None, vetoes


def veto_codes(cycle: Cycle, rows: Rows, vetoes: Vetoes) -> Codes:
    """The vetoes on rows as verdicts; 0 for a row that nobody was asked about."""
    statuses = cycle.state.statuses
    codes = [statuses.code(vetoes[row]) if row in vetoes else 0 for row in rows.tolist()]
    return np.array(codes, np.int32)


def best_of(cycle: Cycle, rows: Rows, totals: Scores, seed: int) -> int:
    """The position of the highest total; equals are ranked by a hash of node, pod and seed.

    So the choice depends on nothing but names: not on history, row numbers or replica, and
    different pods break the same tie differently.
    """
    (best,) = (totals == totals.max()).nonzero()
    return int(best[among_equals(cycle, rows.take(best), seed)])


def among_equals(cycle: Cycle, rows: Rows, seed: int) -> int:
    """The position of one of these rows, chosen by a hash of node, pod and seed."""
    if len(rows) == 1:
        return 0
    return int(_mixed(cycle, rows, seed).argmin())


def _in_turn(cycle: Cycle, rows: Rows, totals: Scores, seed: int) -> Iterator[int]:
    """Positions, the best first; all are put in order only if the first will not do."""
    best = best_of(cycle, rows, totals, seed)
    yield best
    for position in np.lexsort((_mixed(cycle, rows, seed), -totals)).tolist():
        if position != best:
            yield position


def _mixed(cycle: Cycle, rows: Rows, seed: int) -> NDArray[np.uint64]:
    pod_hash = xxhash.xxh64_intdigest(cycle.pod.key.encode(), seed)
    # Both are good hashes already. One multiplication lets every bit of both move the upper bits,
    # which decide the order.
    names = cycle.state.columns.name_hash.take(rows)
    mixed: NDArray[np.uint64] = (names ^ np.uint64(pod_hash)) * _ODD
    return mixed
