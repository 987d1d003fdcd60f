"""Plugin arguments that do not load say why."""

from typing import Any

import pytest

from .support import ARGS, args, problems_of, profile

CASES = {
    "arguments of an unknown plugin": (
        args("NodeAffinityy"),
        'profiles[0].pluginConfig[0].name: unknown plugin "NodeAffinityy" '
        '(did you mean "NodeAffinity"?)',
    ),
    "arguments twice": (
        profile(pluginConfig=[{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]),
        'profiles[0].pluginConfig[1].name: a second configuration of "NodeAffinity"',
    ),
    "arguments of another kind": (
        args("NodeAffinity", kind="NodeResourcesFitArgs"),
        f'{ARGS}.kind: must be "NodeAffinityArgs", not "NodeResourcesFitArgs"',
    ),
    "arguments that are no object": (
        profile(pluginConfig=[{"name": "NodeAffinity", "args": "all"}]),
        f'{ARGS}: expected an object, got "all"',
    ),
    "an unknown argument": (
        args("InterPodAffinity", hardPodAffinityWeigth=2),
        f"{ARGS}.hardPodAffinityWeigth: unknown field "
        '(did you mean "hardPodAffinityWeight"?); its value is 2',
    ),
    "an affinity weight": (
        args("InterPodAffinity", hardPodAffinityWeight=101),
        f"{ARGS}.hardPodAffinityWeight: must be between 0 and 100, not 101",
    ),
    "a strategy for cells": (
        args("NodeResourceTopologyMatch", scoringStrategy={"type": "LeastNumaNodes"}),
        f'{ARGS}.scoringStrategy.type: unknown value "LeastNumaNodes" '
        '(did you mean "LeastNUMANodes"?)',
    ),
    "a strategy for cells without a type": (
        args("NodeResourceTopologyMatch", scoringStrategy={"resources": []}),
        f"{ARGS}.scoringStrategy.type: is required, one of LeastAllocated, MostAllocated, "
        "BalancedAllocation, LeastNUMANodes",
    ),
    "a detail of the reserve cache": (
        args("NodeResourceTopologyMatch", cache={"resyncMethod": "Some"}),
        f'{ARGS}.cache.resyncMethod: unknown value "Some" '
        "(expected one of All, Autodetect, OnlyExclusiveResources)",
    ),
    "a period of the reserve cache": (
        args("NodeResourceTopologyMatch", cacheResyncPeriodSeconds=-1),
        f"{ARGS}.cacheResyncPeriodSeconds: must not be negative, not -1",
    ),
    "preemption by cells": (
        args("NodeResourceTopologyMatch", preemptionMode="Enabled"),
        f"{ARGS}.preemptionMode: must be Disabled: preemption for NUMA cells is not available",
    ),
    "nodes without cells": (
        args("NodeResourceTopologyMatch", missingTopology="Fail"),
        f'{ARGS}.missingTopology: unknown value "Fail" '
        "(expected one of Pass, Reject, RejectWithdrawn)",
    ),
    "rejections of a node": (
        args("NodeResourceTopologyMatch", compareAfterRejections=0),
        f"{ARGS}.compareAfterRejections: must be at least 1, not 0",
    ),
    "an added affinity": (
        args("NodeAffinity", addedAffinity={"required": {}}),
        f"{ARGS}.addedAffinity.required: unknown field (expected one of "
        "preferredDuringSchedulingIgnoredDuringExecution, "
        "requiredDuringSchedulingIgnoredDuringExecution); its value is {}",
    ),
    "a strategy without a type": (
        args("NodeResourcesFit", scoringStrategy={}),
        f"{ARGS}.scoringStrategy.type: is required, one of "
        "LeastAllocated, MostAllocated, RequestedToCapacityRatio",
    ),
    "a strategy of an unknown type": (
        args("NodeResourcesFit", scoringStrategy={"type": "MostAlocated"}),
        f'{ARGS}.scoringStrategy.type: unknown value "MostAlocated" '
        '(did you mean "MostAllocated"?)',
    ),
    "a resource weight": (
        args(
            "NodeResourcesFit",
            scoringStrategy={"type": "MostAllocated", "resources": [{"name": "a", "weight": 101}]},
        ),
        f"{ARGS}.scoringStrategy.resources[0].weight: must be between 1 and 100, not 101",
    ),
    "a ratio without its function": (
        args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
        f"{ARGS}.scoringStrategy.requestedToCapacityRatio: "
        "is required for type RequestedToCapacityRatio",
    ),
    "a function without a ratio": (
        args(
            "NodeResourcesFit",
            scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {}},
        ),
        f"{ARGS}.scoringStrategy.requestedToCapacityRatio: "
        "is only for type RequestedToCapacityRatio",
    ),
    "a function without points": (
        args(
            "NodeResourcesFit",
            scoringStrategy={"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}},
        ),
        f"{ARGS}.scoringStrategy.requestedToCapacityRatio.shape: needs at least one point",
    ),
    "an ignored resource": (
        args("NodeResourcesFit", ignoredResources=["Example.com/gpu"]),
        f'{ARGS}.ignoredResources[0]: "Example.com/gpu" is not a qualified name '
        "such as example.com/gpu",
    ),
    "an ignored group": (
        args("NodeResourcesFit", ignoredResourceGroups=["a.com/b"]),
        f'{ARGS}.ignoredResourceGroups[0]: a resource group has no slash, got "a.com/b"',
    ),
    "a balanced resource twice": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}, {"name": "cpu"}]),
        f'{ARGS}.resources[1].name: "cpu" is listed twice',
    ),
    "a balanced resource with a weight": (
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 2}]),
        f"{ARGS}.resources[0].weight: must be 1, not 2",
    ),
    "constraints that would not count": (
        args(
            "PodTopologySpread",
            defaultConstraints=[
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            ],
        ),
        f"{ARGS}.defaultingType: must be List if there are defaultConstraints",
    ),
    "no candidate at all": (
        args("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
        f"{ARGS}.minCandidateNodesPercentage: must not be 0 together with "
        "minCandidateNodesAbsolute",
    ),
    "fewer than no candidates": (
        args("DefaultPreemption", minCandidateNodesAbsolute=-1),
        f"{ARGS}.minCandidateNodesAbsolute: must not be negative, not -1",
    ),
    "a volume timeout": (
        args("VolumeBinding", bindTimeoutSeconds=-1),
        f"{ARGS}.bindTimeoutSeconds: must not be negative, not -1",
    ),
    "a volume shape": (
        args("VolumeBinding", shape=[]),
        f"{ARGS}.shape: scoring by storage capacity is not available",
    ),
    "a device timeout": (
        args("DynamicResources", bindingTimeout="10ms"),
        f"{ARGS}.bindingTimeout: must be at least 1s",
    ),
    "a service label that is none": (
        args("ServiceAffinity", labels=["zone", "not a label"]),
        f'{ARGS}.labels[1]: "not a label" is not a qualified name such as example.com/gpu',
    ),
    "a service label twice": (
        args("ServiceAffinity", labels=["zone", "zone"]),
        f'{ARGS}.labels[1]: "zone" is listed twice',
    ),
    "a negative device timeout": (
        args("DynamicResources", filterTimeout="-1s"),
        f"{ARGS}.filterTimeout: must not be negative",
    ),
}


@pytest.mark.parametrize(
    ("document", "problem"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_one_fault_is_one_problem(document: dict[str, Any], problem: str) -> None:
    assert problems_of(document) == [problem]


def test_every_bad_requirement_of_an_added_affinity_is_told_apart() -> None:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "Inn"}, {"key": "x", "operator": "In"}]},
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    ]
    wish = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["new"]}]}
    document = args(
        "NodeAffinity",
        addedAffinity={
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wish}],
        },
    )
    added = f"{ARGS}.addedAffinity"
    required = f"{added}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    preferred = f"{added}.preferredDuringSchedulingIgnoredDuringExecution"
    assert problems_of(document) == [
        f"{required}[0].matchFields[0].values: must have one element",
        f"{required}[1].matchExpressions[0].operator: unknown operator 'Inn' "
        "(one of In, NotIn, Exists, DoesNotExist, Gt, Lt)",
        f"{required}[1].matchExpressions[1].values: must not be empty for operator In",
        f"{preferred}[0].preference.matchExpressions[0].values: "
        "must be one integer for operator Gt",
    ]


def test_every_bad_spread_constraint_is_told_apart() -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    bad = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never", "labelSelector": {}}
    document = args(
        "PodTopologySpread", defaultingType="List", defaultConstraints=[good, good, bad]
    )
    assert [
        problem.removeprefix(f"{ARGS}.defaultConstraints") for problem in problems_of(document)
    ] == [
        "[1]: repeats topologyKey and whenUnsatisfiable of another one",
        "[2].maxSkew: must be greater than 0, not 0",
        '[2].topologyKey: "" is not a qualified name such as example.com/gpu',
        '[2].whenUnsatisfiable: unknown value "Never" '
        "(expected one of DoNotSchedule, ScheduleAnyway)",
        "[2].labelSelector: must be absent: it comes from each pod's owner",
    ]


def test_every_bad_point_of_a_function_is_told_apart() -> None:
    points = [(0, 0), (0, 11), (101, -1)]
    shape = [{"utilization": u, "score": s} for u, s in points]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    prefix = f"{ARGS}.scoringStrategy.requestedToCapacityRatio.shape"
    found = problems_of(args("NodeResourcesFit", scoringStrategy=strategy))
    assert [problem.removeprefix(prefix) for problem in found] == [
        "[1].score: must be between 0 and 10, not 11",
        "[1].utilization: must increase from point to point, got 0",
        "[2].utilization: must be between 0 and 100, not 101",
        "[2].score: must be between 0 and 10, not -1",
    ]


@pytest.mark.parametrize("name", ["a" * 64, "-a", "a/b/c", "/a", "a/", "", f"{'a.' * 127}a/b"])
def test_what_is_no_qualified_name(name: str) -> None:
    (problem,) = problems_of(args("NodeResourcesFit", ignoredResources=[name]))
    assert "is not a qualified name" in problem
