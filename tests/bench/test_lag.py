"""``make bench-lag`` plays every scene."""

from __future__ import annotations

import asyncio

import pytest

from bench.core.lag import SCENES, built, measure


async def test_every_scene_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Freezing is for processes that have a world to keep; this one has tests to run.
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)
    cluster = built(nodes=30, pods=210)
    loop = asyncio.create_task(cluster.core.scheduler.run())
    try:
        for scene in SCENES:
            assert await measure(cluster, scene, 20, stacks=1) > 0.0
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await cluster.core.stop()
    printed = capsys.readouterr().out
    assert "not done in time" not in printed
    assert all(scene in printed for scene in SCENES)
    assert cluster.outlet.bound >= 210 + 2, "the gang that fits, the probe, the pod with volumes"
