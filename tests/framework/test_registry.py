"""Plugins by name."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.framework.registry import RegistryError, merge, points_of
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Rows, Scores
from tests.framework.fakes import a_cycle


def test_every_plugin_is_registered_under_its_own_name() -> None:
    assert {name: getattr(plugin, "name", None) for name, plugin in IN_TREE.items()} == {
        name: name for name in IN_TREE
    }


def test_points_are_read_from_the_class() -> None:
    assert points_of(NodeAffinity) == {"preFilter", "filter", "preScore", "score"}


def test_half_a_point_is_none() -> None:
    """Scores that cannot be normalised, bookings that cannot be undone."""

    class Halves:
        name = "Halves"

        def __init__(self, args: object, handle: Handle) -> None: ...

        def score(self, cycle: Cycle, rows: Rows) -> Scores:
            return np.zeros(len(rows), np.int64)

        def reserve(self, cycle: Cycle, node: str) -> Status:
            return SUCCESS

    assert points_of(Halves) == set()


def test_a_name_may_come_only_once() -> None:
    assert merge({"A": NodeAffinity}, {"B": NodeAffinity}).keys() == {"A", "B"}
    with pytest.raises(RegistryError, match="plugin 'A' is registered twice"):
        merge({"A": NodeAffinity}, {"A": NodeAffinity})


def test_slots_of_the_same_name_do_not_collide() -> None:
    one, other = Slot[int]("count"), Slot[str]("count")
    cycle = a_cycle()
    cycle.put(one, 1)
    with pytest.raises(KeyError):
        cycle.get(other)
    cycle.put(other, "two")
    assert (cycle.get(one), cycle.get(other)) == (1, "two")
