"""The invalidation table: what happens, and which plugins' answers that makes invalid, and where.

Nothing here is needed to schedule. The scheduler pulls: an answer is invalid if an aspect that its
plugin reads was logged since. This module turns that round for people, from what is done to the
cluster (`happenings`) and from what plugins declare that they read.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduler.equivalence.happenings import HAPPENINGS, Happening, Touched
from scheduler.equivalence.reads import Declaration, Reads
from scheduler.state.aspects import Aspect


class Scope(enum.IntEnum):
    """How much of a plugin's answers is invalid; each value includes those before it."""

    NONE = 0
    NODE = 1
    """The answers for the nodes that were touched."""
    CLUSTER = 2
    """All answers, or those for all pods whose key is another one now."""


class Effect(NamedTuple):
    """What a happening does to the answers of one plugin."""

    scope: Scope
    by_key: bool
    """Pods may have another key, and with it other answers; those of the old key stay true."""
    kept: bool
    """Whether there are answers to invalidate; otherwise they are computed for each pod anyway."""


class Invalidation(NamedTuple):
    """A row of the table."""

    happening: Happening
    touched: Touched
    effects: Mapping[str, Effect]
    """By plugin; those that are not concerned are left out."""


def table(declarations: Iterable[Declaration]) -> list[Invalidation]:
    """All happenings, and what they mean to these plugins; one may filter and score."""
    declared = list(declarations)
    found = []
    for happening in HAPPENINGS:
        touched = happening.touched()
        effects: dict[str, Effect] = {}
        for each in declared:
            if each.reads is not None:
                effect = effect_on(each.reads, touched)
                if effect.scope is not Scope.NONE:
                    effects[each.plugin] = _joined(effects.get(each.plugin), effect)
        found.append(Invalidation(happening, touched, effects))
    return found


def effect_on(reads: Reads, touched: Touched) -> Effect:
    """What a change of some aspects means to somebody who reads some."""
    everything = touched.rows | touched.whole
    of_rows = reads.rows | {Aspect.NODE}
    by_key = not reads.keys.isdisjoint(everything)
    if by_key or not reads.cluster.isdisjoint(everything) or not of_rows.isdisjoint(touched.whole):
        scope = Scope.CLUSTER
    else:
        scope = Scope.NONE if of_rows.isdisjoint(touched.rows) else Scope.NODE
    return Effect(scope, by_key, reads.kept)


def _joined(one: Effect | None, other: Effect) -> Effect:
    if one is None:
        return other
    return Effect(max(one.scope, other.scope), one.by_key or other.by_key, one.kept or other.kept)


PREDICATES: Mapping[str, tuple[str, ...]] = {
    "GeneralPredicates": ("NodeResourcesFit", "NodePorts", "NodeName", "NodeAffinity"),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("NodeConditions",),
    "CheckNodeDiskPressure": ("NodeConditions",),
    "CheckNodeCondition": ("NodeConditions", "NodeUnschedulable"),
    "ServiceAffinity": ("ServiceAffinity",),
}
"""Predicates of old, and the plugins that do their work."""


def markdown(rows: Sequence[Invalidation]) -> str:
    """The table, and the names of old, in Markdown."""
    return "\n".join(
        [
            "| What happens | Aspects | Invalid on the nodes it touches | Invalid everywhere"
            " | Computed for each pod anyway |",
            "|---|---|---|---|---|",
            *map(_line, rows),
            "",
            "| Predicate of old | Plugins |",
            "|---|---|",
            *(f"| {name} | {', '.join(plugins)} |" for name, plugins in PREDICATES.items()),
            "",
        ]
    )


def _line(row: Invalidation) -> str:
    touched = row.touched
    aspects = [
        _words(aspect) if aspect in touched.rows else f"*{_words(aspect)}*"
        for aspect in Aspect
        if aspect in touched.rows | touched.whole
    ]
    columns: dict[str, list[str]] = {"node": [], "cluster": [], "anyway": []}
    for plugin, effect in sorted(row.effects.items()):
        place = "node" if effect.scope is Scope.NODE else "cluster"
        name = f"{plugin} (key)" if effect.by_key else plugin
        columns[place if effect.kept else "anyway"].append(name)
    cells = [
        f"{row.happening.kind}: {row.happening.what}",
        ", ".join(aspects),
        *map(", ".join, columns.values()),
    ]
    return f"| {' | '.join(cells)} |"


def _words(aspect: Aspect) -> str:
    return aspect.name.lower().replace("_", " ")
