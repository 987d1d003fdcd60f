"""A backlog placed at once: better where pods contend, verified always, and no worse otherwise."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler import slices
from scheduler.flow.problem import Problem, Solution
from scheduler.flow.process import SolverProcess
from scheduler.model.devices import ClaimMeta, ResourceClaim
from scheduler.pipeline.batch.problem import BatchProblem, ProblemBuilder
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.columns import Codes, Rows
from tests.builders import PodBuilder, constraint, pod_term
from tests.pipeline.batch_support import (
    HOST,
    ZONE,
    at_once,
    contended,
    interrupt,
    node,
    overcommitted,
    pod,
    rather,
    result,
    settings,
    stage,
    where,
)
from tests.pipeline.support import Change, Stage, TickingClock


async def test_pods_that_have_a_choice_leave_the_place_to_those_that_have_none() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    await at_once(stage_)

    found = where(stage_)
    assert len(found) == 16
    assert {found[f"bound-{i}"][:3] for i in range(8)} == {"hot"}
    assert {found[f"easy-{i}"][:4] for i in range(8)} == {"cold"}
    assert result(stage_) == "solved"
    assert stage_.sample("equipoise_batch_pods_total", outcome="placed") == 16


async def test_the_loop_is_given_back_while_a_backlog_is_posed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes that come and go meanwhile do no harm: filters confirm what was found."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    real, changes = ProblemBuilder._posed, 0

    def posed(*args: Any) -> BatchProblem:
        asyncio.get_running_loop().call_soon(change)
        return real(*args)

    def change() -> None:
        nonlocal changes
        changes += 1
        stage_.lose(nodes[2])
        stage_.see(node("later", pool="cold"))

    monkeypatch.setattr(ProblemBuilder, "_posed", posed)
    await at_once(stage_)

    assert changes
    found = where(stage_)
    assert len(found) == 16
    assert nodes[2].obj()["metadata"]["name"] not in found.values()
    assert overcommitted(stage_) == []


async def test_one_by_one_the_same_backlog_leaves_pods_without_a_node() -> None:
    stage_ = Stage(clock=TickingClock())
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    await stage_.run()

    assert len(where(stage_)) < 16


async def test_without_contention_pods_are_placed_one_by_one() -> None:
    stage_ = stage()
    stage_.see(node("a", 40), node("b", 40), *(pod(f"p{i}") for i in range(6)))

    await at_once(stage_)

    assert result(stage_) == "uncontended"
    assert len(where(stage_)) == 6


async def test_few_pods_are_not_worth_it() -> None:
    stage_ = stage(minPending=50)
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    assert await stage_.core.scheduler.run_batch() is False


async def test_where_one_by_one_is_better_its_result_is_kept() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    batches = stage_.core.scheduler.batches
    assert batches is not None

    class Poor(SolverProcess):
        async def solve(self, problem: Problem) -> Solution:
            none = np.zeros(0, np.int64)
            return Solution(of_class=none, node=none, pods=none)

    batches._solver = Poor(60.0)
    await at_once(stage_)

    assert result(stage_) == "greedy"
    assert stage_.sample("equipoise_batch_pods_total", outcome="placed") == 0
    assert stage_.sample("equipoise_batch_pods_total", outcome="left") == 16
    assert len(where(stage_)) >= 8


# Order


async def test_no_pod_takes_a_place_that_one_of_higher_priority_could_have_had() -> None:
    stage_ = stage()
    stage_.see(node("a"), node("b"))
    low = [pod(f"low-{i}") for i in range(8)]
    high = [pod(f"high-{i}").priority(100) for i in range(6)]
    stage_.see(*low, *high)

    await at_once(stage_)

    found = where(stage_)
    assert sum(name.startswith("high") for name in found) == 6
    assert len(found) == 8
    assert overcommitted(stage_) == []


async def test_of_equal_pods_the_first_in_the_queue_get_the_places() -> None:
    stage_ = stage()
    stage_.see(node("a"))
    for i in range(8):
        stage_.see(pod(f"p{i}"))

    await at_once(stage_)

    assert sorted(where(stage_)) == ["p0", "p1", "p2", "p3"]


# Who takes no part


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            lambda p: p.spec(
                volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
            ),
            "volumes",
            id="volumes to bind",
        ),
        pytest.param(
            lambda p: p.spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
            "claims",
            id="claims of devices",
        ),
        pytest.param(lambda p: p.spec(containers=[]), "invalid", id="a spec without sense"),
        pytest.param(
            lambda p: p.label(app="x").near(pod_term(HOST, {"app": "x"})),
            "affinity",
            id="must be near pods of the same batch",
        ),
    ],
)
async def test_some_pods_take_the_normal_cycle(
    change: Callable[[PodBuilder], PodBuilder], reason: str
) -> None:
    stage_ = stage()
    nodes, pods = contended()
    claim = ResourceClaim(ClaimMeta(name="gpu", namespace="default", uid="gpu"))
    stage_.core.event_handlers.handler("ResourceClaim")([Change(None, claim)])
    stage_.see(*nodes, *pods, *(change(pod(f"special-{i}")) for i in range(2)))

    await at_once(stage_)

    assert stage_.sample("equipoise_batch_excluded_pods_total", reason=reason) == 2
    assert sum(not name.startswith("special") for name in where(stage_)) == 16


class Secretive:
    """A filter that does not say what it reads."""

    name = "Secretive"

    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        return rows.astype("int32") * 0


async def test_profiles_with_a_plugin_that_declares_nothing_place_pods_one_by_one() -> None:
    profile = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Secretive"}]}}}],
    }
    registry = {**IN_TREE, "Secretive": Secretive}
    stage_ = Stage(registry, config=(profile, settings()), clock=TickingClock())
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    await at_once(stage_)

    assert stage_.sample("equipoise_batch_excluded_pods_total", reason="undeclared") == 16
    assert result(stage_) == "nowhere"
    assert len(where(stage_)) >= 8


# Pods that keep apart


async def test_pods_that_must_not_share_a_node_do_not() -> None:
    stage_ = stage()
    stage_.see(*(node(f"n{i}") for i in range(4)), *(node(f"m{i}", 2) for i in range(2)))
    apart = [pod(f"p{i}").label(app="x").apart(pod_term(HOST, {"app": "x"})) for i in range(7)]
    stage_.see(*apart)

    await at_once(stage_)

    found = where(stage_)
    assert len(found) == len(set(found.values())) == 6


async def test_pods_that_must_not_share_a_zone_do_not() -> None:
    stage_ = stage()
    zones = {f"n{i}": f"z{i % 3}" for i in range(6)}
    stage_.see(*(node(name, 4, **{ZONE: zone}) for name, zone in zones.items()))
    apart = [pod(f"p{i}").label(app="x").apart(pod_term(ZONE, {"app": "x"})) for i in range(5)]
    stage_.see(*apart)

    await at_once(stage_)

    assert sorted(zones[n] for n in where(stage_).values()) == ["z0", "z1", "z2"]


async def test_pods_that_must_be_spread_over_zones_are_placed_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One by one is as good here; what the network says is to be seen.
    monkeypatch.setattr("scheduler.pipeline.batch.trial.better", lambda *_, **__: True)
    stage_ = stage()
    zones = {f"n{i}": f"z{i % 3}" for i in range(6)}
    stage_.see(*(node(name, 8, **{ZONE: zone}) for name, zone in zones.items()))
    spread = constraint(ZONE, 1, labelSelector={"matchLabels": {"app": "x"}})
    even = [
        rather(pod(f"p{i}"), 100, **{ZONE: "z0"})
        .label(app="x")
        .spec(topologySpreadConstraints=[spread])
        for i in range(24)
    ]
    stage_.see(*even)

    await at_once(stage_)

    assert Counter(zones[n] for n in where(stage_).values()) == {"z0": 8, "z1": 8, "z2": 8}
    assert stage_.sample("equipoise_batch_pods_total", outcome="placed") >= 20


async def test_pods_that_claim_a_port_do_not_share_a_node() -> None:
    stage_ = stage()
    stage_.see(*(node(f"n{i}") for i in range(3)), *(pod(f"p{i}").host_port(80) for i in range(4)))

    await at_once(stage_)

    found = where(stage_)
    assert len(found) == len(set(found.values())) == 3


# Failures


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("import sys; sys.exit(1)", "died", id="dies"),
        pytest.param(
            "import sys, time; sys.stdout.buffer.write(bytes(8)); sys.stdout.flush(); "
            "time.sleep(600)",
            "timeout",
            id="hangs",
        ),
    ],
)
async def test_without_a_solver_pods_are_placed_one_by_one(
    text: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    batches = stage_.core.scheduler.batches
    assert batches is not None
    command = (sys.executable, "-c", text)
    batches._solver = SolverProcess(0.5, command=command, clock=stage_.clock)

    await at_once(stage_)

    assert result(stage_) == "failed"
    assert stage_.sample("equipoise_batch_solver_failures_total", reason=reason) == 1
    assert len(where(stage_)) >= 8
    assert not batches.due, "it is left alone for a while"


# The profile's own order


class ByTeam:
    """Sorts by a label, then by time; priority is of no account."""

    name = "ByTeam"

    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def sort_key(self, queued: QueuedPod) -> tuple[str, float]:
        return queued.info.pod.metadata.labels["team"], queued.timestamp


class LessByTeam:
    """The same by a comparison."""

    name = "ByTeam"

    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        return self._key(a) < self._key(b)

    @staticmethod
    def _key(queued: QueuedPod) -> tuple[str, float]:
        return queued.info.pod.metadata.labels["team"], queued.timestamp


class ByName(ByTeam):
    """Leaves no two pods equal."""

    def sort_key(self, queued: QueuedPod) -> Any:
        return queued.key


def sorted_by(plugin: Callable[..., Any]) -> Stage:
    sorting = {"enabled": [{"name": "ByTeam"}], "disabled": [{"name": "*"}]}
    profile = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"queueSort": sorting}}],
    }
    registry = {**IN_TREE, "ByTeam": plugin}
    return Stage(registry, config=(profile, settings()), clock=TickingClock())


@pytest.mark.parametrize("plugin", [ByTeam, LessByTeam])
async def test_the_sort_plugin_decides_who_gets_the_scarce_place(
    plugin: Callable[..., Any],
) -> None:
    stage_ = sorted_by(plugin)
    stage_.see(node("a"), node("b"))
    late = [pod(f"z-{i}").label(team="z").priority(100) for i in range(8)]
    soon = [pod(f"a-{i}", 1 + i % 2).label(team="a") for i in range(6)]
    stage_.see(*late, *soon)

    await at_once(stage_)

    found = where(stage_)
    assert sum(name.startswith("a") for name in found) >= 5, "eight CPUs, and they ask for nine"
    batches = stage_.core.scheduler.batches
    assert batches is not None
    assert [report.pods for report in batches.reports] == [6, 8], "a rank is solved at once"


async def test_pods_that_a_sort_plugin_holds_apart_are_placed_in_its_order() -> None:
    stage_ = sorted_by(ByName)
    stage_.see(node("a"), *(pod(f"p{i}").priority(i) for i in range(8)))

    await at_once(stage_)

    assert sorted(where(stage_)) == ["p0", "p1", "p2", "p3"]


async def test_a_pod_that_the_sort_plugin_puts_first_overtakes_a_batch() -> None:
    stage_ = sorted_by(ByTeam)
    stage_.see(node("a"), *(pod(f"z-{i}", 1 + i % 2).label(team="z") for i in range(12)))
    interrupt(stage_, lambda: stage_.see(pod("first", 4).label(team="a")))

    await at_once(stage_)

    assert where(stage_) == {"first": "a"}
