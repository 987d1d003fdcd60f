"""LeastNUMANodes: the fewer cells a pod needs and the closer they are, the better.

All sets of cells are tried, the smallest first. Nodes with the same distances between cells are
looked at together, so the number of sets counts and not the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.interface import MAX_SCORE
from scheduler.model.resources import Amounts
from scheduler.numa.cells import UNKNOWN_DISTANCE, CellColumns, Distances
from scheduler.numa.scoring import Requests
from scheduler.state.columns import Mask, Rows, Scores

_MOST_SETS = 2048
"""Sets of one size; beyond, only those are tried that gather round a cell."""

CellSet = tuple[int, ...]


def score(cells: CellColumns, rows: Rows, requests: Requests, *, whole_pod: bool) -> Scores:
    """A score per row, for rows that have cells."""
    wanted = [dict(requests.pod)] if whole_pod else [dict(each) for each in requests.containers]
    scores: Scores = np.full(len(rows), MAX_SCORE, np.int64)
    kinds = cells.distance_set[rows]
    for kind in np.unique(kinds).tolist():
        among = np.flatnonzero(kinds == kind)
        group = _Group(cells, rows[among], cells.distances(kind))
        scores[among] = group.score(wanted)
    return scores


class _Group:
    """Rows whose cells are equally far from each other."""

    def __init__(self, cells: CellColumns, rows: Rows, distances: Distances) -> None:
        self._cells = cells
        self._rows = rows
        self._distances = distances
        self._count = len(distances)
        self._free: dict[str, Scores] = {}

    def score(self, containers: Sequence[Amounts]) -> Scores:
        rows = self._rows
        size: Scores = np.zeros(len(rows), np.int64)
        close: Mask = np.ones(len(rows), np.bool_)
        unfit: Mask = np.zeros(len(rows), np.bool_)
        for wanted in containers:
            concerned = self._concerned(wanted)
            chosen, near = self._choose(wanted)
            unfit |= concerned & (chosen < 0)
            sets = _all_sets(self._distances)
            sizes = np.array([*(len(each) for each in sets), 0], np.int64)
            counts = concerned & (chosen >= 0)
            size = np.maximum(size, np.where(counts, sizes[chosen], 0))
            close &= near | ~counts
            self._take(wanted, np.where(counts, chosen, -1))
        unit = MAX_SCORE // self._cells.max_cells[rows]
        value = np.maximum(0, MAX_SCORE - size * unit + np.where(close, unit // 2, 0))
        value = np.where(size == 0, MAX_SCORE, value)
        return np.where(unfit, 0, value)

    def _amounts(self, name: str) -> Scores | None:
        index = self._cells.resources.find(name)
        if index is None:
            return None
        if name not in self._free:
            self._free[name] = self._cells.expected[index][: self._count, self._rows]
        return self._free[name]

    def _listed(self, name: str) -> Mask:
        index = self._cells.resources.find(name)
        if index is None:
            return np.zeros(len(self._rows), np.bool_)
        listed: Mask = ~self._cells.ignores[index, self._rows]
        return listed

    def _concerned(self, wanted: Amounts) -> Mask:
        """Rows whose cells list something of what is wanted."""
        concerned: Mask = np.zeros(len(self._rows), np.bool_)
        for name in wanted:
            concerned |= self._listed(name)
        return concerned

    def _choose(self, wanted: Amounts) -> tuple[Rows, Mask]:
        """The number of the best set per row (-1: none has enough), and if it is the closest."""
        rows = len(self._rows)
        chosen: Rows = np.full(rows, -1, np.intp)
        near: Mask = np.zeros(rows, np.bool_)
        parts = [
            (amounts, want, ~self._listed(name))
            for name, want in wanted.items()
            if want and (amounts := self._amounts(name)) is not None
        ]
        number = 0
        for sets, spans in _by_size(self._distances):
            best = np.full(rows, np.inf, np.float32)
            candidate: Rows = np.full(rows, -1, np.intp)
            for each, span in zip(sets, spans, strict=True):
                better = best > span
                if span < UNKNOWN_DISTANCE + 1 and better.any():
                    for amounts, want, ignored in parts:
                        better &= (amounts[list(each)].sum(axis=0) >= want) | ignored
                    best[better] = span
                    candidate[better] = number
                number += 1
            found = (chosen < 0) & (candidate >= 0)
            chosen[found] = candidate[found]
            near[found] = best[found] == min(UNKNOWN_DISTANCE, *spans)
            if (chosen >= 0).all():
                break
        return chosen, near

    def _take(self, wanted: Amounts, chosen: Rows) -> None:
        """Take what was wanted from the chosen cells, emptying one after the other."""
        sets = _all_sets(self._distances)
        member: Mask = np.zeros((len(sets) + 1, self._count), np.bool_)
        for number, each in enumerate(sets):
            member[number, list(each)] = True
        for name, want in wanted.items():
            amounts = self._amounts(name)
            if amounts is None:
                continue
            left: Scores = np.full(len(self._rows), want, np.int64)
            for cell in range(self._count):
                taken = np.where(member[chosen, cell], np.minimum(left, amounts[cell]), 0)
                amounts[cell] -= taken
                left -= taken


@lru_cache(maxsize=256)
def _by_size(distances: Distances) -> list[tuple[list[CellSet], list[float]]]:
    """The sets of each size, the smallest first, with the mean distance of their cells."""
    count = len(distances)
    result = []
    for size in range(1, count + 1):
        sets = list(_sets(distances, size))
        result.append((sets, [_mean(distances, each) for each in sets]))
    return result


@lru_cache(maxsize=256)
def _all_sets(distances: Distances) -> list[CellSet]:
    return [each for sets, _ in _by_size(distances) for each in sets]


def _sets(distances: Distances, size: int) -> Iterator[CellSet]:
    count = len(distances)
    if comb(count, size) <= _MOST_SETS:
        yield from combinations(range(count), size)
        return
    gathered = {
        tuple(sorted(sorted(range(count), key=lambda other: (row[other], other))[:size]))
        for row in distances
    }
    yield from sorted(gathered)


def _mean(distances: Distances, cells: CellSet) -> float:
    square: NDArray[np.float32] = np.array(distances, np.float32)[np.ix_(cells, cells)]
    return float(np.float32(square.mean(dtype=np.float32)))
