"""What a cycle remembers, and for how long."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugins.table import IN_TREE
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage

BRIEF: Slot[int] = Slot("for filter and score")
LASTING: Slot[int] = Slot("for pre_bind and unreserve", lasting=True)


def test_what_serves_the_choice_of_a_node_goes_when_it_is_made() -> None:
    cycle = Cycle(make_pod("p").info(), ClusterState())
    cycle.put(BRIEF, 1)
    cycle.put(LASTING, 2)
    assert (cycle.get(BRIEF), cycle.get(LASTING)) == (1, 2)
    cycle.drop_transient_slots()
    assert cycle.get(LASTING) == 2
    with pytest.raises(KeyError):
        cycle.get(BRIEF)


class Tells:
    """Leaves a note by name at PreFilter, with no slot that others could import."""

    name = "Tells"

    def __init__(self, args: object, handle: Handle) -> None: ...

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        cycle.put("example.com/note", cycle.pod.key)
        return PreFilterResult()

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        return np.zeros(len(rows), np.int32)


class Hears:
    """Reads it in its own points, up to PreBind."""

    name = "Hears"
    heard: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, args: object, handle: Handle) -> None: ...

    def reserve(self, cycle: Cycle, node: str) -> Status:
        self.heard.append(("reserve", cycle.get("example.com/note")))
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None: ...

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        self.heard.append(("preBind", cycle.get("example.com/note")))
        return SUCCESS


async def test_plugins_that_do_not_import_each_other_share_by_name() -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Tells"}, {"name": "Hears"}]}}}
    document = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    Hears.heard.clear()
    stage = Stage({**IN_TREE, "Tells": Tells, "Hears": Hears}, config=(document,))
    stage.see(make_node("n1"), make_pod("p"))
    await stage.run()
    assert Hears.heard == [("reserve", "default/p"), ("preBind", "default/p")]
    assert stage.outlet.bound == [("default/p", "n1")]
