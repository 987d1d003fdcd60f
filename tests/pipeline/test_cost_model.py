"""`costModel: CpuMemory` decides: contended or not, however many pods there are.

Every scene is one in which the normal cycle places pods otherwise, which is run as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from scheduler.observe.decisions import Decision
from tests.builders import (
    Json,
    NodeBuilder,
    PodBuilder,
    constraint,
    make_node,
    make_pod,
    requirement,
    term,
)
from tests.pipeline.batch_support import (
    ZONE,
    at_once,
    interrupt,
    must,
    overcommitted,
    rather,
    settings,
    where,
)
from tests.pipeline.gpu_cluster import GPU
from tests.pipeline.support import Stage, TickingClock

PACKING: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "equipoise",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ],
}
"""A profile that fills one node after the other, as the model never would."""

Scene = tuple[Sequence[NodeBuilder], Sequence[PodBuilder]]


def counts(stage_: Stage) -> Counter[str]:
    return Counter(where(stage_).values())


def scheduled(stage_: Stage) -> list[Decision]:
    latest = stage_.core.decisions.latest(2000)
    return [decision for decision in latest if decision.result == "scheduled"]


async def one_by_one(scene: Scene, *config: Json) -> Stage:
    """The scene without batches."""
    stage_ = Stage(config=config, clock=TickingClock())
    nodes, pods = scene
    stage_.see(*nodes, *pods)
    await stage_.run()
    assert {decision.model for decision in scheduled(stage_)} == {""}
    return stage_


async def by_model(scene: Scene, *config: Json, placed: int) -> Stage:
    """The scene by `CpuMemory`, which placed so many of its pods itself."""
    stage_ = Stage(config=(*config, settings(costModel="CpuMemory")), clock=TickingClock())
    nodes, pods = scene
    stage_.see(*nodes, *pods)
    await at_once(stage_)
    batches = stage_.core.scheduler.batches
    assert batches is not None
    assert [report.result for report in batches.reports] == ["solved"]
    assert sum(report.placed for report in batches.reports) == placed
    assert stage_.sample("equipoise_batch_pods_total", outcome="placed") == placed
    assert [decision.model for decision in scheduled(stage_)] == ["CpuMemory"] * placed
    assert {decision.score for decision in scheduled(stage_)} == {None}
    assert overcommitted(stage_) == []
    return stage_


def machine(name: str, cpu: int = 10, pods: int = 110, **labels: str) -> NodeBuilder:
    """A node with a GiB for each CPU: CPU and memory fill alike."""
    return make_node(name).cpu(cpu).memory(f"{cpu}Gi").pods(pods).label(**labels)


def task(name: str, cpu: int = 1) -> PodBuilder:
    return make_pod(name).cpu(cpu).memory(f"{cpu}Gi")


def figure_1() -> Scene:
    """Three machines that take two tasks each, and three tasks."""
    return [machine(f"m{i}", pods=2) for i in range(3)], [task(f"t{i}") for i in range(3)]


async def test_figure_1_every_machine_gets_a_task_before_one_gets_two() -> None:
    scene = figure_1()

    assert counts(await by_model(scene, PACKING, placed=3)) == {"m0": 1, "m1": 1, "m2": 1}
    assert sorted(counts(await one_by_one(scene, PACKING)).values()) == [1, 2]


async def test_figure_1_full_machines_take_no_more() -> None:
    nodes, _ = figure_1()
    stage_ = await by_model((nodes, [task(f"t{i}") for i in range(7)]), PACKING, placed=6)

    assert counts(stage_) == {"m0": 2, "m1": 2, "m2": 2}


def figure_2() -> Scene:
    """Tasks with a nodeSelector for M0 and M1, and larger ones for M2."""
    nodes = [machine("m0", disk="ssd"), machine("m1", disk="ssd"), machine("m2", disk="hdd")]
    small = [must(task(f"small-{i}"), disk="ssd") for i in range(4)]
    large = [must(task(f"large-{i}", 2), disk="hdd") for i in range(2)]
    return nodes, [*small, *large]


async def test_figure_2_a_selector_has_arcs_to_machines_with_its_labels_only() -> None:
    scene = figure_2()

    placed = where(await by_model(scene, PACKING, placed=6))

    assert Counter(placed[f"small-{i}"] for i in range(4)) == {"m0": 2, "m1": 2}
    assert {placed["large-0"], placed["large-1"]} == {"m2"}
    otherwise = where(await one_by_one(scene, PACKING))
    assert len({otherwise[f"small-{i}"] for i in range(4)}) == 1, "the profile packs them"


def figure_3() -> Scene:
    """M0 and M1 meet the requirement, M2 does not. M0 is preferred by 80, a task costs 50."""
    nodes = [
        machine("m0", 20, zone="a", web="yes"),
        machine("m1", 20, zone="a"),
        machine("m2", 20, zone="b", web="yes"),
    ]
    return nodes, [constrained(f"t{i}", 80, "a") for i in range(5)]


def constrained(name: str, weight: int, *zones: str) -> PodBuilder:
    """A pod that must be in some zone, and would rather be on a node for web servers."""
    required = {"nodeSelectorTerms": [term(requirement("zone", "In", *zones))]}
    preferred = {"weight": weight, "preference": term(requirement("web", "In", "yes"))}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": [preferred],
    }
    return task(name).owner("ReplicaSet", "web").spec(affinity={"nodeAffinity": affinity})


async def test_figure_3_preferences_are_weighed_against_load() -> None:
    """Costs on M0 are 970, 1020, 1070, 1120, on M1 1050, 1100, 1150: three go here, two there."""
    scene = figure_3()

    assert counts(await by_model(scene, placed=5)) == {"m0": 3, "m1": 2}
    assert counts(await one_by_one(scene)) == {"m0": 5}, "the profile's affinity outweighs load"


@pytest.mark.parametrize("pods", [500, 501, 800])
async def test_any_number_of_pods_is_placed_by_the_model(pods: int) -> None:
    """400 CPUs on each of four nodes, one of which is worth 80 of 1000 points, or 32 pods."""
    nodes = [machine(f"n{i}", 400, 500, zone="a") for i in range(3)]
    nodes.append(machine("web", 400, 500, zone="a", web="yes"))
    scene = nodes, [constrained(f"p{i:03}", 80, "a") for i in range(pods)]

    found = counts(await by_model(scene, placed=pods))

    level = (pods - 32) // 4
    assert found["web"] - level in (32, 33)
    assert {found[f"n{i}"] - level for i in range(3)} <= {0, 1}
    assert counts(await one_by_one(scene))["web"] >= min(pods, 300)


async def test_a_backlog_that_does_not_contend_is_placed_by_the_model() -> None:
    nodes = [machine("a"), machine("b")]
    scene = nodes, [task(f"t{i}") for i in range(4)]

    assert counts(await by_model(scene, PACKING, placed=4)) == {"a": 2, "b": 2}
    assert len(counts(await one_by_one(scene, PACKING))) == 1


def of_many_owners(count: int) -> Scene:
    """With affinity each owner's pods are a class of their own, which shares places with others."""
    nodes = [machine("m0", 40, web="yes"), machine("m1", 40)]
    pods = [task(f"t{i}").owner("ReplicaSet", f"of-{i}") for i in range(count)]
    return nodes, [rather(pod, 50, web="yes") for pod in pods]


async def test_pods_of_many_owners_are_placed_in_one_round() -> None:
    scene = of_many_owners(30)

    stage_ = await by_model(scene, placed=30)

    assert counts(stage_) == {"m0": 16, "m1": 14}
    assert stage_.sample("equipoise_batch_rounds_total") == 1
    assert counts(await one_by_one(scene)) == {"m0": 30}


async def test_classes_that_one_network_has_no_room_for_are_solved_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """30 pods, each a class of its own: seven of them at a time have no more than 50 arcs."""
    monkeypatch.setattr("scheduler.flow.cpu_memory.MOST_ARCS", 50)

    stage_ = await by_model(of_many_owners(30), placed=30)

    assert counts(stage_) == {"m0": 16, "m1": 14}
    assert stage_.sample("equipoise_batch_rounds_total") == 5


async def test_few_placements_that_do_not_hold_are_solved_again() -> None:
    """A node gets a taint while 200 pods are posed: its pods, too, get a node from the model."""
    nodes = [machine(f"m{i}", 400, 300) for i in range(100)]
    pods = [task(f"t{i}") for i in range(200)]
    stage_ = Stage(config=(PACKING, settings(costModel="CpuMemory")), clock=TickingClock())
    stage_.see(*nodes, *pods)
    interrupt(stage_, lambda: stage_.see(machine("m7", 400, 300).taint("away")))
    await at_once(stage_)

    batches = stage_.core.scheduler.batches
    assert batches is not None
    report = batches.reports[0]
    assert (report.rounds, report.placed, report.refused) == (2, 200, 2)
    assert "m7" not in counts(stage_)
    assert set(counts(stage_).values()) <= {2, 3}


async def test_resources_that_cost_nothing_bound_places_all_the_same() -> None:
    """Two classes that request all GPUs of both nodes: neither counts those of the other."""
    nodes = [machine(f"m{i}", 40).offer(GPU, 4) for i in range(2)]
    single = [task(f"one-{i}").request(GPU, 1) for i in range(4)]
    double = [task(f"two-{i}", 2).request(GPU, 2) for i in range(2)]
    stage_ = await by_model((nodes, [*single, *double]), placed=6)

    assert stage_.sample("equipoise_batch_rounds_total") == 1
    assert stage_.sample("equipoise_batch_refused_total") == 0


async def test_placements_none_of_which_holds_are_solved_again() -> None:
    """The preferred node gets a taint while all pods are posed, and all were to go there."""
    nodes = [machine("liked", 40, web="yes"), machine("a"), machine("b")]
    scene = nodes, [rather(task(f"t{i}"), 100, web="yes") for i in range(2)]
    stage_ = Stage(config=(PACKING, settings(costModel="CpuMemory")), clock=TickingClock())
    stage_.see(*scene[0], *scene[1])
    interrupt(stage_, lambda: stage_.see(machine("liked", 40, web="yes").taint("away")))
    await at_once(stage_)

    assert counts(stage_) == {"a": 1, "b": 1}
    assert {decision.model for decision in scheduled(stage_)} == {"CpuMemory"}
    assert counts(await one_by_one((nodes[1:], scene[1]), PACKING)) != {"a": 1, "b": 1}


async def test_one_pod_is_a_backlog_if_the_configuration_says_so() -> None:
    nodes = [machine("busy"), machine("idle")]
    stage_ = Stage(
        config=(PACKING, settings(costModel="CpuMemory", minPending=1)), clock=TickingClock()
    )
    stage_.see(*nodes, task("there").on("busy"), task("new"))
    await at_once(stage_)

    assert counts(stage_) == {"idle": 1}
    assert {decision.model for decision in scheduled(stage_)} == {"CpuMemory"}


async def test_pods_that_must_be_spread_over_zones_are_placed_in_one_round() -> None:
    """24 pods prefer the zone of two out of six nodes, and must be spread over three zones."""
    zones = {f"n{i}": f"z{i % 3}" for i in range(6)}
    nodes = [machine(name, 80).label(**{ZONE: zone}) for name, zone in zones.items()]
    spread = constraint(ZONE, 1, labelSelector={"matchLabels": {"app": "x"}})
    pods = [rather(task(f"p{i}"), 100, **{ZONE: "z0"}).label(app="x") for i in range(24)]
    scene = nodes, [pod.spec(topologySpreadConstraints=[spread]) for pod in pods]

    stage_ = await by_model(scene, placed=24)

    found = where(stage_).values()
    assert Counter(zones[name] for name in found) == {"z0": 8, "z1": 8, "z2": 8}
    assert set(counts(stage_).values()) == {4}
    assert stage_.sample("equipoise_batch_rounds_total") == 1


async def test_pods_that_should_be_spread_are_not_the_models_concern() -> None:
    """Whether nodes are in one zone or in two: the model weighs load and node affinity alone."""
    spread = constraint(ZONE, 1, hard=False, labelSelector={"matchLabels": {"app": "x"}})
    pods = [task(f"p{i}").label(app="x") for i in range(6)]
    nodes = [machine(f"n{i}", 40).label(**{ZONE: "z0" if i else "z1"}) for i in range(3)]
    scene = nodes, [pod.spec(topologySpreadConstraints=[spread]) for pod in pods]

    assert set(counts(await by_model(scene, placed=6)).values()) == {2}
    assert counts(await one_by_one(scene))["n0"] == 3


async def test_pods_that_must_not_share_a_node_do_not() -> None:
    nodes = [machine(f"n{i}", 40) for i in range(3)]
    scene = nodes, [task(f"p{i}").host_port(80) for i in range(4)]

    assert set(counts(await by_model(scene, placed=3)).values()) == {1}


async def test_a_class_that_is_held_to_domains_has_arcs_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four classes of three zones each and of two pods: two of them at a time have 24 arcs."""
    monkeypatch.setattr("scheduler.flow.cpu_memory.MOST_ARCS", 24)
    nodes = [machine(f"n{i}", 40).label(**{ZONE: f"z{i}"}) for i in range(3)]
    pods = []
    for app in "abcd":
        spread = constraint(ZONE, 1, labelSelector={"matchLabels": {"app": app}})
        two = [task(f"{app}-{i}").label(app=app) for i in range(2)]
        pods += [pod.spec(topologySpreadConstraints=[spread]) for pod in two]

    stage_ = await by_model((nodes, pods), placed=8)

    assert stage_.sample("equipoise_batch_rounds_total") == 2


IGNORING: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "equipoise",
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/token"]}}
            ],
        }
    ],
}


async def test_resources_that_filters_ignore_bound_no_place() -> None:
    """One node has a token, three pods ask for one, and the profile does not count them."""
    nodes = [machine("a").offer("example.com/token", 1), machine("b"), machine("c")]
    scene = nodes, [task(f"t{i}").request("example.com/token", 1) for i in range(3)]

    stage_ = Stage(config=(IGNORING, settings(costModel="CpuMemory")), clock=TickingClock())
    stage_.see(*scene[0], *scene[1])
    await at_once(stage_)

    assert counts(stage_) == {"a": 1, "b": 1, "c": 1}
    assert [decision.model for decision in scheduled(stage_)] == ["CpuMemory"] * 3
