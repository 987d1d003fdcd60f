"""Which plugins run where: the rules by which sets, defaults and multiPoint combine."""

from typing import Any

import pytest

from scheduler.config.loading import from_dicts
from scheduler.config.plugins import DEFAULT_PLUGINS, Enabled, resolve_plugins

AVAILABLE = {
    "SchedulingGates": {"preEnqueue"},
    "PrioritySort": {"queueSort"},
    "OtherSort": {"queueSort"},
    "NodeName": {"filter"},
    "TaintToleration": {"filter", "preScore", "score"},
    "NodeAffinity": {"preFilter", "filter", "preScore", "score"},
    "NodeResourcesFit": {"preFilter", "filter", "preScore", "score"},
    "ImageLocality": {"score"},
    "DefaultBinder": {"bind"},
    "Extra": {"filter", "score"},
}


def document(plugins: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }


def resolve(plugins: dict[str, Any] | None) -> dict[str, list[Enabled]]:
    loaded = from_dicts([document(plugins)], AVAILABLE, {})
    return resolve_plugins(loaded.scheduler.profiles[0], AVAILABLE)


def named(*plugins: str) -> list[dict[str, Any]]:
    """`named("A", "B:3")` is what a document calls A, and B with weight 3."""
    pairs = (plugin.partition(":") for plugin in plugins)
    return [{"name": n, "weight": int(w)} if w else {"name": n} for n, _, w in pairs]


MINIMUM = ("PrioritySort", "Extra", "DefaultBinder")
SCORES = ["TaintToleration:3", "NodeAffinity:2", "NodeResourcesFit:1", "ImageLocality:1"]


@pytest.mark.parametrize(
    ("plugins", "scores"),
    [
        pytest.param(None, SCORES, id="no plugins at all means the defaults"),
        pytest.param({}, SCORES, id="an empty object means the defaults"),
        pytest.param(
            {"multiPoint": {"disabled": named("NodeAffinity")}},
            ["TaintToleration:3", "NodeResourcesFit:1", "ImageLocality:1"],
            id="a plugin disabled for all points is gone",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("NodeAffinity:7")}},
            ["TaintToleration:3", "NodeAffinity:7", "NodeResourcesFit:1", "ImageLocality:1"],
            id="enabled again, a default plugin keeps its place and takes the new weight",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("NodeAffinity")}},
            ["TaintToleration:3", "NodeAffinity:1", "NodeResourcesFit:1", "ImageLocality:1"],
            id="enabled again without a weight, it does not keep the default weight",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("NodeAffinity:7"), "disabled": named("NodeAffinity")}},
            ["TaintToleration:3", "NodeResourcesFit:1", "ImageLocality:1", "NodeAffinity:7"],
            id="disabled and enabled, it moves to the end",
        ),
        pytest.param(
            {"multiPoint": {"enabled": named("Extra:5")}},
            [*SCORES, "Extra:5"],
            id="a plugin of one's own is appended",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named(*MINIMUM)}},
            ["Extra:1"],
            id="a star leaves just what is enabled",
        ),
        pytest.param(
            {"score": {"disabled": named("*")}},
            [],
            id="a star at one point empties that point",
        ),
        pytest.param(
            {"score": {"disabled": named("*"), "enabled": named("ImageLocality:9", "Extra")}},
            ["ImageLocality:9", "Extra:1"],
            id="a star at one point leaves what that point enables, in its order",
        ),
        pytest.param(
            {"score": {"disabled": named("TaintToleration")}},
            ["NodeAffinity:2", "NodeResourcesFit:1", "ImageLocality:1"],
            id="disabled at one point",
        ),
        pytest.param(
            {"score": {"enabled": named("ImageLocality:9")}},
            ["ImageLocality:9", "TaintToleration:3", "NodeAffinity:2", "NodeResourcesFit:1"],
            id="a default plugin that a point enables goes first, with the point's weight",
        ),
        pytest.param(
            {"score": {"enabled": named("ImageLocality:9", "Extra:4", "TaintToleration")}},
            [
                "ImageLocality:9",
                "TaintToleration:1",
                "NodeAffinity:2",
                "NodeResourcesFit:1",
                "Extra:4",
            ],
            id="overrides first, then the defaults, then what only the point enables",
        ),
        pytest.param(
            {
                "score": {
                    "enabled": named("TaintToleration:8"),
                    "disabled": named("TaintToleration"),
                }
            },
            ["NodeAffinity:2", "NodeResourcesFit:1", "ImageLocality:1", "TaintToleration:8"],
            id="disabled and enabled at one point, it goes last",
        ),
        pytest.param(
            {
                "multiPoint": {"enabled": named("Extra:5")},
                "score": {"enabled": named("Extra:6")},
            },
            ["Extra:6", *SCORES],
            id="the point's weight beats the multiPoint weight",
        ),
        pytest.param(
            {"score": {"enabled": named("ImageLocality:0")}},
            ["ImageLocality:1", "TaintToleration:3", "NodeAffinity:2", "NodeResourcesFit:1"],
            id="weight 0 counts as 1",
        ),
    ],
)
def test_score_plugins(plugins: dict[str, Any] | None, scores: list[str]) -> None:
    assert [f"{name}:{weight}" for name, weight in resolve(plugins)["score"]] == scores


def test_a_change_at_one_point_leaves_the_others_alone() -> None:
    points = resolve({"score": {"disabled": named("*")}, "filter": {"disabled": named("NodeName")}})
    assert [p.name for p in points["filter"]] == [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
    ]
    assert [p.name for p in points["preFilter"]] == ["NodeAffinity", "NodeResourcesFit"]
    assert points["queueSort"] == [Enabled("PrioritySort", 1)]
    assert points["bind"] == [Enabled("DefaultBinder", 1)]
    assert points["permit"] == []


def test_the_queue_sort_can_be_replaced() -> None:
    points = resolve(
        {"queueSort": {"disabled": named("*"), "enabled": named("OtherSort")}},
    )
    assert points["queueSort"] == [Enabled("OtherSort", 1)]


def test_a_plugin_is_left_out_where_only_kube_scheduler_gives_it_work() -> None:
    points = resolve({"preScore": {"enabled": named("VolumeBinding", "NodeAffinity")}})
    assert [p.name for p in points["preScore"]] == [
        "NodeAffinity",
        "TaintToleration",
        "NodeResourcesFit",
    ]


def test_the_default_list_is_that_of_kube_scheduler() -> None:
    assert [(p.name, p.weight) for p in DEFAULT_PLUGINS if p.weight] == [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ]
    names = [plugin.name for plugin in DEFAULT_PLUGINS]
    assert names.index("DynamicResources") + 1 == names.index("DefaultPreemption")
    assert names[-2:] == ["DefaultBinder", "NodeDeclaredFeatures"]
