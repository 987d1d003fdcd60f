"""A few storms of fixed seeds; `make sim ARGS="--scenario storm" SEEDS=0-999` runs more."""

from __future__ import annotations

import pytest

from tests.sim import scenarios
from tests.sim.simulation import API_SERVER, Simulation
from tests.sim.storm import Broken, Storm


@pytest.mark.parametrize("seed", [2, 92, 2017, 2038])
def test_after_a_storm_every_pod_is_bound_once_by_the_holder_of_the_lease(seed: int) -> None:
    assert scenarios.perform("storm", seed).fault == ""


def test_a_binding_without_the_lease_is_seen() -> None:
    simulation = Simulation(1)

    async def work() -> None:
        await simulation.start()
        storm = Storm(simulation)
        simulation.network.witness(storm._judge_sender)
        data = b"POST /api/v1/namespaces/default/pods/p/binding HTTP/1.1\r\n\r\n"
        simulation.network.written("a", API_SERVER, data)

    simulation.run(work())
    ((host, fault),) = simulation.faults
    assert host == "a"
    assert isinstance(fault, Broken)
