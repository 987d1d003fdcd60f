"""Plugins that answer for one node at a time, or compare two pods, made to answer in columns.

Whoever writes a plugin may begin with the simple methods::

    filter_node(cycle, node) -> Status       instead of  filter(cycle, rows) -> Codes
    score_node(cycle, node) -> int           instead of  score(cycle, rows) -> Scores, normalize
    less(a, b) -> bool                       instead of  sort_key(queued)

``node`` is a ``NodeView``. Everything else is as for the methods in columns: a plugin may declare
what it reads, and is then asked about changed nodes only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache, cmp_to_key
from typing import Any

import numpy as np

from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import PluginFactory
from scheduler.model.nodes import Node, Taint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows, Scores


class NodeView:
    """A node as it is now, to be read and not kept: rows are given to other nodes later on."""

    __slots__ = ("_state", "row")

    def __init__(self, state: ClusterState, row: int) -> None:
        self._state = state
        self.row = row

    @property
    def name(self) -> str:
        """The node's name."""
        return self._state.name(self.row)

    @property
    def object(self) -> Node:
        """The object, with the fields a scheduler reads."""
        node = self._state.columns.nodes[self.row]
        assert node is not None, "only rows with a node are asked about"
        return node

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.object.metadata.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.object.spec.taints

    @property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, those included that are being bound to it."""
        return self._state.pods_on(self.name)

    def allocatable(self, resource: str) -> int:
        """How much of a resource there is for pods: CPUs in thousandths, all else in units."""
        return self._amount(self._state.columns.allocatable, resource)

    def requested(self, resource: str) -> int:
        """How much of it the pods on the node request."""
        return self._amount(self._state.columns.requested, resource)

    def _amount(self, column: Scores, resource: str) -> int:
        index = self._state.columns.resources.find(resource)
        return 0 if index is None else int(column[index, self.row])


class FilterByNode:
    """Columns of verdicts from ``filter_node``."""

    name: str

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """A verdict per row, one after the other."""
        # Typed by `completed`, which adds this class only to those that have the method.
        state, judge = cycle.state, self.filter_node  # type: ignore[attr-defined]  # see above
        codes: Codes = np.zeros(len(rows), np.int32)
        for position, row in enumerate(rows.tolist()):
            status = judge(cycle, NodeView(state, row))
            if status is not SUCCESS:
                codes[position] = self._code(cycle, status)
        return codes

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The verdict on one row."""
        return self._code(cycle, self.filter_node(cycle, NodeView(cycle.state, row)))  # type: ignore[attr-defined]  # as above

    def _code(self, cycle: Cycle, status: Any) -> int:
        if not isinstance(status, Status):
            raise TypeError(f"filter_node returned {type(status).__name__}, not Status")
        if status.ok:
            return 0
        if not status.rejected:
            raise RuntimeError(status.message or status.code.value)
        return cycle.state.statuses.code(status.by(self.name))


class ScoreByNode:
    """Columns of scores from ``score_node``."""

    def score(self, cycle: Cycle, rows: Rows) -> list[Any]:
        """A score per row, one after the other; in place of one that cannot be had, the fault.

        All are checked where scores in columns are, so a fault costs one node its score.
        """
        return [self._score(cycle, row) for row in rows.tolist()]

    def _score(self, cycle: Cycle, row: int) -> Any:
        try:
            return self.score_one(cycle, row)
        except Exception as fault:
            return fault

    def score_one(self, cycle: Cycle, row: int) -> Any:
        """The score of one row."""
        return self.score_node(cycle, NodeView(cycle.state, row))  # type: ignore[attr-defined]  # as above


class AsTheyAre:
    """Scores that need no normalisation."""

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """The same scores, which must be in 0..100."""
        return scores


class SortByLess:
    """Keys that are compared by ``less``."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """A key that asks when it is compared, about the pod as it is now.

        A copy: a pod that changes while it waits must not change its place behind the queue's back.
        """
        return cmp_to_key(self._compare)(copy.copy(queued))

    def _compare(self, a: QueuedPod, b: QueuedPod) -> int:
        less = self.less  # type: ignore[attr-defined]  # as above
        return -1 if less(a, b) else 1 if less(b, a) else 0


@cache
def completed(factory: PluginFactory) -> PluginFactory:
    """A plugin's class with the methods in columns that its simple methods stand for."""
    if not isinstance(factory, type):
        return factory
    bases: list[type] = []
    if _lacks(factory, "filter", given="filter_node"):
        bases.append(FilterByNode)
    if _lacks(factory, "score", given="score_node"):
        bases.append(ScoreByNode)
        if not hasattr(factory, "normalize"):
            bases.append(AsTheyAre)
    if _lacks(factory, "sort_key", given="less"):
        bases.append(SortByLess)
    if not bases:
        return factory
    return type(factory.__name__, (factory, *bases), {"__doc__": factory.__doc__})


def _lacks(factory: type, method: str, given: str) -> bool:
    return hasattr(factory, given) and not hasattr(factory, method)
