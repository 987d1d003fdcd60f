"""One seed and its verdict, in a process of a pool; these do not import a package's `__main__`."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from tests.sim import scenarios
from tests.sim.simulation import Simulation

SEEDS_PER_COLLECTION = 8


def prepare() -> None:
    """Let collections look at the garbage of seeds alone, of several at a time."""
    gc.freeze()
    Simulation.seeds_per_collection = SEEDS_PER_COLLECTION


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one seed came to; `fault` is empty if all was well."""

    seed: int
    fault: str
    virtual_seconds: float
    cpu_seconds: float
    callbacks: int
    digest: str


def judge(task: tuple[str, int]) -> Verdict:
    """Run one seed of a scenario."""
    name, seed = task
    began = time.process_time()
    outcome = scenarios.perform(name, seed)
    cpu = time.process_time() - began
    simulation = outcome.simulation
    return Verdict(
        seed,
        outcome.fault,
        simulation.now,
        cpu,
        simulation.loop.callbacks,
        simulation.history.digest(),
    )
