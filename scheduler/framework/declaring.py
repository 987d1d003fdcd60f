"""What plugins declare about their answers, in the words of `equivalence`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scheduler.equivalence.reads import Declaration, Key
from scheduler.framework.interface import (
    EnqueueExtensions,
    EquivalentFilter,
    EquivalentScore,
    Plugin,
)
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.hints import ANY_KIND, HintRegistration

_EVERYTHING = (HintRegistration(ANY_KIND, ~Action(0)),)


def declared_hints(plugin: Plugin) -> Sequence[HintRegistration]:
    """What a plugin listens to; all there is, if it does not say. Raises ValueError."""
    if not isinstance(plugin, EnqueueExtensions):
        return _EVERYTHING
    try:
        hints = tuple(plugin.hints())
    except Exception as fault:
        problem = f"{type(fault).__name__}: {fault}"
        raise ValueError(f"plugin {plugin.name!r}: hints: {problem}") from fault
    for hint in hints:
        if not isinstance(hint, HintRegistration):
            raise ValueError(f"plugin {plugin.name!r}: hints: {hint!r:.40} is no HintRegistration")
    return hints


def declared_filter(plugin: Plugin, *, judges: bool) -> Declaration:
    """What a plugin's verdicts depend on; one that does not judge nodes has none to keep."""
    if not isinstance(plugin, EquivalentFilter):
        return Declaration(plugin.name, None, _undeclared(plugin))
    reads = plugin.filter_reads
    if not judges:
        reads = msgspec.structs.replace(reads, kept=False)
    return Declaration(plugin.name, reads, plugin.filter_key)


def declared_score(plugin: Plugin, weight: int) -> Declaration:
    """What a plugin's scores depend on."""
    if not isinstance(plugin, EquivalentScore):
        return Declaration(plugin.name, None, _undeclared(plugin), weight)
    return Declaration(
        plugin.name, plugin.score_reads, plugin.score_key, weight, is_absolute(plugin)
    )


def is_absolute(plugin: Plugin) -> bool:
    """Whether a plugin's raw scores are final."""
    return getattr(plugin, "absolute", False) is True


def _undeclared(plugin: Plugin) -> Callable[[PodInfo], Key]:
    """The same for all pods: what an undeclared plugin says is never kept.

    Except for pods that are none of its concern: it has nothing to say about them.
    """
    concerns: Callable[[PodInfo], bool] | None = getattr(plugin, "concerns", None)

    def key(pod: PodInfo) -> Key:
        return "" if concerns is None or concerns(pod) else None

    return key
