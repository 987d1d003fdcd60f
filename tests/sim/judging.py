"""One seed and its verdict, in a process of a pool; these do not import a package's `__main__`."""

from __future__ import annotations

import gc
import sys
import time
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.sim import scenarios
from tests.sim.simulation import Simulation

SEEDS_PER_PROCESS = 16
"""A process of a pool ends after so many, so that what one seed leaves behind never matters.

It ends before garbage is collected, which would take a twentieth of all time.
"""
SEEDS_PER_COLLECTION = SEEDS_PER_PROCESS + 1


def prepare() -> None:
    """Make a process ready for many seeds.

    Collections look at the garbage of seeds alone, of several at a time. Between seeds the
    collector rests as well: switched on, it would look at all that the last seed left.
    """
    gc.freeze()
    gc.disable()
    Simulation.seeds_per_collection = SEEDS_PER_COLLECTION
    if sys.version_info < (3, 12):
        # Later versions remember what a protocol asks for; each start of a daemon asks often.
        members: Any = typing
        members._get_protocol_attrs = cache(members._get_protocol_attrs)


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
