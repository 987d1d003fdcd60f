"""The invalidation table of docs/equivalence.md: event, plugins whose answers it invalidates, rows.

The scheduler pulls: an answer is invalid if an aspect that its plugin reads was logged since. The
table shows the opposite direction. It comes from `invalidation_samples`, which are applied to a
cluster state, and from what plugins declare to read.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scheduler.equivalence.reads import Declaration, Reads
from scheduler.state.aspects import Aspect
from shipping.docs.invalidation_samples import INVALIDATION_SAMPLES, InvalidationSample, Touched
from shipping.docs.program import all_plugins

PAGE = Path(__file__).parents[2] / "docs" / "equivalence.md"
BEGIN, END = "<!-- the table: make docs -->", "<!-- the end of the table -->"


class Scope(enum.IntEnum):
    """How much of a plugin's answers is invalid; each value includes those before it."""

    NONE = 0
    NODE = 1
    """The answers for the nodes that were touched."""
    CLUSTER = 2
    """All answers, or those for all pods whose key is another one now."""


class Effect(NamedTuple):
    """What an event does to the answers of one plugin."""

    scope: Scope
    by_key: bool
    """Pods may have another key, and with it other answers; those of the old key stay true."""
    kept: bool
    """Whether there are answers to invalidate; otherwise they are computed for each pod anyway."""


class Invalidation(NamedTuple):
    """A row of the table."""

    sample: InvalidationSample
    touched: Touched
    effects: Mapping[str, Effect]
    """By plugin; those that are not concerned are left out."""


def table(declarations: Iterable[Declaration]) -> list[Invalidation]:
    """One row for each sample; a plugin that filters and scores has two declarations."""
    declared = list(declarations)
    found = []
    for sample in INVALIDATION_SAMPLES:
        touched = sample.touched()
        effects: dict[str, Effect] = {}
        for each in declared:
            if each.reads is not None:
                effect = effect_on(each.reads, touched)
                if effect.scope is not Scope.NONE:
                    effects[each.plugin] = _joined(effects.get(each.plugin), effect)
        found.append(Invalidation(sample, touched, effects))
    return found


def effect_on(reads: Reads, touched: Touched) -> Effect:
    """What a change of these aspects does to answers that depend on ``reads``."""
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
        f"{row.sample.kind}: {row.sample.what}",
        ", ".join(aspects),
        *map(", ".join, columns.values()),
    ]
    return f"| {' | '.join(cells)} |"


def _words(aspect: Aspect) -> str:
    return aspect.name.lower().replace("_", " ")


def invalidations() -> list[Invalidation]:
    """The table of all in-tree plugins, on by default or not."""
    declared = all_plugins({"ServiceAffinity": {"labels": ["zone"]}}).declarations()
    return table([each for point in declared.values() for each in point])


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(invalidations())}\n{END}{after}"


def write() -> None:
    """Write the table into its page."""
    PAGE.write_text(with_table(PAGE.read_text()))
