"""Classes of equal pods, and how often each plugin's answers were kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scheduler.assembly import Core
from scheduler.equivalence.cache import EquivalenceCache
from scheduler.equivalence.classes import FILTER
from scheduler.slices import checkpoint

MAX_CLASSES = 200


def pod_classes(core: Core) -> dict[str, Any]:
    """The classes that something is kept for, those of most pods first; and hit rates."""
    kept = core.equivalence
    if kept is None:
        return {**_NOTHING, "enabled": False}
    classes = sorted(kept, key=lambda each: -each.pods)
    described = []
    for each in classes[:MAX_CLASSES]:
        checkpoint()
        described.append(kept.describe(each))
    return {
        "enabled": True,
        "kept": len(classes),
        "known": kept.class_count,
        "columns": kept.column_count,
        "bytes": kept.bytes,
        "budget": kept.budget,
        "evictions": kept.evictions,
        "hits": kept.statistics.hits,
        "misses": kept.statistics.misses,
        "plugins": _plugins(kept, core.state.node_count),
        "changes": kept.log_appends(),
        "classes": described,
    }


def _plugins(kept: EquivalenceCache, nodes: int) -> list[dict[str, Any]]:
    needed = _needed(kept, nodes)
    return [
        {
            "plugin": plugin,
            "point": point,
            "hits": each.hits,
            "misses": each.misses,
            "evaluations": each.evaluated,
            "needed": max(needed[point, plugin], each.hits + each.misses),
        }
        for (point, plugin), each in kept.by_plugin.items()
    ]


def _needed(kept: EquivalenceCache, nodes: int) -> Counter[tuple[str, str]]:
    """How many answers of each plugin the pods of all classes took: one for each pod and node.

    Filters look at all nodes, scores at those that fit. Most answers are not even looked up: what
    is joined for a class holds them.
    """
    needed: Counter[tuple[str, str]] = Counter()
    for classes in kept.classes.values():
        for each in classes:
            checkpoint()
            fit = each.results.count if each.results is not None else nodes
            for point, chosen in each.plugins.items():
                for declared, _ in chosen:
                    needed[point, declared.plugin] += each.pods * (
                        nodes if point == FILTER else fit
                    )
    return needed


_NOTHING: dict[str, Any] = {
    "kept": 0,
    "known": 0,
    "columns": 0,
    "bytes": 0,
    "budget": 0,
    "evictions": 0,
    "hits": 0,
    "misses": 0,
    "plugins": [],
    "changes": {},
    "classes": [],
}
