"""The topology domains that a spread constraint speaks of, and the pods in them."""

from __future__ import annotations

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


class Ground:
    """The rows that count for a constraint, and their domains: all that no pod can change."""

    def __init__(self, column: LabelColumn, counting: Rows) -> None:
        self.labels: NDArray[np.int32] = column.ids
        self.ids = _with_absent_as_empty(column)
        self.rows = counting
        self.of_row: NDArray[np.int32] = self.ids[counting]
        self.number = len(column.values)

    @cached_property
    def eligible(self) -> NDArray[np.intp]:
        """The domains of rows that count."""
        return np.flatnonzero(np.bincount(self.of_row, minlength=1))


class Domains:
    """One constraint of one pod: the domains of all rows, and the pods that count in each.

    Pods are counted each time, so that pods that are put somewhere on trial are seen. A count is
    one pass over the rows.
    """

    def __init__(
        self, constraint: SpreadConstraint, pod: PodInfo, state: ClusterState, ground: Ground
    ) -> None:
        self.constraint = constraint
        self._ground = ground
        metadata = pod.pod.metadata
        self._self_match = int(constraint.selector.matches(metadata.labels))
        pods = PodSet(frozenset((metadata.namespace,)), constraint.selector)
        self._pods = state.index.counter(pods, living_only=True)
        # To kube-scheduler an empty selector counts no pod that is there already, although it does
        # match the pod itself and those that come on trial.
        self._uncounted = None if constraint.selector.requirements else self._pods.counts.copy()

    def labelled(self, rows: Rows) -> Mask:
        """Which rows are in a domain at all."""
        present: Mask = self._ground.labels.take(rows) != 0
        return present

    def surroundings(self, rows: Rows) -> tuple[int, Sums]:
        """How many domains these rows make up, and how many pods are in the one of each row.

        Rows without the label make up a domain of their own. By host name each row is a domain,
        whatever its label says, and has its own pods, whether or not it counts.
        """
        if self.constraint.topology_key == HOSTNAME:
            return len(rows), self._pods_on(rows)
        ids = self._ground.ids.take(rows)
        return int(np.count_nonzero(np.bincount(ids))), self._sums()[ids]

    def crowded(self, rows: Rows) -> Mask:
        """Where one more pod would exceed the allowed skew."""
        sums = self._sums()
        too_few = len(self._ground.eligible) < self.constraint.min_domains
        emptiest = 0.0 if too_few else sums[self._ground.eligible].min(initial=np.inf)
        skew: Sums = sums[self._ground.ids.take(rows)] + (self._self_match - emptiest)
        return skew > self.constraint.max_skew

    def _sums(self) -> Sums:
        """How many pods are in each domain, on rows that count."""
        sums: Sums = np.bincount(  # type: ignore[assignment]  # floats, as the weights are
            self._ground.of_row,
            weights=self._pods_on(self._ground.rows),
            minlength=self._ground.number,
        )
        return sums

    def _pods_on(self, rows: Rows) -> Sums:
        counts = self._pods.counts.take(rows)
        if self._uncounted is not None:
            counts = counts - self._uncounted[rows]
        return counts.astype(np.float64)


def _with_absent_as_empty(column: LabelColumn) -> NDArray[np.int32]:
    """The domain of each row, with an absent label and an empty one as the same domain."""
    empty = column.values.find("")
    if empty is None:
        return column.ids
    return np.where(column.ids == 0, np.int32(empty), column.ids)
