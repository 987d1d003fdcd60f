"""The order of the queue, from the sort plugins of a profile."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.framework.calls import Entry
from scheduler.framework.complaints import Complaints
from scheduler.framework.interface import Plugin, RankingPlugin
from scheduler.queueing.queued_pod import QueuedPod

_POINT = "QueueSort"
_EFFECT = "the pods are sorted by priority and time"

SortKey = Callable[[QueuedPod], Any]


def sort_key_of(
    entries: Sequence[Entry], plugins: Mapping[str, Plugin], complaints: Complaints
) -> SortKey:
    """A function that gives each pod its key.

    Keys of plugins that vouch for them are compared as they are, so in the common case of one such
    plugin this is that plugin's own method. Others are wrapped: whatever they do when they are
    made or compared is contained, because the queue itself compares them.
    """
    if all(getattr(plugins[entry.name], "comparable", False) is True for entry in entries):
        if len(entries) == 1:
            call: SortKey = entries[0].call
            return call
        calls = [entry.call for entry in entries]
        return lambda queued: tuple(call(queued) for call in calls)
    names = tuple(entry.name for entry in entries)

    def sort_key(queued: QueuedPod) -> GuardedKey:
        keys = []
        for entry in entries:
            try:
                keys.append(entry.call(queued))
            except Exception as fault:
                complaints.contained(queued.info, entry.name, _POINT, fault, _EFFECT)
                return GuardedKey(queued, (), names, complaints)
        return GuardedKey(queued, tuple(keys), names, complaints)

    return sort_key


def rank_of(
    entries: Sequence[Entry], plugins: Mapping[str, Plugin], complaints: Complaints
) -> SortKey:
    """A function that gives each pod its rank: its key, as if all pods had come at the same time.

    Pods of one rank may be placed in any order; pods of another rank go before or after them. A
    plugin may say what the rank is (`RankingPlugin`).
    """
    ranking = []
    for entry in entries:
        plugin = plugins[entry.name]
        call = plugin.rank if isinstance(plugin, RankingPlugin) else entry.call
        ranking.append(msgspec.structs.replace(entry, call=call))
    key = sort_key_of(ranking, plugins, complaints)

    def rank(queued: QueuedPod) -> Any:
        timeless = copy.copy(queued)
        timeless.timestamp, timeless.initial_attempt = 0.0, None
        return key(timeless)

    return rank


class GuardedKey:
    """The keys of one pod, one for each plugin, comparable whatever they are.

    The first pair that is not equal decides. If a pair cannot be compared, or a key is missing,
    priority and time decide.
    """

    __slots__ = ("_complaints", "_keys", "_names", "_queued")

    def __init__(
        self,
        queued: QueuedPod,
        keys: tuple[Any, ...],
        names: tuple[str, ...],
        complaints: Complaints,
    ) -> None:
        self._queued = queued
        self._keys = keys
        self._names = names
        self._complaints = complaints

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
                self._complaints.contained(self._queued.info, name, _POINT, fault, _EFFECT)
                return self._by_priority(other)
        return 0 if self._keys else self._by_priority(other)

    def _by_priority(self, other: GuardedKey) -> int:
        mine, theirs = _priority(self._queued), _priority(other._queued)
        return (mine > theirs) - (mine < theirs)


def _priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.info.priority, queued.timestamp
