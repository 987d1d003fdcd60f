"""What plugins remember: bounded, shared by name, and gone with its pod or node."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.memory import MAX_BYTES, Memories, Memory
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Rows
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage


def test_the_least_recently_used_is_forgotten_first() -> None:
    memory: Memory[int] = Memories().of_pods("seen", limit=2)
    memory.put("a", 1)
    memory.put("b", 2)
    assert memory.find("a") == 1
    memory.put("c", 3)
    assert (memory.find("a"), memory.find("b"), memory.find("c")) == (1, None, 3)
    assert list(memory) == ["a", "c"]
    memory.drop("a")
    memory.drop("never there")
    assert len(memory) == 1


def test_a_memory_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be greater than 0, not 0"):
        Memories().of_pods("seen", limit=0)


def test_the_same_name_is_the_same_memory() -> None:
    memories = Memories()
    assert memories.of_pods("seen") is memories.of_pods("seen")
    assert memories.of_pods("seen") is not memories.of_nodes("seen")


class Noting:
    """Notes every pod it sees, and every node that would do."""

    name = "Noting"

    def __init__(self, args: Any, handle: Handle) -> None:
        self.pods = handle.memories.of_pods("noting")
        self.nodes = handle.memories.of_nodes("noting")

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        self.pods.put(cycle.pod.uid, True)
        for row in rows.tolist():
            self.nodes.put(cycle.state.name(row), True)
        return SUCCESS


async def test_what_is_remembered_goes_with_its_pod_or_node() -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Noting"}]}}}
    kube = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    stage = Stage({**IN_TREE, "Noting": Noting}, ({**kube, "profiles": [profile]},))
    stage.see(make_worker("n1"), make_worker("n2"))
    stage.see(make_pod("placed"), make_pod("waiting").cpu(999), make_pod("done"))
    await stage.run()
    plugin = stage.core.frameworks["equipoise"].plugins["Noting"]
    assert isinstance(plugin, Noting)
    assert sorted(plugin.pods) == ["uid-done", "uid-placed", "uid-waiting"]
    assert sorted(plugin.nodes) == ["n1", "n2"]
    stage.lose(make_worker("n2"), make_pod("waiting"))
    stage.see(make_pod("done").on("n1").phase("Succeeded"))
    assert sorted(plugin.pods) == ["uid-placed"]
    assert sorted(plugin.nodes) == ["n1"]
    # Deleted and created again while the watch was down.
    stage.see(make_worker("n1").meta(uid="another"))
    assert not list(plugin.nodes)


def test_values_are_bounded_in_bytes() -> None:
    memory: Memory[bytes] = Memories().of_pods("seen")
    for number in range(40):
        memory.put(str(number), bytes(2**20))
    assert 0 < memory.usage().bytes <= MAX_BYTES
    assert list(memory)[-1] == "39"
