"""Faults on real processes: no pod is lost, bound twice, or bound by who does not hold the lease.

`make faults` carries out all of them, more often, and writes docs/reliability.md.
"""

from pathlib import Path

import pytest

from e2e.faults import fencing
from e2e.faults.catalogue import ALL, Fault
from e2e.faults.running import carry_out
from e2e.faults.scene import scene


@pytest.mark.parametrize("fault", [each for each in ALL if each.quick], ids=lambda each: each.name)
async def test_fault(fault: Fault, tmp_path: Path) -> None:
    async with scene(tmp_path) as stage:
        outcome = await carry_out(stage, fault, 1)
    assert outcome.sound, outcome.seen
    assert outcome.recovery_seconds, "every pod has a node"


async def test_a_leader_that_was_stopped_between_check_and_write_writes_nothing(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as stage:
        with_timer = await fencing.measure(stage, 1, deadline=True)
        without = await fencing.measure(stage, 1, deadline=False)
    assert (with_timer.ended_by_timer, with_timer.sent, with_timer.late) == (1, 0, 0)
    assert without.sent == 1, "the test stops the process where it matters"
