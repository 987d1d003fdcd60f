"""The comparison of pods with and without a webhook runs, whatever comes of it."""

from __future__ import annotations

import pytest

from bench.core.webhooks import HOOKS, compare


async def test_all_pods_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Freezing is for processes that have a world to keep; this one has tests to run.
    monkeypatch.setattr("bench.core.worlds.freeze_after_sync", lambda: None)

    found = await compare(nodes=10, plain=10, asking=2, rounds=1)

    assert list(found) == ["alone", *HOOKS]
    assert all(each.cpu_ms > 0 for rounds in found.values() for each in rounds)
