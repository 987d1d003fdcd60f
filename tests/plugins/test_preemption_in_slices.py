"""Preemption gives the event loop back, and what changes meanwhile counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler import slices
from scheduler.plugins.preemption import dry_run, trial
from scheduler.plugins.preemption.screen import Screen
from scheduler.plugins.preemption.trial import Outcome, Trial
from scheduler.state.cache import ClusterState, PodState
from scheduler.state.columns import Codes, Rows
from scheduler.state.scratch import Scratch
from tests.builders import PodBuilder, make_pod
from tests.pipeline.evicting import Arena, make_box
from tests.pipeline.support import turns


@pytest.fixture(autouse=True)
def _slices_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)


def vip(cpu: int = 4) -> PodBuilder:
    return make_pod("vip").priority(100).cpu(cpu)


def low(name: str, node: str, cpu: int = 4) -> PodBuilder:
    return make_pod(name).on(node).cpu(cpu)


async def preempt(arena: Arena, happens: Callable[[], None]) -> None:
    """Try the next pod; something happens once, after a dry run and before any eviction."""
    trials = 0
    real = Trial.outcomes

    def counted(tried: Trial) -> list[Outcome | None]:
        nonlocal trials
        trials += 1
        return real(tried)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "outcomes", counted)
        patch.setattr(dry_run, "PODS_IN_STEP", 1)
        patch.setattr(dry_run, "PODS_IN_SUMS", 1)
        task = asyncio.create_task(arena.core.scheduler.in_turn(arena.attempt))
        happened = False
        while not task.done():
            await asyncio.sleep(0)
            if trials and not happened and not task.done():
                happened = True
                happens()
        await task
    assert happened, "the search was not interrupted"
    await turns()


def crowded(*pods: PodBuilder) -> Arena:
    """Two nodes with one possible victim each."""
    arena = Arena()
    arena.see(make_box("n"), make_box("m"), low("a", "n"), low("b", "m"), *pods)
    return arena


async def test_a_victim_that_is_gone_is_not_evicted() -> None:
    arena = crowded(vip())
    await preempt(arena, lambda: arena.lose(low("a", "n"), low("b", "m")))
    assert arena.outlet.evicted == []
    assert arena.tiers()["vip"] in ("active", "backoff"), "the room that came is not overlooked"


async def test_nobody_is_evicted_from_a_node_that_is_gone() -> None:
    arena = crowded(vip())
    await preempt(arena, lambda: arena.lose(make_box("n"), make_box("m")))
    assert arena.outlet.evicted == []
    assert arena.outlet.nominations == []


async def test_another_node_in_the_same_row_is_not_taken_for_the_one_that_is_gone() -> None:
    arena = Arena()
    arena.see(*(make_box(f"n{i}") for i in range(3)), *(low(f"p{i}", f"n{i}") for i in range(3)))
    arena.see(vip())

    def swap() -> None:
        for i in range(3):
            arena.lose(make_box(f"n{i}"))
            arena.see(make_box(f"m{i}", 1), low(f"q{i}", f"m{i}", 1))

    await preempt(arena, swap)
    assert arena.outlet.evicted == []


async def test_nobody_is_evicted_for_a_pod_that_is_gone() -> None:
    arena = crowded(vip())
    await preempt(arena, lambda: arena.lose(vip()))
    assert arena.outlet.evicted == []
    assert not arena.core.state.nominations
    assert arena.core.queue.view.counts()["in-flight"] == 0


async def test_a_verdict_on_an_older_state_is_not_kept_for_the_class() -> None:
    arena = Arena()
    arena.see(make_box("n"), low("a", "n", 2), make_pod("b").on("n").cpu(2).priority(1000))
    rule = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "none"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    pods = [make_pod(name).priority(100).cpu(3).label(app="x") for name in ("v", "w")]
    for pod in pods:
        pod._spec["affinity"] = {"podAntiAffinity": required}
    arena.see(pods[0])
    loop = arena.core.scheduler
    task = asyncio.create_task(loop.in_turn(arena.attempt))
    await asyncio.sleep(0)
    assert not task.done()
    arena.see(make_box("m"))
    await task
    arena.see(pods[1])
    await arena.run()
    assert ("default/w", "m") in arena.outlet.bound


@pytest.mark.parametrize("nodes", [40, 80])
async def test_nodes_without_room_need_no_dry_run(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = Arena()
    for i in range(nodes):
        higher = make_pod(f"h{i}").on(f"n{i}").cpu(3).priority(1000)
        arena.see(make_box(f"n{i}"), higher, low(f"p{i}", f"n{i}", 1))
    booked: list[str] = []
    real = ClusterState.unbook

    def unbook(state: ClusterState, uid: str) -> PodState | None:
        booked.append(uid)
        return real(state, uid)

    monkeypatch.setattr(ClusterState, "unbook", unbook)
    assert await arena.preempt(vip(2)) == ""
    assert booked == []
    assert arena.message.endswith(
        f"preemption: 0/{nodes} nodes are available: {nodes} Insufficient cpu."
    )


@pytest.mark.parametrize("nodes", [100, 200])
async def test_between_two_checkpoints_few_pods_are_tried_out(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = Arena()
    for i in range(nodes):
        arena.see(make_box(f"n{i}"), *(low(f"p{i}-{j}", f"n{i}", 1) for j in range(4)))
    stretches = counted_stretches(monkeypatch)
    assert await arena.preempt(vip(4)) != ""
    assert max(stretches) <= 2 * dry_run.PODS_IN_SUMS
    assert len([each for each in stretches if each]) > 1


def counted_stretches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pods are taken away between two checkpoints, in sums or from the state."""
    stretches = [0]
    for module, name in ((dry_run, "whole_slice"), (trial, "checkpoint")):
        real: Callable[[], None] = getattr(slices, name)

        def counted(real: Callable[[], None] = real) -> None:
            stretches.append(0)
            real()

        monkeypatch.setattr(module, name, counted)
    for owner in (Scratch, trial._Sums):
        monkeypatch.setattr(owner, "remove", _counting(owner.remove, stretches))
    return stretches


def _counting(remove: Callable[..., None], stretches: list[int]) -> Callable[..., None]:
    def counted(changes: object, pod: object) -> None:
        stretches[-1] += 1
        remove(changes, pod)

    return counted


async def test_nothing_is_booked_where_only_requests_count(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = crowded()
    removed: list[object] = []
    monkeypatch.setattr(Scratch, "remove", lambda _, pod: removed.append(pod))
    assert await arena.preempt(vip()) != ""
    assert removed == []


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "none"}}}
        ]
    }
}
"""Makes a filter look at more than requests, so that pods are booked in the trial."""


def large_node(affinity: bool, pods: int = 100) -> tuple[Arena, PodBuilder]:
    """A node with many possible victims, half of which have to be evicted."""
    arena = Arena()
    arena.see(make_box("n", pods))
    arena.see(*(low(f"p{i:03}", "n", 1) for i in range(pods)))
    pod = vip(pods // 2)
    if affinity:
        pod = pod.spec(affinity=APART)
    return arena, pod


@pytest.mark.parametrize("affinity", [False, True])
async def test_a_large_node_is_tried_in_slices(
    affinity: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena, pod = large_node(affinity)
    turns_taken = [0]
    real_filter = trial.Trial._codes
    real_go_on = trial.Trial._go_on

    def codes(self: Trial, rows: Rows) -> Codes:
        turns_taken[-1] += 1
        return real_filter(self, rows)

    def go_on(self: Trial) -> bool:
        turns_taken.append(0)
        return real_go_on(self)

    monkeypatch.setattr(trial.Trial, "_codes", codes)
    monkeypatch.setattr(trial.Trial, "_go_on", go_on)
    assert await arena.preempt(pod) == "n"
    most = trial.TURNS_IN_STEP if affinity else trial.MOST_TURNS
    assert max(turns_taken) <= most + 1
    assert len(turns_taken) == -(-100 // most)
    assert len(arena.outlet.evicted) == 50


@pytest.mark.parametrize("affinity", [False, True])
async def test_a_pod_that_leaves_a_large_node_meanwhile_is_not_evicted(affinity: bool) -> None:
    """The node is tried again, as it is then."""
    arena, pod = large_node(affinity)
    arena.see(pod)
    task = asyncio.create_task(arena.core.scheduler.in_turn(arena.attempt))
    happened = False
    with pytest.MonkeyPatch.context() as patch:
        real = trial.Trial._go_on

        def go_on(self: Trial) -> bool:
            nonlocal happened
            if not happened:
                happened = True
                arena.lose(*(low(f"p{i:03}", "n", 1) for i in range(90, 95)))
            return real(self)

        patch.setattr(trial.Trial, "_go_on", go_on)
        await task
    assert happened
    await turns()
    assert len(arena.outlet.evicted) == 45
    assert not {f"default/p{i:03}" for i in range(90, 95)} & set(map(str, arena.outlet.evicted))
    assert arena.core.state.changes.on_trial is False


@pytest.mark.parametrize("nodes", [40, 80])
@pytest.mark.parametrize(
    ("priority", "reason"), [(0, trial.NO_VICTIMS.message), (100, "Insufficient cpu")]
)
async def test_nodes_that_evictions_do_not_help_are_counted_and_not_listed(
    nodes: int, priority: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = Arena()
    for i in range(nodes):
        higher = make_pod(f"h{i}").on(f"n{i}").cpu(3).priority(1000)
        arena.see(make_box(f"n{i}"), higher, low(f"p{i}", f"n{i}", 1))
    found: list[Outcome] = []
    real = dry_run.Search._screened

    def screened(search: dry_run.Search, screen: Screen) -> list[Outcome]:
        outcomes = real(search, screen)
        found.extend(outcomes)
        return outcomes

    monkeypatch.setattr(dry_run.Search, "_screened", screened)
    assert await arena.preempt(vip(2).priority(priority)) == ""
    assert [each.nodes for each in found] == [nodes]
    assert arena.message.endswith(f"0/{nodes} nodes are available: {nodes} {reason}.")
