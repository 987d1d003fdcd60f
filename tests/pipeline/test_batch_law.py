"""At once is never worse than one by one: the law, whatever the solver says, at any size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from scheduler import slices
from scheduler.flow.problem import Problem, Solution
from scheduler.flow.process import SolverProcess
from scheduler.flow.solving import solved
from scheduler.model.podinfo import PodInfo
from scheduler.pipeline.batch.trial import _AssumedPods
from scheduler.pipeline.scheduler import Scheduler
from scheduler.state.cache import allocatable_of
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod, requirement, term
from tests.pipeline.batch_support import (
    at_once,
    contended,
    node,
    overcommitted,
    pod,
    result,
    stage,
    where,
)
from tests.pipeline.gpu_cluster import GPU, gpu_nodes, gpu_pods, gpus
from tests.pipeline.support import Stage, TickingClock

RESOURCES = ("cpu", "memory", GPU, "ephemeral-storage", "hugepages-2Mi")
Solve = Callable[[Problem], Solution]


class InProcess(SolverProcess):
    """Solves here and now, by a function."""

    def __init__(self, solve: Solve) -> None:
        super().__init__(60.0)
        self._solve = solve

    async def solve(self, problem: Problem) -> Solution:
        return self._solve(problem)


async def placed_at_once(
    nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder], solve: Solve = solved
) -> Stage:
    stage_ = stage()
    assert stage_.core.scheduler.batches is not None
    stage_.core.scheduler.batches._solver = InProcess(solve)
    stage_.see(*nodes, *pods)
    await at_once(stage_)
    assert overcommitted(stage_) == []
    stage_.check()
    return stage_


async def placed_one_by_one(nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder]) -> Stage:
    stage_ = Stage(clock=TickingClock())
    stage_.see(*nodes, *pods)
    await stage_.run()
    return stage_


class Came(NamedTuple):
    """What became of pods."""

    pods: int
    used: float
    """Of all that is scarce."""
    devices: tuple[int, ...]
    """Of each that is scarce beyond CPU and memory."""

    def as_good_as(self, other: Came) -> bool:
        """Whether it is no worse in anything."""
        pairs = zip((self.pods, *self.devices), (other.pods, *other.devices), strict=True)
        return self.used >= other.used - 1e-9 and all(mine >= theirs for mine, theirs in pairs)


def name_of(pod_: PodBuilder) -> str:
    return str(pod_.obj()["metadata"]["name"])


def came(
    nodes: Sequence[NodeBuilder],
    held: Sequence[PodBuilder],
    pods: Sequence[PodBuilder],
    placed: set[str],
) -> Came:
    """Figures of pods, with what they ask for more of than ``held`` leave free on nodes."""

    def total(each: Sequence[PodBuilder], resource: str) -> int:
        return sum(one.info().fit_requests.get(resource, 0) for one in each)

    there = [p for p in pods if name_of(p) in placed]
    used, devices = 0.0, []
    for resource in RESOURCES:
        offered = sum(allocatable_of(each.struct()).get(resource, 0) for each in nodes)
        free = offered - total(held, resource)
        if free > 0 and total(pods, resource) > free:
            used += total(there, resource) / free
            if resource not in ("cpu", "memory"):
                devices.append(total(there, resource))
    return Came(len(there), used, tuple(devices))


# GPUs


@pytest.mark.parametrize("seed", range(4))
async def test_no_gpu_stays_idle_that_one_by_one_would_use(seed: int) -> None:
    nodes, pods = gpu_nodes(), gpu_pods(seed)

    at_once_ = where(await placed_at_once(nodes, pods))
    one_by_one = where(await placed_one_by_one(nodes, gpu_pods(seed)))

    assert gpus(pods, at_once_) >= gpus(pods, one_by_one)
    assert len(at_once_) >= len(one_by_one)


async def test_every_resource_that_is_asked_for_bounds_the_network() -> None:
    """Otherwise each class would count all GPUs of a node for itself, and filters would refuse."""
    asked: list[Problem] = []

    def watched(problem: Problem) -> Solution:
        asked.append(problem)
        return solved(problem)

    nodes = [
        make_node(f"n{i}").cpu(64).memory("256Gi").pods(110).offer(GPU, 4)
        .offer("ephemeral-storage", "100Gi").offer("hugepages-2Mi", "1Gi")
        for i in range(3)
    ]  # fmt: skip
    kinds: list[dict[str, int | str]] = [
        {GPU: 1}, {GPU: 2}, {"ephemeral-storage": "40Gi"}, {"hugepages-2Mi": "512Mi"},
    ]  # fmt: skip
    pods = []
    for i in range(40):
        each = make_pod(f"p{i}").cpu(1).memory(f"{1 + i // 4 % 3}Gi")
        for resource, amount in kinds[i % 4].items():
            each.request(resource, amount)
        pods.append(each)

    stage_ = await placed_at_once(nodes, pods, watched)

    first = asked[0]
    assert first.requests.shape[1] == first.free.shape[0] == len(RESOURCES)
    assert first.free.sum(axis=1)[2:].tolist() == sorted(
        (12.0, 3 * 100 * 2.0**30, 3 * 2.0**30), key=lambda free: _scarcity(first, free)
    )
    solution = solved(first)
    counts = np.zeros(first.shape)
    counts[solution.of_class, solution.node] = solution.pods
    assert (first.requests.T @ counts <= first.free).all(), "nothing is given out twice"
    assert stage_.sample("equipoise_batch_refused_total") == 0


def _scarcity(problem: Problem, free: float) -> float:
    """How a resource is ranked, known by how much of it is free."""
    index = problem.free.sum(axis=1).tolist().index(free)
    return float(-(problem.requests[:, index] * problem.supplies).sum() / free)


# The law


class World(NamedTuple):
    nodes: list[NodeBuilder]
    pods: list[PodBuilder]
    garbage: int | None
    """A seed for a solver that says anything; None: the real one."""


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Few nodes and many pods, of several resources, priorities, selectors and preferences."""
    nodes = []
    for number in range(draw(st.integers(2, 5))):
        each = make_node(f"n{number}").cpu(draw(st.sampled_from([4, 8, 16]))).pods(20)
        each.memory(draw(st.sampled_from(["8Gi", "32Gi"])))
        each.offer(GPU, draw(st.sampled_from([0, 1, 2, 4, 8])))
        each.offer("ephemeral-storage", draw(st.sampled_from(["10Gi", "50Gi"])))
        each.offer("hugepages-2Mi", draw(st.sampled_from(["0", "1Gi"])))
        nodes.append(each.label(pool=draw(st.sampled_from(["a", "b"]))))
    kinds = draw(st.integers(1, 5))
    pods = []
    for kind in range(kinds):
        requests = {
            "cpu": draw(st.sampled_from(["0", "500m", "1", "3"])),
            "memory": draw(st.sampled_from(["1Gi", "3Gi", "7Gi"])),
            GPU: draw(st.sampled_from(["0", "0", "1", "2", "4"])),
            "ephemeral-storage": draw(st.sampled_from(["0", "0", "6Gi"])),
            "hugepages-2Mi": draw(st.sampled_from(["0", "0", "512Mi"])),
        }
        selector = draw(st.sampled_from(["", "", "a", "b"]))
        liked = draw(st.sampled_from(["", "a", "b"]))
        priority = draw(st.sampled_from([0, 0, 10]))
        for number in range(draw(st.integers(1, 8))):
            made = make_pod(f"k{kind}-{number}").priority(priority)
            made.container({n: amount for n, amount in requests.items() if amount != "0"})
            if selector:
                made.node_selector(pool=selector)
            if liked:
                made.preferred(50, term(requirement("pool", "In", liked)))
            pods.append(made)
    order = draw(st.permutations(range(len(pods))))
    garbage = draw(st.one_of(st.none(), st.integers(0, 1000)))
    return World(nodes, [pods[i] for i in order], garbage)


def anything(seed: int) -> Solve:
    """A solver that sends pods to any nodes at all, and more of them than fit."""
    draw = np.random.default_rng(seed)

    def solve(problem: Problem) -> Solution:
        classes, nodes = problem.shape
        counts = draw.integers(0, 4, (classes, nodes))
        counts[problem.scores < 0] = 0
        of_class, node_ = np.nonzero(counts)
        return Solution(of_class=of_class, node=node_, pods=counts[of_class, node_])

    return solve


@given(worlds())
@examples(max_examples=40, deadline=None)
def test_each_band_is_as_good_as_one_by_one_on_the_state_it_finds(world: World) -> None:
    """Bands follow each other, so each is compared where the higher ones are as they came."""
    solve = solved if world.garbage is None else anything(world.garbage)
    stage_ = asyncio.run(placed_at_once(world.nodes, world.pods, solve))
    found = where(stage_)
    held: list[PodBuilder] = []
    for priority in (10, 0):
        band = [p for p in world.pods if p.obj()["spec"].get("priority", 0) == priority]
        other = asyncio.run(placed_one_by_one(world.nodes, [*held, *band]))
        one_by_one = came(world.nodes, held, band, set(where(other)))
        at_once_ = came(world.nodes, held, band, set(found))
        assert at_once_.as_good_as(one_by_one), (at_once_, one_by_one)
        held += [p.on(found[name_of(p)]) for p in band if name_of(p) in found]


# Cost, and what happens meanwhile


async def test_a_large_backlog_is_compared_too_and_each_way_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought = 0
    real = Scheduler.preview_node

    def preview_node(*args: Any, **kwargs: Any) -> str | None:
        nonlocal sought
        sought += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(Scheduler, "preview_node", preview_node)
    nodes = [make_node(f"n{i}").cpu(8).memory("64Gi").pods(110) for i in range(30)]
    sizes = ("100m", "700m", "3")
    pods = [make_pod(f"p{i}").cpu(sizes[i % 3]).memory("64Mi") for i in range(900)]

    stage_ = await placed_at_once(nodes, pods, anything(1))

    batches = stage_.core.scheduler.batches
    assert batches is not None
    rounds = 1 + batches.reports[0].rounds
    assert 900 <= sought <= 2 * 900 * rounds


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], list[bool]]:
    """Has something happen, once, while both ways are compared."""

    def install(happens: Callable[[], None]) -> list[bool]:
        monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
        real, done, taken = _AssumedPods.assume, list[bool](), list[str | None]()

        def assume(trial: _AssumedPods, pod_: PodInfo, node_: str | None) -> None:
            taken.append(node_)
            if len(taken) == 5:
                done.append(True)
                asyncio.get_running_loop().call_soon(happens)
            real(trial, pod_, node_)

        monkeypatch.setattr(_AssumedPods, "assume", assume)
        return done

    return install


async def test_the_loop_is_given_back_while_ways_are_compared(
    meanwhile: Callable[[Callable[[], None]], list[bool]],
) -> None:
    stage_ = stage()
    nodes = [node(f"n{i}") for i in range(4)]
    pods = [pod(f"p{i}", 1 + i % 3) for i in range(20)]
    stage_.see(*nodes, *pods)

    def change() -> None:
        assert stage_.core.state.assumed_count, "in the middle of a trial"
        stage_.lose(nodes[0], pods[0], pods[1])
        stage_.see(node("later"))

    done = meanwhile(change)
    await at_once(stage_)

    assert done
    found = where(stage_)
    assert "n0" not in found.values()
    assert not {"p0", "p1"} & set(found)
    assert "later" in found.values()
    assert overcommitted(stage_) == []


async def test_a_pod_of_higher_priority_ends_a_comparison_and_goes_first(
    meanwhile: Callable[[Callable[[], None]], list[bool]],
) -> None:
    stage_ = stage()
    stage_.see(node("n0"), *(pod(f"p{i}", 1 + i % 3) for i in range(12)))
    done = meanwhile(lambda: stage_.see(pod("urgent", 4).priority(10)))

    await at_once(stage_)

    assert done
    assert stage_.outlet.bound[0] == ("default/urgent", "n0")
    assert result(stage_) == "greedy"


async def test_who_wants_no_comparison_gets_what_the_solver_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unexpected(*_: object, **__: object) -> str | None:
        raise AssertionError("nothing is tried")

    monkeypatch.setattr(Scheduler, "preview_node", unexpected)
    stage_ = stage(compare=False)
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    await at_once(stage_)

    assert result(stage_) == "solved"
    assert len(where(stage_)) == 16
