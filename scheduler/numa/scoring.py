"""Scores by cells, with scheduler-plugins' formulas.

- LeastAllocated, MostAllocated, BalancedAllocation: a value per cell, of which the worst counts.
  Amounts are rounded up to whole units before they are divided, and every division truncates, so
  that scores are the same numbers.
- LeastNUMANodes: the fewer cells a pod needs and the closer they are, the better. All sets of cells
  are tried, the smallest first. Nodes with the same distances between cells are handled together,
  so the number of sets counts and not the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, Amounts, amounts_of
from scheduler.numa.cells import UNKNOWN_DISTANCE, CellColumns, Distances, NodeCells
from scheduler.numa.topology import ManagerScope
from scheduler.plugin_api.extension_points import MAX_SCORE
from scheduler.state.columns import Mask, Rows, Scores, where

_MILLI = 1000


class Requests(msgspec.Struct, frozen=True):
    """What scores read of a pod: the requests of each container, and of the pod as a whole."""

    containers: tuple[tuple[tuple[str, int], ...], ...]
    pod: tuple[tuple[str, int], ...]


def requests_of(pod: PodInfo) -> Requests:
    """The requests of a pod whose amounts can be read."""
    spec = pod.pod.spec
    listed = [each.resources.requests for each in (*spec.init_containers, *spec.containers)]
    return Requests(
        tuple(tuple(sorted(amounts_of(requests, "").items())) for requests in listed),
        tuple(sorted(pod.fit_requests.items())),
    )


def whole_units(name: str, amount: int) -> int:
    """An amount rounded up to whole CPUs, bytes or devices."""
    return -(-amount // _MILLI) if name == CPU else amount


class CellScorer:
    """One strategy: the worst cell counts, since the kubelet chooses the cell."""

    def __init__(self, strategy: str, weights: Mapping[str, int]) -> None:
        self._value = _VALUES[strategy]
        self._value_one = _VALUES_ONE[strategy]
        self._weights = weights

    def score(
        self, cells: CellColumns, rows: Rows, requests: Requests, *, whole_pod: bool
    ) -> Scores:
        """A score per row; in the scope ``container`` the mean over containers."""
        if whole_pod:
            return self._worst(cells, rows, dict(requests.pod))
        total = self._worst(cells, rows, dict(requests.containers[0]))
        for each in requests.containers[1:]:
            total = total + self._worst(cells, rows, dict(each))
        return total // len(requests.containers)

    def _worst(self, cells: CellColumns, rows: Rows, wanted: Amounts) -> Scores:
        if not wanted:
            return np.full(len(rows), MAX_SCORE, np.int64)
        values = self._value(cells, rows, wanted, self._weights)
        # A cell with value 0 cannot take the pod, so it does not count.
        values = np.where(cells.exists[:, where(rows)] & (values > 0), values, MAX_SCORE + 1)
        worst: Scores = values.min(axis=0)
        return np.where(worst > MAX_SCORE, 0, worst)

    def score_one(self, node: NodeCells, requests: Requests) -> int:
        """The same for one node."""
        if node.topology.scope is ManagerScope.POD:
            return self._worst_one(node, requests.pod)
        total = sum(self._worst_one(node, each) for each in requests.containers)
        return total // len(requests.containers)

    def _worst_one(self, node: NodeCells, wanted: Sequence[tuple[str, int]]) -> int:
        if not wanted:
            return MAX_SCORE
        pairs = [(node.expected.get(name), name, amount) for name, amount in wanted]
        values = (
            self._value_one(
                [(0 if have is None else have[c], name, amount) for have, name, amount in pairs],
                self._weights,
            )
            for c in range(len(node.topology.cells))
        )
        return min((value for value in values if value > 0), default=0)


def _available(cells: CellColumns, rows: Rows, name: str) -> Scores | None:
    index = cells.resources.find(name)
    return None if index is None else cells.expected[index][:, where(rows)]


def _weighted(share: Callable[[Scores, int], Scores]) -> CellValue:
    """The weighted mean over resources of a share of 100."""

    def value(
        cells: CellColumns, rows: Rows, wanted: Amounts, weights: Mapping[str, int]
    ) -> Scores:
        total: Scores = np.zeros((cells.exists.shape[0], len(rows)), np.int64)
        for name, amount in wanted.items():
            available = _available(cells, rows, name)
            if available is None:
                continue
            units = -(-available // _MILLI) if name == CPU else available
            fits = (available > 0) & (amount <= available)
            part = share(np.where(fits, units, 1), whole_units(name, amount))
            total += weights.get(name, 1) * part * fits
        return total // sum(weights.get(name, 1) for name in wanted)

    return value


_EXACT = 2**46
"""Below this, floating-point division never rounds a quotient up to the next whole number."""


def _percent(part: Scores | int, whole: Scores) -> Scores:
    """``part * 100 // whole``, where ``part`` is no more than ``whole``.

    By floating-point division, which is many times faster, as long as that is exact.
    """
    if whole.max(initial=0) < _EXACT:
        return (np.multiply(part, float(MAX_SCORE)) / whole).astype(np.int64)
    return part * MAX_SCORE // whole


def _balanced(
    cells: CellColumns, rows: Rows, wanted: Amounts, weights: Mapping[str, int]
) -> Scores:
    """The more even the shares that the pod takes of each resource, the better."""
    shape = (len(wanted), cells.exists.shape[0], len(rows))
    shares = np.ones(shape, np.float64)
    for i, (name, amount) in enumerate(wanted.items()):
        available = _available(cells, rows, name)
        if available is not None:
            units = -(-available // _MILLI) if name == CPU else available
            share = whole_units(name, amount) / np.maximum(units, 1)
            shares[i] = np.where(units > 0, share, 1.0)
    spread = shares.var(axis=0, ddof=1) if len(wanted) > 1 else np.zeros(shape[1:])
    value: Scores = ((1.0 - spread) * MAX_SCORE).astype(np.int64)
    return np.where((shares > 1).any(axis=0), 0, value)


CellValue = Callable[[CellColumns, Rows, Amounts, Mapping[str, int]], Scores]

_VALUES: Mapping[str, CellValue] = {
    "LeastAllocated": _weighted(lambda units, want: _percent(units - want, units)),
    "MostAllocated": _weighted(lambda units, want: _percent(want, units)),
    "BalancedAllocation": _balanced,
}


CellShares = Sequence[tuple[int, str, int]]
"""For each resource: what one cell has, its name, and what is wanted."""


def _weighted_one(share: Callable[[int, int], int]) -> OneCellValue:
    """`_weighted` for one cell."""

    def value(cell: CellShares, weights: Mapping[str, int]) -> int:
        total = weight = 0
        for available, name, amount in cell:
            counts = weights.get(name, 1)
            weight += counts
            if 0 < available >= amount:
                units = whole_units(name, available)
                total += counts * share(units, whole_units(name, amount))
        return total // weight

    return value


def _balanced_one(cell: CellShares, weights: Mapping[str, int]) -> int:
    """`_balanced` for one cell."""
    shares = np.array(
        [
            whole_units(name, amount) / whole_units(name, available) if available else 1.0
            for available, name, amount in cell
        ]
    )
    if (shares > 1).any():
        return 0
    return int((1.0 - (shares.var(ddof=1) if len(cell) > 1 else 0.0)) * MAX_SCORE)


OneCellValue = Callable[[CellShares, Mapping[str, int]], int]

_VALUES_ONE: Mapping[str, OneCellValue] = {
    "LeastAllocated": _weighted_one(lambda units, want: (units - want) * MAX_SCORE // units),
    "MostAllocated": _weighted_one(lambda units, want: want * MAX_SCORE // units),
    "BalancedAllocation": _balanced_one,
}


# LeastNUMANodes

_MAX_CELL_SETS = 2048
"""Sets of one size; if there are more, only those of the cells nearest to one cell are tried."""

CellSet = tuple[int, ...]


def least_numa_nodes(
    cells: CellColumns, rows: Rows, requests: Requests, *, whole_pod: bool
) -> Scores:
    """A score per row, for rows that have cells."""
    wanted = [dict(requests.pod)] if whole_pod else [dict(each) for each in requests.containers]
    scores: Scores = np.full(len(rows), MAX_SCORE, np.int64)
    kinds = cells.distances.numbers[rows]
    for kind in np.unique(kinds).tolist():
        among = np.flatnonzero(kinds == kind)
        alike = _SameDistances(cells, rows[among], cells.distances.interner.values[kind])
        scores[among] = alike.score(wanted)
    return scores


class _SameDistances:
    """Rows with the same distances between their cells."""

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
        """Rows whose cells list some of the wanted resources."""
        concerned: Mask = np.zeros(len(self._rows), np.bool_)
        for name in wanted:
            concerned |= self._listed(name)
        return concerned

    def _choose(self, wanted: Amounts) -> tuple[Rows, Mask]:
        """The number of the best set per row (-1: none has enough), and whether none is closer."""
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
        """Take the wanted amounts from the chosen cells, emptying one after the other."""
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
    if comb(count, size) <= _MAX_CELL_SETS:
        yield from combinations(range(count), size)
        return
    nearest = {
        tuple(sorted(sorted(range(count), key=lambda other: (row[other], other))[:size]))
        for row in distances
    }
    yield from sorted(nearest)


def _mean(distances: Distances, cells: CellSet) -> float:
    square: NDArray[np.float32] = np.array(distances, np.float32)[np.ix_(cells, cells)]
    return float(np.float32(square.mean(dtype=np.float32)))
