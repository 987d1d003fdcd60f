"""What goes wrong with statuses of PodGroups is never worth the process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from scheduler.gangs.registry import find_registry
from scheduler.kube.errors import Unreachable
from scheduler.operators.podgroups import KopfWatch, PodGroupOperator
from tests.daemon.support import eventually
from tests.gangs.support import gang_stage, make_group


async def test_a_write_that_fails_is_tried_again_whatever_it_failed_by() -> None:
    stage = gang_stage()
    stage.see(make_group("g", 2))
    registry = find_registry(stage.core.state)
    assert registry is not None
    faults: list[Exception] = [RuntimeError("boom"), Unreachable("nobody answers")]
    written: list[str] = []

    async def write(key: str, status: Mapping[str, Any]) -> None:
        if faults:
            raise faults.pop()
        written.append(key)

    async def access() -> Any:
        raise RuntimeError("there is no API server")

    operator = PodGroupOperator(registry, write, KopfWatch(access), pause=0.01)
    running = asyncio.create_task(operator.run())
    try:
        await eventually(lambda: written == ["default/g"], "the status is written in the end")
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
