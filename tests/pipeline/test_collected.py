"""A core that nobody uses any more leaves nothing: no struct hides a cycle from the collector."""

from __future__ import annotations

import gc
import weakref

from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage


async def used() -> weakref.ref[object]:
    """A core that has bound a pod, rejected one, and is gone."""
    stage = Stage()
    stage.see(make_worker("n").cpu("1"), make_pod("fits").cpu("1"), make_pod("waits").cpu("1"))
    await stage.run()
    assert len(stage.outlet.bound) == 1
    return weakref.ref(stage.core.state)


async def test_a_core_that_was_used_is_collected() -> None:
    state = await used()
    gc.collect()
    assert state() is None
