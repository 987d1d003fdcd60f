"""The topology domains of a spread constraint, and the pods in them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler.model.affinity import HOSTNAME, PodSet, SpreadConstraint
from scheduler.model.podinfo import PodInfo
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows
from scheduler.state.labels import LabelColumn
from scheduler.state.partition import Counts, Partition


class Ground:
    """The rows that count for a constraint, and their domains: all that no pod can change."""

    def __init__(self, column: LabelColumn, counting: Rows, rows: Rows) -> None:
        self.labels: NDArray[np.int32] = column.ids
        self.ids = _with_absent_as_empty(column)
        self.counting = Partition(counting, self.ids, len(column.values))
        self.everywhere = bool(self.labels.take(rows).all())
        """Whether all rows there are have the label."""

    @cached_property
    def eligible(self) -> NDArray[np.intp]:
        """The domains of rows that count."""
        return np.flatnonzero(np.bincount(self.counting.parts, minlength=1))


def pods_of(constraint: SpreadConstraint, pod: PodInfo) -> PodSet:
    """The pods that a constraint of a pod is about."""
    return PodSet(frozenset((pod.pod.metadata.namespace,)), constraint.selector)


class Domains:
    """One constraint of one pod: the domains of all rows, and the pods that count in each.

    Pods are counted as they are now, so that pods of a trial are included.
    """

    def __init__(
        self, constraint: SpreadConstraint, pod: PodInfo, state: ClusterState, ground: Ground
    ) -> None:
        self.constraint = constraint
        self._ground = ground
        metadata = pod.pod.metadata
        self.self_match = int(constraint.selector.matches(metadata.labels))
        """1 if the pod itself counts, else 0."""
        self._pods = state.index.counter(pods_of(constraint, pod), living_only=True)
        # To kube-scheduler an empty selector counts no pod that is there already, although it does
        # match the pod itself and those that a trial adds.
        self._uncounted = None if constraint.selector.requirements else self._pods.counts.copy()

    def labelled(self, rows: Rows) -> Mask | None:
        """Which rows are in a domain at all; None: all."""
        if self._ground.everywhere:
            return None
        present: Mask = self._ground.labels.take(rows) != 0
        return present

    def surroundings(self, rows: Rows) -> tuple[int, Counts]:
        """How many domains these rows make up, and how many pods are in the one of each row.

        Rows without the label make up a domain of their own. By host name each row is a domain,
        whatever its label says, and has its own pods, whether or not it counts.
        """
        if self.constraint.topology_key == HOSTNAME:
            return len(rows), self._counts().take(rows)
        ids = self._ground.ids.take(rows)
        return int(np.count_nonzero(np.bincount(ids))), self._sums().take(ids)

    def crowded(self, rows: Rows) -> Mask | None:
        """Where one more pod would exceed the allowed skew; None: nowhere."""
        sums = self._sums()
        full: Mask = sums > self.constraint.max_skew - self.self_match + self._emptiest(sums)
        return full.take(self._ground.ids.take(rows)) if full.any() else None

    @property
    def emptiest(self) -> int:
        """The pods of the domain with the fewest; 0 if there are fewer domains than required."""
        return self._emptiest(self._sums())

    def _emptiest(self, sums: Counts) -> int:
        eligible = self._ground.eligible
        enough = 0 < len(eligible) >= self.constraint.min_domains
        return int(sums[eligible].min()) if enough else 0

    def pods_around(self, rows: Rows) -> Counts:
        """How many pods count in the domain of each row."""
        return self._sums().take(self._ground.ids.take(rows))

    def pods_by_domain(self) -> dict[int, int]:
        """How many pods are in each domain of rows that count, by the id of the label's value."""
        eligible = self._ground.eligible
        return dict(zip(eligible.tolist(), self._sums()[eligible].tolist(), strict=True))

    def _sums(self) -> Counts:
        """How many pods are in each domain, on rows that count."""
        counting = self._ground.counting
        if self._uncounted is None:
            return self._pods.sums(counting)
        return counting.sums(self._counts())

    def _counts(self) -> Counts:
        counts = self._pods.counts
        return counts if self._uncounted is None else counts - self._uncounted


def _with_absent_as_empty(column: LabelColumn) -> NDArray[np.int32]:
    """The domain of each row, with an absent label and an empty one as the same domain."""
    empty = column.values.find("")
    if empty is None:
        return column.ids
    return np.where(column.ids == 0, np.int32(empty), column.ids)
