"""What a cycle remembers, and for how long."""

from __future__ import annotations

import pytest

from scheduler.framework.cycle import Cycle, Slot
from scheduler.state.cache import ClusterState
from tests.builders import make_pod

BRIEF: Slot[int] = Slot("for filter and score")
LASTING: Slot[int] = Slot("for pre_bind and unreserve", lasting=True)


def test_what_serves_the_choice_of_a_node_goes_when_it_is_made() -> None:
    cycle = Cycle(make_pod("p").info(), ClusterState())
    cycle.put(BRIEF, 1)
    cycle.put(LASTING, 2)
    assert (cycle.get(BRIEF), cycle.get(LASTING)) == (1, 2)
    cycle.drop_brief()
    assert cycle.get(LASTING) == 2
    with pytest.raises(KeyError):
        cycle.get(BRIEF)
