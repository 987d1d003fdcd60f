"""What floods of objects leave behind: nothing, or what a bounded cache says it holds.

For every list and map of every kind, many objects come that all have other entries, are changed,
pods are attempted, and all objects go. What the core keeps is counted in bytes of the structures
themselves, before and after.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from scheduler.model.objects import KINDS, from_dict
from tests.builders import make_pod, make_worker
from tests.cost.census import kept_bytes
from tests.cost.fields import Field, Json
from tests.cost.test_law import cases, named, stage
from tests.pipeline.support import Stage

OBJECTS = 24
ENTRIES = 12
SLACK = 4096
"""Up to 64 dead entries of a heap, free numbers, counters with more digits."""
PAST_GRACE = 400.0
"""Longer than anything waits, in seconds."""


class Written(NamedTuple):
    """An object as JSON, for a stage."""

    kind: str
    raw: Json

    def obj(self) -> Json:
        return {**self.raw, "kind": self.kind}

    def struct(self) -> Any:
        return from_dict(self.raw, KINDS[self.kind].type)


class Kept(NamedTuple):
    """What a core keeps, and what its caches say of it."""

    bytes: int
    known: int

    @classmethod
    def by(cls, scene: Stage, *, tables: bool) -> Kept:
        gc.collect()
        known = sum(usage.bytes for usage in scene.metrics.caches.usage().values())
        return cls(kept_bytes(scene.core, tables=tables), known)

    def unexplained(self, before: Kept) -> int:
        """How much more is kept than before and than caches say."""
        return self.bytes - before.bytes - max(0, self.known - before.known)


class Flood:
    """Objects of one kind, each written twice, with an attempt after each."""

    def __init__(self, scene: Stage, field: Field, role: str, entries: int) -> None:
        self._scene = scene
        self._field = field
        self._role = role
        self._entries = entries

    async def pass_by(self, numbers: range) -> None:
        """The objects of these numbers come, and go."""
        scene, of_nodes = self._scene, self._field.kind in ("CSINode", "NodeResourceTopology")
        nodes = [make_worker(f"flood-{n}") for n in numbers] if of_nodes else []
        scene.see(*nodes)
        for version in (0, 1):
            objects = [self._object(number, version) for number in numbers]
            scene.see(*objects)
            await self._attempt(f"{numbers.start}-{version}", numbers.start)
        scene.lose(*objects, *nodes)
        await self._settle(f"{numbers.start}-last")

    def _object(self, number: int, version: int) -> Written:
        written = self._field.object(self._entries, (2 * number + version) * self._entries)
        raw = named(self._field, written, self._role)
        metadata = {**raw["metadata"], "name": f"flood-{number}", "uid": f"uid-{number}"}
        return Written(self._field.kind, {**raw, "metadata": metadata})

    async def _attempt(self, name: str, number: int) -> None:
        probe = make_pod(f"probe-{name}").label(app=f"app-{number}")
        probe.owner("ReplicaSet", f"flood-{number}")
        self._scene.see(probe)
        await self._scene.run()
        self._scene.lose(probe)

    async def _settle(self, name: str) -> None:
        """Time passes, and a last pod comes by."""
        scene, outlet = self._scene, self._scene.outlet
        for _ in range(3):
            await scene.later(PAST_GRACE)
        await self._attempt(name, 0)
        for said in (outlet.events, outlet.conditions, outlet.bound, outlet.nominations):
            said.clear()


@pytest.fixture(autouse=True)
def everything_went_well(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An event that cannot be applied, or an attempt that fails, leaves nothing and proves none."""
    yield
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(("field", "role"), cases())
async def test_entries_that_are_gone_are_not_kept(field: Field, role: str) -> None:
    scene = stage()
    flood = Flood(scene, field, role, ENTRIES)
    await flood.pass_by(range(1))
    before = Kept.by(scene, tables=False)
    await flood.pass_by(range(1, 1 + OBJECTS))
    after = Kept.by(scene, tables=False)
    assert after.unexplained(before) <= SLACK, (before, after)
