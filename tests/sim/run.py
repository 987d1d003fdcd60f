"""One plan from its beginning to its verdict."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tests.sim import endings
from tests.sim.history import Entry, History, Note, Write
from tests.sim.invariants import Violation
from tests.sim.plan import Plan
from tests.sim.replica import KILLED
from tests.sim.rules import judge
from tests.sim.simulation import Simulation
from tests.sim.solver import Solver, here
from tests.sim.world import HOST, World

MAX_CALLBACKS = 3_000_000
"""More than any plan needs: one that needs more does not come to rest."""


class Verdict(NamedTuple):
    """What became of a plan."""

    violations: list[Violation]
    simulation: Simulation

    @property
    def history(self) -> History:
        return self.simulation.history

    @property
    def seconds(self) -> float:
        """Virtual."""
        return self.simulation.now

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(each.rule for each in self.violations)


def run(plan: Plan) -> Verdict:
    """Perform a plan and judge it; equal plans give equal verdicts."""
    simulation = Simulation(plan.seed, max_callbacks=MAX_CALLBACKS)
    judged, solver = judge(plan), Solver()

    def see(entry: Entry) -> None:
        if isinstance(entry, Write):
            judged.see(entry)
            return
        if (
            isinstance(entry, Note)
            and entry.host in plan.replicas
            and entry.text.startswith(KILLED)
        ):
            judged.kills.append(entry.time)

    simulation.history.listen(see)
    found: list[Violation] = []
    try:
        with here(solver):
            found = simulation.run(_live(simulation, plan, solver))
    except Exception as fault:
        what = f"{type(fault).__name__}: {fault}"
        found = [Violation("simulation", simulation.now, "simulation", what)]
    found += [
        Violation("exception", simulation.now, host, f"{type(fault).__name__}: {fault}")
        for host, fault in simulation.faults
    ]
    found += judged.finish(simulation.now)
    if not found:
        found += endings.unplaced(plan, simulation)
    return Verdict(found, simulation)


async def _live(simulation: Simulation, plan: Plan, solver: Solver) -> list[Violation]:
    await simulation.start()
    world = World(simulation, plan, solver)
    return list(await simulation.host(HOST).task(_play(simulation, world, plan)))


async def _play(simulation: Simulation, world: World, plan: Plan) -> list[Violation]:
    await world.start()
    await world.perform()
    await asyncio.sleep(plan.quiet)
    return await endings.left_behind(plan, simulation)
