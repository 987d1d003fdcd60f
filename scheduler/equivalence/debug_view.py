"""What can be seen of the cache from outside: numbers for graphs, and classes for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.equivalence.cache import EquivalenceCache, HostPredicate
from scheduler.equivalence.classes import FILTER, PodClass
from scheduler.model.status import Status
from scheduler.observe.readings import Reading


class UnknownClass(LookupError):
    """Nothing is kept under this name."""


def readings(equivalence: EquivalenceCache) -> Iterator[Reading]:
    """All metrics of the cache."""
    statistics, name = equivalence.statistics, "equipoise_equivalence"
    yield Reading(
        f"{name}_hits_total",
        "Results of plugins for a node that were cached and still valid.",
        statistics.hits,
    )
    yield Reading(
        f"{name}_misses_total",
        "Results of plugins for a node that had to be computed: they were not cached, or no longer "
        "valid.",
        statistics.misses,
    )
    yield Reading(
        f"{name}_evaluations_total",
        "Calls of plugins to compute results, each for one node or many.",
        statistics.evaluated,
    )
    yield Reading(
        f"{name}_changes_total",
        "Changes of nodes and other objects, by the aspect that changed.",
        equivalence.log_appends(),
        "aspect",
    )
    yield Reading(f"{name}_classes", "Classes of equal pods.", equivalence.class_count)
    yield Reading(
        f"{name}_columns",
        "Columns of cached results: one for each plugin and each distinct key of pods.",
        equivalence.column_count,
    )
    yield Reading(f"{name}_bytes", "Memory of cached results.", equivalence.bytes)
    yield Reading(
        f"{name}_evictions_total",
        "Classes whose cached results were evicted because of the budget.",
        equivalence.evictions,
    )
    yield Reading(
        f"{name}_mixed_revisions_total",
        "Revisions of a controller with a pod that differs from the first one.",
        equivalence.mismatches,
    )


def overview(equivalence: EquivalenceCache, limit: int) -> dict[str, Any]:
    """The classes that something is kept for, the most recently used first."""
    classes = list(equivalence)[::-1]
    return {
        "classes": [equivalence.describe(each) for each in classes[:limit]],
        "kept": len(classes),
        "known": equivalence.class_count,
        "columns": equivalence.column_count,
        "bytes": equivalence.bytes,
        "budget": equivalence.budget,
        "hits": equivalence.statistics.hits,
        "misses": equivalence.statistics.misses,
        "evictions": equivalence.evictions,
        "mixedRevisions": equivalence.mismatches,
        "changes": equivalence.log_appends(),
    }


def one_class(equivalence: EquivalenceCache, name: int, limit: int) -> dict[str, Any]:
    """A class, and what is kept of its filters' verdicts on nodes."""
    pod_class = _find(equivalence, name)
    verdicts = equivalence.verdicts(pod_class)
    nodes = {
        node: {plugin: _entry(status) for plugin, status in verdicts[node].items()}
        for node in sorted(verdicts)[:limit]
    }
    return {**equivalence.describe(pod_class), "nodes": nodes}


def one_node(equivalence: EquivalenceCache, name: int, node: str) -> dict[str, Any]:
    """A class, and what is kept of its filters' verdicts on one node, each looked up by itself."""
    pod_class = _find(equivalence, name)
    entries = {
        each.plugin: _entry(equivalence.lookup(node, each.plugin, name))
        for each, _ in pod_class.plugins[FILTER]
        if each.kept
    }
    return {**equivalence.describe(pod_class), "nodes": {node: entries}}


def _find(equivalence: EquivalenceCache, name: int) -> PodClass:
    pod_class = equivalence.find(name)
    if pod_class is None:
        raise UnknownClass(f"nothing is kept for a class {name}")
    return pod_class


def _entry(kept: HostPredicate | Status | None) -> dict[str, Any]:
    """A verdict; ``valid`` is false where there is none, or something has changed since."""
    if kept is None:
        return {"valid": False}
    fit = kept.fit if isinstance(kept, HostPredicate) else kept.ok
    return {"valid": True, "fit": fit, "reasons": list(kept.reasons)}
