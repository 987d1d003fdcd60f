"""Gangs in a backlog that is placed at once: whole or not at all, and no fewer than one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from scheduler.flow.problem import Problem, Solution
from scheduler.flow.solving import solved, whole_gangs
from scheduler.gangs.plugin import Coscheduling
from scheduler.model.podinfo import PodInfo
from scheduler.plugins.table import IN_TREE
from tests.builders import make_node
from tests.flow.problems import problem
from tests.gangs.support import configured, make_group, member
from tests.pipeline.batch_support import HOST, at_once, node, overcommitted, rather, settings, where
from tests.pipeline.support import Stage, TickingClock


def gang_stage(*, batch: bool) -> Stage:
    return Stage(config=(configured(), settings(enabled=batch)), clock=TickingClock())


def complete(stage: Stage, sizes: dict[str, int]) -> int:
    """How many gangs have all their members on nodes; none may have some."""
    found = Counter(name.rpartition("-")[0] for name in where(stage))
    assert all(found[gang] in (0, size) for gang, size in sizes.items()), found
    return sum(found[gang] == size for gang, size in sizes.items())


def crowd(seed: int) -> tuple[dict[str, int], dict[str, int]]:
    """Gangs by size and by CPUs of a member, that ask for more than there is."""
    draw = random.Random(seed)
    sizes = {f"g{i}": draw.choice([2, 3, 5, 8]) for i in range(14)}
    return sizes, {gang: draw.choice([1, 2, 3]) for gang in sizes}


async def placed(seed: int, *, batch: bool) -> int:
    sizes, cpus = crowd(seed)
    stage = gang_stage(batch=batch)
    stage.see(*(make_node(f"n{i}").cpu(8).memory("64Gi").pods(30) for i in range(10)))
    stage.see(*(make_group(gang, size) for gang, size in sizes.items()))
    members = [
        member(f"{gang}-{i}", gang, str(cpus[gang]))
        for gang, size in sizes.items()
        for i in range(size)
    ]
    random.Random(seed + 1).shuffle(members)
    stage.see(*members)

    await at_once(stage)

    assert overcommitted(stage) == []
    assert stage.core.queue.view.counts()["in-flight"] == 0
    return complete(stage, sizes)


async def test_gangs_are_whole_and_no_fewer_than_one_by_one() -> None:
    one_by_one = [await placed(seed, batch=False) for seed in range(3)]
    together = [await placed(seed, batch=True) for seed in range(3)]

    assert sum(together) >= sum(one_by_one)


async def test_members_that_a_batch_has_popped_are_not_lost_to_their_gang() -> None:
    stage = gang_stage(batch=True)
    stage.see(make_node("n").cpu(4).memory("64Gi").pods(30), make_group("g", 4))
    stage.see(*(member(f"g-{i}") for i in range(4)))

    await at_once(stage)

    assert len(where(stage)) == 4


async def test_a_gang_that_does_not_fit_leaves_its_room_to_others() -> None:
    stage = gang_stage(batch=True)
    stage.see(make_node("n").cpu(4).memory("64Gi").pods(30))
    stage.see(make_group("large", 5), make_group("small", 3))
    stage.see(*(member(f"large-{i}", "large") for i in range(5)))
    stage.see(*(member(f"small-{i}", "small") for i in range(3)))

    await at_once(stage)

    assert sorted(where(stage)) == ["small-0", "small-1", "small-2"]


async def test_a_gang_goes_to_the_nodes_of_the_cost_model_that_was_chosen() -> None:
    """All members prefer one node by a point, which one by one outweighs its load."""
    found = {}
    for batch in (False, True):
        config = (configured(), settings(enabled=batch, costModel="CpuMemory", minPending=1))
        stage = Stage(config=config, clock=TickingClock())
        stage.see(*(node(f"n{i}", 40) for i in range(4)), make_group("g", 4))
        stage.see(*(rather(member(f"g-{i}"), 1, **{HOST: "n0"}) for i in range(4)))
        await at_once(stage) if batch else await stage.run()
        models = {decision.model for decision in stage.core.decisions.latest(10)}
        assert models == ({"CpuMemory"} if batch else {""})
        found[batch] = sorted(where(stage).values())

    assert found == {False: ["n0"] * 4, True: ["n0", "n1", "n2", "n3"]}


class ForgetfulCoscheduling(Coscheduling):
    """Cannot say which group a pod is in."""

    def group_of(self, pod: PodInfo) -> Any:
        raise RuntimeError("lost my books")


async def test_a_group_plugin_that_fails_loses_no_pod_of_a_backlog() -> None:
    registry = {**IN_TREE, "Coscheduling": ForgetfulCoscheduling}
    stage = Stage(registry, (configured(), settings()), clock=TickingClock())
    stage.see(make_node("n1").cpu("8"), make_group("g", 3))
    stage.see(*(member(f"g-{i}") for i in range(3)))
    await at_once(stage)
    assert where(stage) == {}
    assert stage.core.queue.view.counts()["in-flight"] == 0
    assert set(stage.tiers().values()) == {"error-backoff"}


def test_incomplete_gangs_are_dropped_and_their_room_is_used() -> None:
    # Two gangs of three compete for four places: together both would be incomplete.
    both = problem(
        [3, 3, 1],
        [[50], [50], [50]],
        [[1, 1]] * 3,
        [[4, 4]],
        gang=np.array([0, 1, -1]),
        gang_needs=np.array([3, 3]),
    )

    solution = solved(both)

    pods = dict(zip(solution.of_class.tolist(), solution.pods.tolist(), strict=True))
    assert sorted(pods.values()) == [1, 3]
    assert pods[2] == 1


def test_a_gang_that_was_dropped_is_tried_again() -> None:
    calls: list[list[int]] = []

    def solve(asked: Problem) -> Solution:
        calls.append(asked.supplies.tolist())
        return solved_without_gangs(asked)

    def solved_without_gangs(asked: Problem) -> Solution:
        return solved(
            Problem(
                supplies=asked.supplies,
                scores=asked.scores,
                fit=asked.fit,
                requests=asked.requests,
                free=asked.free,
                allocatable=asked.allocatable,
                slots=asked.slots,
                leaving=asked.leaving,
            )
        )

    three = problem(
        [3, 3, 2],
        [[50], [50], [50]],
        [[1, 1]] * 3,
        [[5, 5]],
        gang=np.array([0, 1, 2]),
        gang_needs=np.array([3, 3, 2]),
    )

    solution = whole_gangs(three, solve)

    got = np.bincount(solution.of_class, solution.pods, minlength=3)
    assert all(number in (0, need) for number, need in zip(got, (3, 3, 2), strict=True))
    assert got.sum() == pytest.approx(5)
    assert len(calls) >= 2
