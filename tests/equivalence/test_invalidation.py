"""The table: what the design says must become invalid does, and the page says what is so."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scheduler.equivalence.reads import Reads
from scheduler.plugins.table import IN_TREE
from scheduler.state.aspects import Aspect
from shipping.docs.invalidation import (
    PAGE,
    PREDICATES,
    Invalidation,
    Scope,
    effect_on,
    invalidations,
    markdown,
    with_table,
)
from shipping.docs.invalidation_samples import INVALIDATION_SAMPLES, Touched

TABLE: dict[tuple[str, str], Invalidation] = {
    (row.sample.kind, row.sample.what): row for row in invalidations()
}


class Demand(NamedTuple):
    """A row of the design: an event, a predicate, and how far its verdicts become invalid."""

    kind: str
    what: str
    predicate: str
    scope: Scope


NODE, CLUSTER = Scope.NODE, Scope.CLUSTER
PV, PVC = "PersistentVolume", "PersistentVolumeClaim"
SPECIAL = "deleted or forgotten, with a special volume"
VOLUME_COUNTS = {
    "AWS EBS": "MaxEBSVolumeCount",
    "GCE PD": "MaxGCEPDVolumeCount",
    "Azure disk": "MaxAzureDiskVolumeCount",
}

DESIGN: list[Demand] = [
    *(
        Demand(PV, f"{verb}, {source}", predicate, CLUSTER)
        for source, predicate in VOLUME_COUNTS.items()
        for verb in ("added", "deleted")
    ),
    *(
        Demand(PVC, f"{verb}, bound", predicate, CLUSTER)
        for predicate in VOLUME_COUNTS.values()
        for verb in ("added", "deleted")
    ),
    Demand("Service", "added or deleted", "ServiceAffinity", CLUSTER),
    Demand("Service", "selector changed", "ServiceAffinity", CLUSTER),
    Demand("Pod", "assumed or added", "GeneralPredicates", NODE),
    Demand("Pod", "requests changed", "GeneralPredicates", NODE),
    Demand("Pod", "labels changed", "MatchInterPodAffinity", NODE),
    Demand("Pod", "deleted or forgotten", "MatchInterPodAffinity", CLUSTER),
    Demand("Pod", SPECIAL, "NoDiskConflict", NODE),
    Demand("Node", "allocatable changed", "GeneralPredicates", NODE),
    Demand("Node", "a label changed", "GeneralPredicates", NODE),
    Demand("Node", "a label changed", "ServiceAffinity", NODE),
    Demand("Node", "a label changed", "MatchInterPodAffinity", NODE),
    Demand("Node", "a zone label changed", "NoVolumeZoneConflict", NODE),
    Demand("Node", "taints changed", "PodToleratesNodeTaints", NODE),
    Demand("Node", "a condition changed", "CheckNodeMemoryPressure", NODE),
    Demand("Node", "a condition changed", "CheckNodeDiskPressure", NODE),
    Demand("Node", "a condition changed", "CheckNodeCondition", NODE),
    *(Demand("Node", "deleted", predicate, NODE) for predicate in PREDICATES),
]
"""The design's table, row by row."""

FINER: dict[tuple[str, str, str], str] = {
    ("Pod", "assumed or added", "NodePorts"): "only a pod with a host port takes one",
    ("Pod", "assumed or added", "NodeName"): "pods do not change which node is which",
    ("Pod", "assumed or added", "NodeAffinity"): "pods do not change the labels of nodes",
    ("Pod", "requests changed", "NodePorts"): "ports of a pod never change",
    ("Pod", "requests changed", "NodeName"): "as above",
    ("Pod", "requests changed", "NodeAffinity"): "as above",
    ("Node", "allocatable changed", "NodePorts"): "ports are not allocatable",
    ("Node", "allocatable changed", "NodeName"): "the name is the same",
    ("Node", "allocatable changed", "NodeAffinity"): "the labels are the same",
    ("Node", "a label changed", "NodeResourcesFit"): "labels are no resources",
    ("Node", "a label changed", "NodePorts"): "nor ports",
    ("Node", "a label changed", "NodeName"): "nor names",
    ("Node", "a condition changed", "NodeUnschedulable"): "cordoning is an event of its own",
}
"""Where the design invalidates a predicate that is several plugins here; one is unaffected."""

SOUNDER: dict[tuple[str, str, str], str] = {
    ("Pod", "assumed or added", "InterPodAffinity"): "whoever comes may be company, or keep away"
    " others: the design holds that a new pod breaks nothing, which is true of pods that are there"
    " and false of those that wait",
    ("Pod", "assumed or added, with a special volume", "VolumeRestrictions"): "a pod of another"
    " class may want the same disk",
    ("Pod", "labels changed", "InterPodAffinity"): "the pod is in the domains of many nodes",
    ("Node", "a label changed", "InterPodAffinity"): "the node takes its pods to another domain",
    ("Node", "a label changed", "ServiceAffinity"): "and with them the service",
}
"""Where the design invalidates less than may have become untrue."""


@pytest.mark.parametrize("demand", DESIGN, ids=lambda d: f"{d.kind} {d.what}: {d.predicate}")
def test_what_the_design_invalidates_is_invalid(demand: Demand) -> None:
    effects = TABLE[demand.kind, demand.what].effects
    for plugin in PREDICATES[demand.predicate]:
        if (demand.kind, demand.what, plugin) not in FINER:
            assert plugin in effects
            assert effects[plugin].scope >= demand.scope


@pytest.mark.parametrize("case", FINER, ids=" ".join)
def test_what_need_not_be_invalid_is_kept(case: tuple[str, str, str]) -> None:
    kind, what, plugin = case
    assert plugin not in TABLE[kind, what].effects


@pytest.mark.parametrize("case", SOUNDER, ids=" ".join)
def test_what_the_design_forgot_is_invalid(case: tuple[str, str, str]) -> None:
    kind, what, plugin = case
    demanded = [
        demand.scope
        for demand in DESIGN
        if (demand.kind, demand.what) == (kind, what) and plugin in PREDICATES[demand.predicate]
    ]
    assert TABLE[kind, what].effects[plugin].scope > max(demanded, default=Scope.NONE)


def test_exceptions_are_about_rows_that_exist() -> None:
    demanded = {(d.kind, d.what, plugin) for d in DESIGN for plugin in PREDICATES[d.predicate]}
    assert FINER.keys() <= demanded
    assert {(kind, what) for kind, what, _ in SOUNDER} <= TABLE.keys()


def test_a_change_of_nothing_that_counts_invalidates_nothing() -> None:
    for (_, what), row in TABLE.items():
        if what in ("anything else changed", "labels changed that no selector names"):
            assert not row.touched.rows | row.touched.whole
            assert not row.effects


def test_every_aspect_that_a_plugin_reads_is_touched_by_something() -> None:
    touched = set().union(*(row.touched.rows | row.touched.whole for row in TABLE.values()))
    assert touched == set(Aspect)
    assert len(TABLE) == len(INVALIDATION_SAMPLES)


def test_the_plugins_of_the_table_exist() -> None:
    assert {plugin for plugins in PREDICATES.values() for plugin in plugins} <= IN_TREE.keys()


def test_the_page_has_the_table_as_it_is() -> None:
    page = PAGE.read_text()
    assert markdown(list(TABLE.values())) in page
    assert with_table(page) == page


@pytest.mark.parametrize(
    ("reads", "touched_rows", "touched_whole", "scope", "by_key"),
    [
        pytest.param(Reads(), {Aspect.TAINTS}, set(), Scope.NONE, False, id="reads nothing"),
        pytest.param(Reads(), {Aspect.NODE}, set(), NODE, False, id="the node goes without saying"),
        pytest.param(
            Reads(rows=frozenset({Aspect.TAINTS})), {Aspect.TAINTS}, set(), NODE, False, id="a row"
        ),
        pytest.param(
            Reads(rows=frozenset({Aspect.TAINTS})),
            set(),
            {Aspect.TAINTS},
            CLUSTER,
            False,
            id="of rows, but all at once",
        ),
        pytest.param(
            Reads(cluster=frozenset({Aspect.IMAGES})),
            {Aspect.IMAGES},
            set(),
            CLUSTER,
            False,
            id="a row that concerns all",
        ),
        pytest.param(
            Reads(keys=frozenset({Aspect.TERMS})), set(), {Aspect.TERMS}, CLUSTER, True, id="keys"
        ),
    ],
)
def test_an_effect(
    reads: Reads, touched_rows: set[Aspect], touched_whole: set[Aspect], scope: Scope, by_key: bool
) -> None:
    effect = effect_on(reads, Touched(frozenset(touched_rows), frozenset(touched_whole)))
    assert (effect.scope, effect.by_key) == (scope, by_key)
