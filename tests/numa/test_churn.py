"""The reserve cache under churn, judged by emulated kubelets; and the harness that says so."""

from __future__ import annotations

import random
from functools import cache
from statistics import fmean

import pytest

from sandbox.numa.settings import KubeletSettings
from tests.numa.churn.run import Mode, Report, run
from tests.numa.churn.scenario import Scenario, arrivals, cpus_of
from tests.numa.churn.scenarios import mixed, shifting, table
from tests.numa.churn.timeline import Clock, Stream

SEEDS = range(10)
SECONDS = 120.0


@cache
def report(seed: int, mode: Mode) -> Report:
    return run(mixed(seed, SECONDS), mode)


def average(mode: Mode, measure: str) -> float:
    return fmean(getattr(report(seed, mode), measure) for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_cache_no_kubelet_refuses_a_pod(seed: int) -> None:
    found = report(seed, Mode.CACHE)
    assert found.errors == 0, found.samples
    assert found.arrivals > 180


def test_without_the_cache_kubelets_refuse_many() -> None:
    assert sum(report(seed, Mode.NO_CACHE).errors for seed in SEEDS) > 5 * len(SEEDS)


def test_the_cache_costs_no_utilisation() -> None:
    assert average(Mode.CACHE, "mean_use") >= average(Mode.NO_CACHE, "mean_use")


def test_in_the_end_as_much_is_in_use_as_with_perfect_knowledge_or_nearly() -> None:
    known = average(Mode.CLAIRVOYANT, "final_use")
    assert average(Mode.CACHE, "final_use") >= 0.9 * known
    assert all(report(seed, Mode.CLAIRVOYANT).errors == 0 for seed in SEEDS)


def test_pods_are_not_kept_waiting_by_the_cache() -> None:
    assert average(Mode.CACHE, "p50") <= average(Mode.NO_CACHE, "p50") + 0.5
    assert sum(report(seed, Mode.CACHE).left for seed in SEEDS) <= len(SEEDS)


@pytest.mark.parametrize("seed", range(2))
def test_one_container_pods_on_twenty_nodes(seed: int) -> None:
    found = run(table(seed), Mode.CACHE)
    assert found.errors == 0, found.samples


@pytest.mark.parametrize("seed", range(3))
def test_nodes_lose_regain_and_change_their_objects(seed: int) -> None:
    found = run(shifting(seed, SECONDS), Mode.CACHE)
    assert found.errors == 0, found.samples
    assert found.mean_use > 0.6


def test_pods_take_what_comes_free_while_they_back_off() -> None:
    """Held to a whole back-off after each look, 20 nodes would be at 70 % instead of 76 %."""
    assert fmean(run(table(seed), Mode.CACHE).mean_use for seed in range(3)) > 0.73


# The harness itself


def test_a_scheduler_that_knows_no_cells_runs_into_errors() -> None:
    assert report(0, Mode.PLAIN).errors > 30


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
