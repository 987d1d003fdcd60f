"""NUMA nodes in a backlog that is placed at once go through the same reserve as ever."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.simulation import place
from tests.builders import Json, make_node
from tests.numa.support import config, make_topology, pinned
from tests.pipeline.batch_support import settings
from tests.pipeline.support import Stage


@pytest.mark.parametrize("batch", [False, True], ids=["one by one", "at once"])
def test_no_cell_is_given_to_more_pods_than_it_has_room_for(batch: bool) -> None:
    """Three CPUs in each of two cells: three pods with two CPUs would fit, but for the cells."""
    objects: list[Json] = []
    for i in range(4):
        objects.append(make_node(f"n{i}").cpu(6).memory("64Gi").pods(20).obj())
        topology = make_topology(f"n{i}").cell(3, "32Gi", of=3).cell(3, "32Gi", of=3).knows()
        objects.append(topology.obj())
    objects += [pinned(f"p{i}", 2).obj() for i in range(12)]

    found = place(objects, [config(cacheResyncPeriodSeconds=5), settings(enabled=batch)])

    nodes = Counter(node for _, node, _ in found if node)
    assert nodes == {f"n{i}": 2 for i in range(4)}
    assert all("NUMA" in message for _, node, message in found if not node)


@pytest.mark.parametrize("tried", [True, False], ids=["tried", "given up"])
def test_what_is_only_tried_out_wakes_nobody(tried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways of placing a backlog are compared by trying both; neither has freed a cell."""
    stage = Stage(config=(config(cacheResyncPeriodSeconds=5),))
    stage.see(make_node("n").cpu(6).memory("64Gi").pods(20))
    stage.see(make_topology("n").cell(3, "32Gi", of=3).cell(3, "32Gi", of=3).knows())
    stage.core.scheduler.begin()
    events: list[object] = []
    monkeypatch.setattr(stage.core.queue, "on_event", lambda event, *_: events.append(event))

    small = pinned("small", 2).info()
    stage.core.state.assume(small, "n")
    stage.core.state.forget(small.uid, trial=tried)

    assert bool(events) is not tried
