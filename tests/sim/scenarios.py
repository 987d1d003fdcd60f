"""What can be run from a seed, by name.

A scenario is a coroutine of a simulation that raises if something is wrong. Exceptions that nothing
caught in any host are wrong as well.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.sim.drawing import draw
from tests.sim.plan import Plan
from tests.sim.run import run as perform_plan
from tests.sim.simulation import Simulation
from tests.sim.storm import storm

Scenario = Callable[[Simulation], Coroutine[Any, Any, None]]

MAX_CALLBACKS = 5_000_000
"""The watchdog of a seed, in steps: no seed waits for a clock."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed came to; `fault` is empty if all was well."""

    simulation: Simulation
    fault: str


def perform(name: str, seed: int) -> Outcome:
    """Run a scenario with a seed."""
    if name == WORLD:
        return judged(draw(seed))
    return run(SCENARIOS[name], seed)


def judged(plan: Plan) -> Outcome:
    """Perform a plan in its world, and judge it by all rules."""
    verdict = perform_plan(plan)
    return Outcome(verdict.simulation, "\n".join(map(str, verdict.violations)))


def run(scenario: Scenario, seed: int) -> Outcome:
    """Run a scenario; raises nothing but what is no Exception."""
    simulation = Simulation(seed, max_callbacks=MAX_CALLBACKS)
    try:
        simulation.run(scenario(simulation))
    except Exception as fault:
        return Outcome(simulation, _text(fault))
    if simulation.faults:
        host, first = simulation.faults[0]
        return Outcome(simulation, f"{host}: {_text(first)}")
    return Outcome(simulation, "")


SCENARIOS: dict[str, Scenario] = {"storm": storm}
WORLD = "world"
"""Plans that are drawn from the seed; see `drawing` and `rules`."""
DEFAULT = WORLD
NAMES = (WORLD, *SCENARIOS)


def _text(fault: BaseException) -> str:
    """First what, then where."""
    lines = "".join(traceback.format_exception(fault))
    return f"{type(fault).__name__}: {fault}\n{lines}"
