"""The topology domains that a spread constraint speaks of, and the pods in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler.model.affinity import PodSet, SpreadConstraint
from scheduler.model.podinfo import PodInfo
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows
from scheduler.state.labels import LabelColumn

HOSTNAME = "kubernetes.io/hostname"

Sums = NDArray[np.float64]
"""Numbers of pods; as floats, because that is what ``bincount`` gives."""


class Domains:
    """One constraint of one pod: the domains of all rows, and the pods that count in each.

    Which rows count is settled once, when first needed. Pods are counted each time, so that pods
    that are put somewhere on trial are seen. A count is one pass over the rows.
    """

    def __init__(
        self,
        constraint: SpreadConstraint,
        pod: PodInfo,
        state: ClusterState,
        counting: Callable[[], Rows],
    ) -> None:
        self.constraint = constraint
        column = state.columns.labels.column(constraint.topology_key)
        self._labels: NDArray[np.int32] = column.ids
        self._ids = _with_absent_as_empty(column)
        self._number = len(column.values)
        self._counting = counting
        metadata = pod.pod.metadata
        self._self_match = int(constraint.selector.matches(metadata.labels))
        pods = PodSet(frozenset((metadata.namespace,)), constraint.selector)
        self._pods = state.index.counter(pods, living_only=True)
        # To kube-scheduler an empty selector counts no pod that is there already, although it does
        # match the pod itself and those that come on trial.
        self._uncounted = None if constraint.selector.requirements else self._pods.counts.copy()

    def labelled(self, rows: Rows) -> Mask:
        """Which rows are in a domain at all."""
        present: Mask = self._labels[rows] != 0
        return present

    def surroundings(self, rows: Rows) -> tuple[int, Sums]:
        """How many domains these rows make up, and how many pods are in the one of each row.

        Rows without the label make up a domain of their own. By host name each row is a domain,
        whatever its label says, and has its own pods, whether or not it counts.
        """
        if self.constraint.topology_key == HOSTNAME:
            return len(rows), self._pods_on(rows)
        ids = self._ids[rows]
        return int(np.count_nonzero(np.bincount(ids))), self._sums()[ids]

    def crowded(self, rows: Rows) -> Mask:
        """Where one more pod would exceed the allowed skew."""
        sums = self._sums()
        too_few = len(self._eligible) < self.constraint.min_domains
        emptiest = 0.0 if too_few else sums[self._eligible].min(initial=np.inf)
        skew: Sums = sums[self._ids[rows]] + (self._self_match - emptiest)
        return skew > self.constraint.max_skew

    def _sums(self) -> Sums:
        """How many pods are in each domain, on rows that count."""
        sums: Sums = np.bincount(  # type: ignore[assignment]  # floats, as the weights are
            self._of_row, weights=self._pods_on(self._rows), minlength=self._number
        )
        return sums

    def _pods_on(self, rows: Rows) -> Sums:
        counts = self._pods.counts[rows]
        if self._uncounted is not None:
            counts = counts - self._uncounted[rows]
        return counts.astype(np.float64)

    @cached_property
    def _rows(self) -> Rows:
        return self._counting()

    @cached_property
    def _of_row(self) -> NDArray[np.int32]:
        return self._ids[self._rows]

    @cached_property
    def _eligible(self) -> NDArray[np.intp]:
        """The domains of rows that count."""
        return np.flatnonzero(np.bincount(self._of_row, minlength=1))


def _with_absent_as_empty(column: LabelColumn) -> NDArray[np.int32]:
    """The domain of each row, with an absent label and an empty one as the same domain."""
    empty = column.values.find("")
    if empty is None:
        return column.ids
    return np.where(column.ids == 0, np.int32(empty), column.ids)
