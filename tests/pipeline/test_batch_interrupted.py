"""What happens in the cluster while the solver computes is respected."""

from __future__ import annotations

from collections import Counter

from tests.pipeline.batch_support import (
    at_once,
    contended,
    interrupt,
    must,
    node,
    overcommitted,
    pod,
    stage,
    where,
)


async def test_foreign_pods_that_arrive_meanwhile_are_respected() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    foreign = [pod(f"foreign-{i}", 3).on(f"hot-{i}") for i in range(2)]
    interrupt(stage_, lambda: stage_.see(*foreign))

    await at_once(stage_)

    assert overcommitted(stage_) == []
    hot = Counter(node_ for name, node_ in where(stage_).items() if name.startswith("bound"))
    assert hot == {"hot-0": 1, "hot-1": 1}, "what is left is used"
    assert stage_.sample("equipoise_batch_refused_total") > 0


async def test_a_node_that_goes_away_meanwhile_gets_nobody() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    interrupt(stage_, lambda: stage_.lose(nodes[0]))

    await at_once(stage_)

    assert "hot-0" not in set(where(stage_).values())
    assert overcommitted(stage_) == []


async def test_another_node_in_the_same_row_is_not_taken_for_the_old_one() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)

    def replaced() -> None:
        stage_.lose(nodes[0])
        stage_.see(node("stranger", pool="cold"))

    interrupt(stage_, replaced)
    await at_once(stage_)

    assert not [p for p, n in where(stage_).items() if n == "stranger" and p.startswith("bound")]


async def test_a_pod_that_is_deleted_meanwhile_is_not_bound() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    interrupt(stage_, lambda: stage_.lose(pods[-1]))

    await at_once(stage_)

    assert "bound-7" not in where(stage_)
    assert stage_.core.queue.view.counts()["in-flight"] == 0


async def test_pods_of_higher_priority_that_arrive_meanwhile_go_first() -> None:
    stage_ = stage()
    nodes, pods = contended()
    stage_.see(*nodes, *pods)
    urgent = [must(pod(f"urgent-{i}", 4), pool="hot").priority(10) for i in range(2)]

    interrupt(stage_, lambda: stage_.see(*urgent))
    await at_once(stage_)

    found = where(stage_)
    assert {found["urgent-0"], found["urgent-1"]} == {"hot-0", "hot-1"}
    assert overcommitted(stage_) == []
