"""The reserve cache under churn, judged by emulated kubelets; and the harness that says so."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import settings

from sandbox.numa.settings import KubeletSettings
from tests.numa.churn.run import Mode, run
from tests.numa.churn.scenario import Scenario, arrivals, cpus_of
from tests.numa.churn.scenarios import mixed, shifting, table
from tests.numa.churn.timeline import Clock, Stream

MORE = 40 if settings().max_examples > 1000 else 7
"""Seeds are below it. Seven have every setting of the scenario; the profile `thorough` has more."""
COMPARED = range(4)
"""Seeds that are run in all modes: every kind of machine."""
SECONDS = 120.0


def test_the_cache_prevents_errors_and_costs_next_to_nothing() -> None:
    """One test of four claims, as processes that share tests would run everything for each."""
    found = {
        mode: [run(mixed(seed, SECONDS), mode) for seed in COMPARED]
        for mode in (Mode.CACHE, Mode.NO_CACHE, Mode.CLAIRVOYANT)
    }

    def average(mode: Mode, measure: str) -> float:
        return fmean(getattr(report, measure) for report in found[mode])

    def total(mode: Mode, measure: str) -> int:
        return sum(getattr(report, measure) for report in found[mode])

    # No kubelet refuses a pod; without the cache they refuse many.
    assert total(Mode.CACHE, "errors") == 0, [report.samples for report in found[Mode.CACHE]]
    assert min(report.arrivals for report in found[Mode.CACHE]) > 180
    assert total(Mode.NO_CACHE, "errors") > 5 * len(COMPARED)
    # It costs no utilisation; in the end nearly as much is in use as with perfect knowledge.
    assert average(Mode.CACHE, "mean_use") >= average(Mode.NO_CACHE, "mean_use")
    assert average(Mode.CACHE, "final_use") >= 0.9 * average(Mode.CLAIRVOYANT, "final_use")
    assert total(Mode.CLAIRVOYANT, "errors") == 0
    # It keeps no pods waiting.
    assert average(Mode.CACHE, "p50") <= average(Mode.NO_CACHE, "p50") + 0.5
    assert total(Mode.CACHE, "left") <= len(COMPARED)


@pytest.mark.parametrize("seed", range(len(COMPARED), MORE))
def test_with_the_cache_no_kubelet_refuses_a_pod(seed: int) -> None:
    found = run(mixed(seed, SECONDS), Mode.CACHE)
    assert found.errors == 0, found.samples
    assert found.arrivals > 180


@pytest.mark.parametrize("seed", range(3))
def test_nodes_lose_regain_and_change_their_objects(seed: int) -> None:
    found = run(shifting(seed, SECONDS), Mode.CACHE)
    assert found.errors == 0, found.samples
    assert found.mean_use > 0.6


def test_one_container_pods_on_twenty_nodes() -> None:
    """Held to a whole back-off after each look, the nodes would be at 70 % instead of 76 %."""
    found = [run(table(seed), Mode.CACHE) for seed in range(3)]
    assert [report.errors for report in found] == [0, 0, 0], [report.samples for report in found]
    assert fmean(report.mean_use for report in found) > 0.73


# The harness itself


def test_a_scheduler_that_knows_no_cells_runs_into_errors() -> None:
    assert run(mixed(0, SECONDS), Mode.PLAIN).errors > 30


def test_a_run_depends_on_nothing_but_its_scenario() -> None:
    short = Scenario(3, nodes=4, seconds=30.0)
    assert run(short, Mode.NO_CACHE) == run(short, Mode.NO_CACHE)


def test_kubelets_that_align_nothing_refuse_nobody() -> None:
    easy = Scenario(
        1,
        nodes=6,
        seconds=60.0,
        foreign=0.0,
        simple=True,
        gpus=0,
        demand=0.6,
        kubelet=KubeletSettings(policy="none", memory_manager=False),
    )
    found = run(easy, Mode.PLAIN)
    assert (found.errors, found.foreign_errors, found.never_ran) == (0, 0, 0)


def test_arrivals_ask_for_what_the_scenario_says() -> None:
    scenario = Scenario(5, demand=0.8)
    wanted = arrivals(scenario)
    work = sum(cpus_of(each.spec) * each.lifetime for each in wanted)
    assert work == pytest.approx(0.8 * scenario.capacity * scenario.seconds)
    assert any(each.foreign for each in wanted)
    assert any(each.completes for each in wanted)


def test_streams_deliver_late_and_in_order() -> None:
    clock = Clock()
    stream = Stream(clock, random.Random(1), (0.1, 2.0))
    seen: list[tuple[int, float]] = []
    for number in range(50):
        sent = number * 0.2

        def send(number: int = number) -> None:
            stream.send(lambda: seen.append((number, clock.now)))

        clock.at(sent, send)
    while clock.step(100.0):
        pass
    assert [number for number, _ in seen] == list(range(50))
    assert all(at - number * 0.2 >= 0.1 for number, at in seen)
