"""How well a pod would sit in the cells of each node, by scheduler-plugins' formulas.

Amounts are rounded up to whole units before they are divided, and every division truncates, so
that scores are the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.framework.interface import MAX_SCORE
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, Amounts, amounts_of
from scheduler.numa.cells import CellColumns, View
from scheduler.numa.topology import Scope
from scheduler.state.columns import Rows, Scores, where

_MILLI = 1000


class Requests(msgspec.Struct, frozen=True):
    """What scores read of a pod: what each container requests, and the pod as a whole."""

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
    """An amount rounded up to what is counted: CPUs, bytes, devices."""
    return -(-amount // _MILLI) if name == CPU else amount


class CellScorer:
    """One strategy: a value per cell, of which the worst counts, since the kubelet chooses."""

    def __init__(self, strategy: str, weights: Mapping[str, int]) -> None:
        self._value = _VALUES[strategy]
        self._value_one = _VALUES_ONE[strategy]
        self._weights = weights

    def score(
        self, cells: CellColumns, rows: Rows, requests: Requests, *, whole_pod: bool
    ) -> Scores:
        """A score per row; for containers the mean over all of them, each for itself."""
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
        # A cell that scores nothing cannot take the pod, so it does not count.
        values = np.where(cells.exists[:, where(rows)] & (values > 0), values, MAX_SCORE + 1)
        worst: Scores = values.min(axis=0)
        return np.where(worst > MAX_SCORE, 0, worst)

    def score_one(self, view: View, requests: Requests) -> int:
        """The same for one node."""
        if view.topology.scope is Scope.POD:
            return self._worst_one(view, requests.pod)
        total = sum(self._worst_one(view, each) for each in requests.containers)
        return total // len(requests.containers)

    def _worst_one(self, view: View, wanted: Sequence[tuple[str, int]]) -> int:
        if not wanted:
            return MAX_SCORE
        pairs = [(view.expected.get(name), name, amount) for name, amount in wanted]
        values = (
            self._value_one(
                [(0 if have is None else have[c], name, amount) for have, name, amount in pairs],
                self._weights,
            )
            for c in range(len(view.topology.cells))
        )
        return min((value for value in values if value > 0), default=0)


def _available(cells: CellColumns, rows: Rows, name: str) -> Scores | None:
    index = cells.resources.find(name)
    return None if index is None else cells.expected[index][:, where(rows)]


def _weighted(share: Callable[[Scores, int], Scores]) -> Value:
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
"""Below this, the quotient of two integers has no time to become a whole number by rounding."""


def _percent(part: Scores | int, whole: Scores) -> Scores:
    """``part * 100 // whole``, where ``part`` is no more than ``whole``.

    By way of fractions, which are divided many times faster, as long as that is exact.
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


Value = Callable[[CellColumns, Rows, Amounts, Mapping[str, int]], Scores]

_VALUES: Mapping[str, Value] = {
    "LeastAllocated": _weighted(lambda units, want: _percent(units - want, units)),
    "MostAllocated": _weighted(lambda units, want: _percent(want, units)),
    "BalancedAllocation": _balanced,
}


Shares = Sequence[tuple[int, str, int]]
"""What one cell has of each resource, its name, and what is wanted."""


def _weighted_one(share: Callable[[int, int], int]) -> ValueOne:
    """`_weighted` for one cell."""

    def value(cell: Shares, weights: Mapping[str, int]) -> int:
        total = weight = 0
        for available, name, amount in cell:
            counts = weights.get(name, 1)
            weight += counts
            if 0 < available >= amount:
                units = whole_units(name, available)
                total += counts * share(units, whole_units(name, amount))
        return total // weight

    return value


def _balanced_one(cell: Shares, weights: Mapping[str, int]) -> int:
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


ValueOne = Callable[[Shares, Mapping[str, int]], int]

_VALUES_ONE: Mapping[str, ValueOne] = {
    "LeastAllocated": _weighted_one(lambda units, want: (units - want) * MAX_SCORE // units),
    "MostAllocated": _weighted_one(lambda units, want: want * MAX_SCORE // units),
    "BalancedAllocation": _balanced_one,
}
