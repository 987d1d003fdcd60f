"""The order of the queue, from the sort plugins of a profile."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from scheduler.framework.faults import PluginFaultReporter
from scheduler.framework.plugin_runner import PluginEntry, PluginRunner
from scheduler.plugin_api.extension_points import RankingPlugin
from scheduler.queueing.queued_pod import QueuedPod

_POINT = "QueueSort"
_EFFECT = "the pods are sorted by priority and time"

SortKey = Callable[[QueuedPod], Any]


def sort_key_of(runner: PluginRunner) -> SortKey:
    """A function that gives each pod its key."""
    return _key_of(runner, runner.entries["queueSort"])


def rank_of(runner: PluginRunner) -> SortKey:
    """A function that gives each pod its rank: its key, as if all pods were queued at one time.

    Pods of one rank may be placed in any order; pods of another rank go before or after them. A
    plugin may define the rank itself (`RankingPlugin`).
    """
    ranking = []
    for entry in runner.entries["queueSort"]:
        plugin = runner.plugins[entry.name]
        call = plugin.rank if isinstance(plugin, RankingPlugin) else entry.call
        ranking.append(msgspec.structs.replace(entry, call=call))
    key = _key_of(runner, ranking)

    def rank(queued: QueuedPod) -> Any:
        timeless = copy.copy(queued)
        timeless.timestamp, timeless.initial_attempt = 0.0, None
        return key(timeless)

    return rank


def _key_of(runner: PluginRunner, entries: Sequence[PluginEntry]) -> SortKey:
    """The keys of plugins with the trait ``comparable`` are compared directly.

    In the common case of one such plugin the function is that plugin's own method. Other keys are
    wrapped: their faults are contained when they are made or compared, because the queue itself
    compares them.
    """
    if all(runner.traits[entry.name].comparable for entry in entries):
        if len(entries) == 1:
            call: SortKey = entries[0].call
            return call
        calls = [entry.call for entry in entries]
        return lambda queued: tuple(call(queued) for call in calls)
    names = tuple(entry.name for entry in entries)
    reporter = runner.fault_reporter

    def sort_key(queued: QueuedPod) -> GuardedKey:
        keys = []
        for entry in entries:
            try:
                keys.append(entry.call(queued))
            except Exception as fault:
                reporter.report_contained(queued.info, entry.name, _POINT, fault, _EFFECT)
                return GuardedKey(queued, (), names, reporter)
        return GuardedKey(queued, tuple(keys), names, reporter)

    return sort_key


class GuardedKey:
    """The keys of one pod, one for each plugin, comparable whatever they are.

    The first pair that is not equal decides. If a pair cannot be compared, or a key is missing,
    priority and time decide.
    """

    __slots__ = ("_fault_reporter", "_keys", "_names", "_queued")

    def __init__(
        self,
        queued: QueuedPod,
        keys: tuple[Any, ...],
        names: tuple[str, ...],
        fault_reporter: PluginFaultReporter,
    ) -> None:
        self._queued = queued
        self._keys = keys
        self._names = names
        self._fault_reporter = fault_reporter

    def __lt__(self, other: GuardedKey) -> bool:
        return self._compare(other) < 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and self._compare(other) == 0

    __hash__ = None  # type: ignore[assignment]  # equality is a matter of order, not of identity

    def _compare(self, other: GuardedKey) -> int:
        if len(self._keys) != len(other._keys):
            return self._by_priority(other)
        for name, mine, theirs in zip(self._names, self._keys, other._keys, strict=False):
            try:
                if mine < theirs:
                    return -1
                if theirs < mine:
                    return 1
            except Exception as fault:
                pod = self._queued.info
                self._fault_reporter.report_contained(pod, name, _POINT, fault, _EFFECT)
                return self._by_priority(other)
        return 0 if self._keys else self._by_priority(other)

    def _by_priority(self, other: GuardedKey) -> int:
        mine, theirs = _priority(self._queued), _priority(other._queued)
        return (mine > theirs) - (mine < theirs)


def _priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.info.priority, queued.timestamp
