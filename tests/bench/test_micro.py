"""``make bench-micro`` runs every scenario, and says of each target whether it is met."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys

import pytest

from bench.core.micro import Measured, calibrate, row, verdict
from bench.core.scenarios import SCENARIOS, Figures, Scale
from bench.core.worlds import a_pod, plain_world

SCALE = Scale(nodes=20, running=40, pods=30)


PREEMPTION = "30 pods that have to preempt"
PLACING = [name for name in SCENARIOS if name != PREEMPTION and not name.startswith("start-up")]


@pytest.mark.parametrize("name", PLACING)
def test_every_scenario_places_its_pods(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Freezing is for processes that have a world to keep; this one has tests to run.
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)

    figures = SCENARIOS[name].run(SCALE)

    assert figures.placed in (SCALE.pods, SCALE.pods // 3, SCALE.pods * 2)
    assert figures.cpu_ms is not None
    assert figures.whole_ms is not None
    assert 0 < figures.cpu_ms <= figures.whole_ms
    assert row(name, Measured(figures, 0.1)).startswith(name)


def test_pods_that_fit_nowhere_are_judged_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)

    figures = SCENARIOS["10,000 fit nowhere"].run(SCALE)

    assert 1 <= figures.values["evaluations"] <= SCALE.nodes * 2
    assert figures.values["conditions"] == SCALE.nodes * 2


def test_pods_that_have_to_preempt_do_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)

    figures = SCENARIOS[PREEMPTION].run(SCALE)

    assert figures.placed == 0, "nobody has gone yet"
    assert figures.values["evicted"] >= 3


def test_one_scenario_can_be_run_alone_and_checked() -> None:
    sizes = ("--nodes=20", "--running=40", "--pods=30")
    command = (sys.executable, "-m", "bench.core.micro", "--only=start-up, 10 pods a node")

    done = subprocess.run([*command, *sizes, "--check"], capture_output=True, text=True, check=True)

    header, titles, figures = done.stdout.splitlines()[:3]
    assert header.startswith("20 nodes, 40 running pods")
    assert "decisions/s" in titles
    assert "seconds to freeze" in figures


@pytest.mark.parametrize(
    ("name", "figures", "said"),
    [
        pytest.param(
            "plain pods",
            Figures(cpu_ms=0.2),
            "met     plain pods: ≥ 5000 decisions/s",
            id="just fast enough",
        ),
        pytest.param(
            "plain pods",
            Figures(cpu_ms=0.21),
            "missed  plain pods: ≥ 5000 decisions/s",
            id="a little too slow",
        ),
        pytest.param(
            "plain pods, 3 times the nodes",
            Figures(values={"times the cost": 1.6}),
            "missed  plain pods, 3 times the nodes: times the cost ≤ 1.5",
            id="grows with the nodes",
        ),
        pytest.param("zone spread", Figures(cpu_ms=9), "", id="nothing was promised"),
    ],
)
def test_verdicts(name: str, figures: Figures, said: str) -> None:
    assert verdict(name, figures) == said


def test_calibration_takes_some_time() -> None:
    assert calibrate(rows=1_000, rounds=3) > 0


def test_a_pod_that_was_bound_leaves_no_reference_cycles() -> None:
    """They would have the garbage collector look at all pods again and again."""
    world = plain_world(nodes=5, running=5)
    pods = 20

    async def place(name: str) -> None:
        world.add(*(a_pod(f"{name}-{number}") for number in range(pods)))
        await world.drain()

    asyncio.run(place("first"))  # what is made once
    while gc.collect():  # worlds of other tests may keep each other alive, and go in turn
        pass
    gc.disable()
    try:
        asyncio.run(place("second"))
        assert gc.collect() < pods
    finally:
        gc.enable()
    assert world.outlet.bound == 2 * pods
