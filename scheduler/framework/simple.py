"""Plugins that answer for one node at a time, or compare two pods, made to answer in columns.

A plugin may have the simple methods::

    filter_node(cycle, node) -> Status       instead of  filter(cycle, rows) -> Codes
    score_node(cycle, node) -> int           instead of  score(cycle, rows) -> Scores, normalize
    less(a, b) -> bool                       instead of  sort_key(queued)
    node_facts(cycle, node) -> facts         instead of  failures, facts, cluster_facts

``node`` is a ``NodeView``. Everything else is as for the methods in columns: a plugin may declare
what it reads, and is then called for changed nodes only.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache, cmp_to_key
from typing import Any, Protocol

import numpy as np

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import (
    FilterPlugin,
    LessPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    QueueSortPlugin,
)
from scheduler.plugin_api.facts import MAX_NODES, Fact, FactsPlugin, NodeFactsPlugin, Told
from scheduler.plugin_api.handle import PluginFactory
from scheduler.plugin_api.node_view import NodeView
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.columns import Codes, Rows, Scores


@cache
def completed(factory: PluginFactory) -> PluginFactory:
    """A plugin's class with the methods in columns that its simple methods stand for."""
    if not isinstance(factory, type):
        return factory
    added: dict[str, Any] = {}
    if issubclass(factory, NodeFilterPlugin) and not issubclass(factory, FilterPlugin):
        added |= {"filter": _filter, "filter_one": _filter_one}
    if issubclass(factory, NodeScorePlugin) and "score" not in dir(factory):
        added |= {"score": _score, "score_one": _score_one}
        if "normalize" not in dir(factory):
            added["normalize"] = _normalize
    if issubclass(factory, LessPlugin) and not issubclass(factory, QueueSortPlugin):
        added["sort_key"] = _sort_key
    if issubclass(factory, NodeFactsPlugin) and not issubclass(factory, FactsPlugin):
        added |= {"failures": _failures, "facts": _facts, "cluster_facts": _cluster_facts}
    if not added:
        return factory
    return type(factory.__name__, (factory,), {"__doc__": factory.__doc__, **added})


class _NodeFilter(NodeFilterPlugin, Plugin, Protocol):
    """What these methods are added to."""


def _filter(self: _NodeFilter, cycle: Cycle, rows: Rows) -> Codes:
    """A verdict per row, one after the other."""
    state, judge = cycle.state, self.filter_node
    codes: Codes = np.zeros(len(rows), np.int32)
    for position, row in enumerate(rows.tolist()):
        status = judge(cycle, NodeView(state, row))
        if status is not SUCCESS:
            codes[position] = _code(self.name, cycle, status)
    return codes


def _filter_one(self: _NodeFilter, cycle: Cycle, row: int) -> int:
    """The verdict on one row."""
    return _code(self.name, cycle, self.filter_node(cycle, NodeView(cycle.state, row)))


def _code(plugin: str, cycle: Cycle, status: Any) -> int:
    if not isinstance(status, Status):
        raise TypeError(f"filter_node returned {type(status).__name__}, not Status")
    if status.ok:
        return 0
    if not status.rejected:
        raise RuntimeError(status.message or status.code.value)
    return cycle.state.statuses.code(status.by(plugin))


def _score(self: NodeScorePlugin, cycle: Cycle, rows: Rows) -> list[Any]:
    """A score per row, one after the other; where ``score_node`` raises, its exception.

    All are checked where scores in columns are, so a fault costs one node its score.
    """
    scores: list[Any] = []
    for row in rows.tolist():
        try:
            scores.append(_score_one(self, cycle, row))
        except Exception as fault:
            scores.append(fault)
    return scores


def _score_one(self: NodeScorePlugin, cycle: Cycle, row: int) -> Any:
    """The score of one row."""
    return self.score_node(cycle, NodeView(cycle.state, row))


def _normalize(self: object, cycle: Cycle, scores: Scores) -> Scores:
    """The same scores, which must be in 0..100."""
    return scores


def _failures(self: NodeFactsPlugin, cycle: Cycle, rows: Rows, codes: Codes) -> list[Told]:
    """The facts of each of the first rows; of the others none are asked for."""
    tell, nothing = self.node_facts, Told(())
    first = [Told(tell(cycle, NodeView(cycle.state, row))) for row in rows[:MAX_NODES].tolist()]
    return first + [nothing] * (len(rows) - len(first))


def _facts(self: object, pod: PodInfo, failure: Told) -> Sequence[Fact]:
    """The same."""
    return failure.facts


def _cluster_facts(self: object, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Fact]:
    """What is known of one node at a time says nothing of all."""
    return ()


def _sort_key(self: LessPlugin, queued: QueuedPod) -> Any:
    """A key that calls ``less`` when it is compared.

    It holds a copy of the queued pod: a pod that changes while it waits keeps its place.
    """

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        return -1 if self.less(a, b) else 1 if self.less(b, a) else 0

    return cmp_to_key(compare)(copy.copy(queued))
