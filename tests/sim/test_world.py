"""Whole plans, from their first action to their verdict: a fixed part of `make sim`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from scheduler.numa import plugin as numa_plugin
from tests.sim.drawing import draw
from tests.sim.plan import (
    LEADER,
    AddPod,
    At,
    DeletePod,
    HalfOpen,
    KillReplica,
    NodePlan,
    PauseReplica,
    Plan,
    PodPlan,
    StallThread,
    load,
)
from tests.sim.planted import BUGS, Bug, planted
from tests.sim.run import run

PLANS = sorted(Path(__file__, "../plans").resolve().glob("*.json"))
QUICKLY_FOUND = {"undo": 4, "confirm": 0, "fence": 7, "gang": 3}
"""Bugs and seeds that find them; `--planted` looks for all."""


@pytest.mark.parametrize("seed", range(4))
def test_seeds(seed: int) -> None:
    assert list(map(str, run(draw(seed)).violations)) == []


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_plans_that_once_failed(file: Path) -> None:
    assert list(map(str, run(load(file)).violations)) == []


def test_a_plan_has_one_history() -> None:
    plan = draw(1)
    first, second = run(plan), run(plan)
    assert first.history.digest() == second.history.digest()
    assert len(first.history.entries) > 100


def test_how_fast_real_time_passes_changes_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes minutes for a seed, and the client of webhooks reads a clock."""
    plan = next(plan for plan in map(draw, range(100)) if plan.webhook)
    history = run(plan).history.digest()
    ticks = count(0, 20.0)
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: next(ticks))
    monkeypatch.setattr("time.time", lambda: next(ticks))
    assert run(plan).history.digest() == history


@pytest.mark.parametrize(("name", "seed"), QUICKLY_FOUND.items())
def test_a_planted_bug_is_found(name: str, seed: int) -> None:
    plan = draw(seed)
    with planted(BUGS[name]):
        assert run(plan).rules
    assert not run(plan).rules


def test_a_fault_of_the_leader_meets_whichever_leads() -> None:
    actions = (At(6.0, PauseReplica(LEADER, 20.0)), At(30.0, KillReplica(LEADER, 1.0)))
    verdict = run(Plan(1, 32.0, 30.0, ("a", "b"), nodes=(NodePlan("n"),), actions=actions))
    assert verdict.violations == []
    told = [str(each) for each in verdict.history.entries]
    paused = next(each.split()[1] for each in told if each.endswith(" paused"))
    killed = next(each.split()[1] for each in told if " killed" in each)
    assert {paused, killed} == {"a", "b"}


def test_a_leader_whose_heartbeat_stalls_leaves_pods_to_the_next() -> None:
    """It has the last word of its lease, and binds as long as that holds."""
    pods = [At(8.0 + each / 2, AddPod(PodPlan(f"p{each}", cpu=10))) for each in range(40)]
    stall = At(8.0, StallThread(LEADER, "heartbeat", 24.0))
    plan = Plan(1, 34.0, 75.0, ("a", "b"), nodes=(NodePlan("n"),), actions=(stall, *pods))
    verdict = run(plan)
    assert verdict.violations == []
    told = list(map(str, verdict.history.entries))
    senders = {each.split()[1] for each in told if "/binding → 201" in each}
    assert senders == {"a", "b"}
    with planted(BUGS["fence"]):
        assert run(plan).rules == {"leader-only"}


def test_a_takeover_does_not_wait_for_connections_that_fell_silent() -> None:
    silent = (At(20.0, HalfOpen("a")), At(20.0, HalfOpen("b")))
    actions = (*silent, At(21.0, PauseReplica(LEADER, 60.0)), At(22.0, AddPod(PodPlan("p"))))
    verdict = run(Plan(1, 82.0, 250.0, ("a", "b"), nodes=(NodePlan("n"),), actions=actions))
    assert verdict.violations == []
    (bound,) = [e.time for e in verdict.history.entries if "/pods/p/binding" in str(e)]
    assert bound < 60.0


def test_a_pod_that_no_single_cell_takes_is_refused_only_if_it_is_bound() -> None:
    """After two pods three CPUs are free: one in the first cell, two in the second."""
    pods = [PodPlan(f"p{number}", cpu=3000, memory=256, pinned=True) for number in range(3)]
    actions = [At(5.0 + number, AddPod(pod)) for number, pod in enumerate(pods)]
    node = NodePlan("n", cpu=10, cells=2)
    plan = Plan(1, 10.0, 75.0, ("a",), nodes=(node,), actions=tuple(actions))
    verdict = run(plan)
    assert verdict.violations == []
    assert "/pods/p2/binding" not in "".join(map(str, verdict.history.entries))
    aligned = Bug("No pod needs its CPUs in one cell.", numa_plugin, "_needs", _nothing_to_align)
    with planted(aligned):
        assert "kubelet" in run(plan).rules


def _nothing_to_align(right: Any) -> Callable[..., tuple[()]]:
    return lambda pinning, kind: ()


def test_actions_that_have_lost_their_object_do_nothing() -> None:
    actions = (At(5.0, DeletePod("never-made")), At(6.0, AddPod(PodPlan("p", cpu=100))))
    verdict = run(Plan(1, 8.0, 30.0, ("a",), nodes=(NodePlan("n"),), actions=actions))
    assert verdict.violations == []
    bound = [e for e in verdict.history.entries if "/pods/p/binding" in str(e)]
    assert len(bound) == 1
