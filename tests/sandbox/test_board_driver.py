"""The driver of the demo publishes what the real API server would accept, for nodes that say so."""

from __future__ import annotations

import asyncio

from sandbox.devices.driver import BOARDS, BoardDriver
from sandbox.patching import MERGE
from sandbox.registry import Registry
from tests.patience import PATIENCE


def names(registry: Registry) -> list[str]:
    table = registry.table(registry.builtin("resourceslices", "resource.k8s.io"))
    return sorted(key[1] for key in table.current)


async def until(registry: Registry, wanted: list[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while names(registry) != wanted:  # noqa: ASYNC110  the driver has no event for tests
            await asyncio.sleep(0)


async def test_slices_follow_the_nodes() -> None:
    registry = Registry()
    nodes = registry.builtin("nodes")
    registry.create(nodes, "", {"metadata": {"name": "a", "labels": {BOARDS: "2"}}})
    registry.create(nodes, "", {"metadata": {"name": "b", "labels": {BOARDS: "many"}}})
    async with BoardDriver(registry):
        await until(registry, ["a-boards", "a-boards-counters"])
        slices = registry.builtin("resourceslices", "resource.k8s.io")
        devices = registry.get(slices, ("", "a-boards")).body["spec"]["devices"]
        assert len(devices) == 14
        label = {"metadata": {"labels": {BOARDS: "1"}}}
        registry.patch(nodes, ("", "b"), MERGE, label)
        await until(registry, ["a-boards", "a-boards-counters", "b-boards", "b-boards-counters"])
        registry.delete(nodes, ("", "a"))
        await until(registry, ["b-boards", "b-boards-counters"])
