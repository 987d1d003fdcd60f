"""A stock file with several profiles, and the plugins that exist: what runs where, and in vain."""

from pathlib import Path

import pytest

from scheduler.assembly import available
from scheduler.config.loading import Configuration, from_dicts, load
from scheduler.config.plugins import DEFAULT_PLUGINS, KNOWN_PLUGINS, resolve_plugins

from .support import profile

FILE = Path(__file__).parents[1] / "data" / "config" / "several-profiles.yaml"

DEFAULT_SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
DEFAULT_FILTERS = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
]
SCORES = {
    "spread-out": DEFAULT_SCORES,
    "packed": {"NodeResourcesFit": 5}
    | {
        name: weight
        for name, weight in DEFAULT_SCORES.items()
        if name not in ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "PodTopologySpread")
    },
    "reweighted": DEFAULT_SCORES | {"TaintToleration": 7},
    "no-scoring": {},
    "by-hand": {"NodeResourcesFit": 2, "TaintToleration": 1, "NodeAffinity": 4},
}
"""Every score plugin of each profile, first to last."""

FILTERS = {
    "spread-out": DEFAULT_FILTERS,
    "packed": DEFAULT_FILTERS,
    "reweighted": [name for name in DEFAULT_FILTERS if name != "VolumeZone"],
    "no-scoring": DEFAULT_FILTERS,
    "by-hand": ["TaintToleration", "NodeResourcesFit", "NodeName"],
}


@pytest.fixture(scope="module")
def loaded() -> Configuration:
    return load(FILE, available(), {})


@pytest.mark.parametrize("number", range(len(SCORES)), ids=SCORES.keys())
def test_who_scores_and_who_filters(loaded: Configuration, number: int) -> None:
    chosen = loaded.scheduler.profiles[number]
    points = resolve_plugins(chosen, KNOWN_PLUGINS)  # as if all of kube-scheduler's existed here
    assert list(points["score"]) == list(SCORES[chosen.scheduler_name].items())
    assert [plugin.name for plugin in points["filter"]] == FILTERS[chosen.scheduler_name]


def test_only_sampling_is_in_vain(loaded: Configuration) -> None:
    assert [(warning.path, warning.message) for warning in loaded.warnings] == [
        ("percentageOfNodesToScore", "has no effect: all nodes are scored"),
        ("profiles[1].percentageOfNodesToScore", "has no effect: all nodes are scored"),
    ]


def test_what_is_not_built_follows_from_the_table_of_plugins() -> None:
    names = [plugin.name for plugin in DEFAULT_PLUGINS]
    names += ["ServiceAffinity", "NodeConditions", "GangScheduling"]
    document = profile(plugins={"multiPoint": {"enabled": [{"name": name} for name in names]}})
    warnings = from_dicts([document], available(), {}).warnings
    assert [warning.message for warning in warnings] == [
        "GangScheduling is not available, and has no effect"
    ]


def test_the_older_predicates_run_when_asked_for_and_only_then() -> None:
    asked = {"multiPoint": {"enabled": [{"name": "ServiceAffinity"}, {"name": "NodeConditions"}]}}
    for document, last in (
        (profile(), ["NodeDeclaredFeatures"]),
        (profile(plugins=asked), ["NodeDeclaredFeatures", "ServiceAffinity", "NodeConditions"]),
    ):
        config = from_dicts([document], available(), {})
        filters = resolve_plugins(config.scheduler.profiles[0], available())["filter"]
        assert [plugin.name for plugin in filters][-len(last) :] == last
