"""The plugin in a profile: nodes without objects, messages, rows, profiles, waking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.numa.cell_cache import PublishedCells, ReserveCache
from scheduler.numa.plugin import NodeResourceTopologyMatch
from scheduler.simulation import explain
from tests.builders import make_node, make_pod
from tests.numa.support import Numa, config, large_node, make_topology, pinned, with_container
from tests.pipeline.support import Stage


class TestMissing:
    def test_a_node_that_tells_nothing_passes(self) -> None:
        assert Numa().nodes("n1").fits(pinned("p", 2))

    def test_or_is_rejected_if_that_is_wanted(self) -> None:
        numa = Numa(missingTopology="Reject").nodes("n1")
        verdict = numa.verdict(pinned("p", 2))
        assert verdict.code is Code.UNRESOLVABLE
        assert verdict.reasons == ("no topology is known of the node",)
        assert numa.fits(make_pod("p").cpu(2))

    def test_an_object_that_comes_late_counts(self) -> None:
        numa = Numa().nodes("n1")
        numa.publish(make_topology().cell(1).cell(1).knows())
        assert not numa.fits(pinned("p", 2))

    def test_an_object_that_is_deleted_is_believed_for_a_while(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology().cell(2).cell(2).knows())
        numa.unpublish("n1")
        assert not numa.fits(pinned("p", 3))
        numa.assume(pinned("a", 2), pinned("b", 2))
        assert not numa.fits(pinned("p", 1))

    @pytest.mark.parametrize(
        ("policy", "fits"), [("Pass", True), ("Reject", False), ("RejectWithdrawn", False)]
    )
    def test_after_that_the_policy_decides(self, policy: str, fits: bool) -> None:
        numa = Numa(missingTopology=policy).nodes("n1", "n2")
        numa.publish(make_topology().cell(2).cell(2).knows())
        numa.unpublish("n1")
        numa.stage.clock.advance(301)
        numa.publish(make_topology("n2").cell(2).cell(2).knows())
        assert numa.fits(pinned("p", 3)) is fits
        assert numa.fits(make_pod("p").cpu(2)), "no cells are needed"

    def test_pods_that_wait_are_tried_again_when_the_policy_lets_them_pass(self) -> None:
        numa = Numa(missingTopology="Pass").nodes("n1")
        numa.publish(make_topology().cell(2).cell(2).knows())
        numa.see(pinned("p", 3))
        assert numa.stage.attempt() is not None
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 1
        numa.unpublish("n1")
        numa.stage.clock.advance(301)
        numa.see(make_pod("other").on("n1"))
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 0

    def test_an_object_that_comes_back_counts_again(self) -> None:
        numa = Numa().nodes("n1", "n2").publish(make_topology().cell(2).cell(2).knows())
        numa.unpublish("n1")
        numa.stage.clock.advance(301)
        numa.publish(make_topology("n2").cell(2).cell(2).knows())
        numa.publish(make_topology().cell(4).cell(2).knows())
        assert numa.fits(pinned("p", 4))
        assert not numa.fits(pinned("p", 5))

    def test_an_object_without_cells_takes_no_exclusive_cpus(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology().knows())
        assert not numa.fits(pinned("p", 2))
        assert numa.fits(make_pod("p").cpu(2))


class TestWords:
    def test_the_cell_and_the_resource_are_named(self) -> None:
        topology = make_topology().zone("node-3", {"cpu": (2, 16), "memory": ("8Gi", "8Gi")})
        topology.zone("node-1", {"cpu": (8, 16), "memory": ("1Gi", "8Gi")})
        verdict = Numa().nodes("n1").publish(topology.knows()).verdict(pinned("p", 4, "4Gi"))
        assert verdict.code is Code.UNSCHEDULABLE
        assert verdict.reasons == (
            "cannot align container",
            "Insufficient cpu in NUMA cell node-3",
            "Insufficient memory in NUMA cell node-1",
        )

    def test_what_no_empty_cell_could_take_is_hopeless(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology().cell(16).cell(16).knows())
        assert numa.verdict(pinned("p", 20)).code is Code.UNRESOLVABLE

    @pytest.mark.parametrize(
        ("more", "scope", "expected"),
        [
            ({}, "container", "cannot align container"),
            ({}, "pod", "cannot align pod"),
            ({"init": True}, "container", "cannot align init container"),
            ({"sidecar": True}, "container", "cannot align sidecar container"),
        ],
    )
    def test_what_cannot_be_aligned(self, more: dict[str, Any], scope: str, expected: str) -> None:
        topology = make_topology(scope=scope).cell(8).cell(8).knows()
        pod = with_container(pinned("p", 4), {"cpu": 9, "memory": "1Gi"}, **more)
        assert Numa().nodes("n1").publish(topology).verdict(pod).reasons[0] == expected

    def test_doubt_is_called_doubt(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology().cell(4).cell(4).knows())
        numa.assume(pinned("a", 3), pinned("b", 3))
        assert numa.verdict(pinned("p", 2)).reasons == (
            "cannot align container",
            "NUMA cell node-0 may be taken by pods not settled yet",
            "NUMA cell node-1 may be taken by pods not settled yet",
        )

    def test_nodes_that_fail_alike_are_counted_together(self) -> None:
        objects: list[Any] = []
        for i in range(3):
            objects.append(make_node(f"n{i}").offer("cpu", 64).offer("memory", "64Gi").obj())
            topology = make_topology(f"n{i}").cell(1).cell(2 if i else 1)
            objects.append(topology.obj())
        answer = explain(objects, pinned("p", 2).obj(), config())
        assert answer["fit"] == ["n1", "n2"]
        answer = explain(objects, pinned("p", 3).obj(), config())
        assert answer["message"] == (
            "0/3 nodes are available: 3 Insufficient cpu in NUMA cell node-0, "
            "3 Insufficient cpu in NUMA cell node-1, 3 cannot align container."
        )

    def test_an_amount_that_cannot_be_read_is_named(self) -> None:
        pod = make_pod("p").spec(
            containers=[{"name": "c", "resources": {"limits": {"cpu": "x", "memory": "1Gi"}}}]
        )
        verdict = Numa().nodes("n1").verdict(pod)
        assert verdict.reasons[0].startswith("spec.containers[0].resources.limits[cpu]: 'x'")


class TestRows:
    def test_a_node_that_comes_again_in_another_row_has_its_cells(self) -> None:
        numa = Numa().nodes("n1", "n2").publish(make_topology("n1").cell(1).cell(1).knows())
        numa.stage.lose(large_node("n1", 64, "512Gi"))
        numa.nodes("n3", "n1")
        assert not numa.fits(pinned("p", 2), "n1")
        assert numa.fits(pinned("p", 2), "n3")

    def test_more_nodes_than_there_were_rows(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology("n1").cell(1).cell(1).knows())
        numa.nodes(*(f"more{i}" for i in range(200)))
        numa.publish(make_topology("more150").cell(1).cell(1).knows())
        assert not numa.fits(pinned("p", 2), "n1")
        assert not numa.fits(pinned("p", 2), "more150")
        assert numa.fits(pinned("p", 2), "more151")

    def test_cells_and_resources_that_come_later(self) -> None:
        numa = Numa().nodes("n1", "n2").publish(make_topology("n1").cell(4, gpu=(1, 2)).knows())
        wide = make_topology("n2")
        for _ in range(12):
            wide.cell(2, nic=(1, 1))
        numa.publish(wide.knows())
        assert numa.fits(pinned("p", 4, gpu=1), "n1")
        assert not numa.fits(pinned("p", 4, nic=1), "n2")
        assert numa.fits(pinned("p", 2, nic=1), "n2")


class TestReservedNodes:
    async def test_a_node_is_left_alone_while_a_pod_is_being_bound_there(self) -> None:
        numa = Numa(reserve=False, discardReservedNodes=True).nodes("n1")
        numa.publish(make_topology().cell(8).cell(8))
        bound = asyncio.Event()

        async def answer(pod: PodInfo, node: str) -> Status:
            await bound.wait()
            return SUCCESS

        numa.stage.outlet.answer = answer
        numa.see(pinned("a", 2))
        numa.stage.attempt()
        assert numa.verdict(pinned("p", 1)).reasons == ("invalid node topology data",)
        numa.see(pinned("p", 1))
        numa.stage.attempt()
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 1
        bound.set()
        await numa.stage.idle()
        numa.see(pinned("a", 2).on("n1"))
        assert numa.fits(pinned("q", 1))
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 0


def test_without_a_configuration_cells_count_where_they_are_known() -> None:
    node = make_node("n1").offer("cpu", 64).offer("memory", "64Gi").obj()
    topology = make_topology().cell(1).cell(1).obj()
    assert explain([node], pinned("p", 2).obj())["fit"] == ["n1"]
    answer = explain([node, topology], pinned("p", 2).obj())
    assert answer["nodes"]["n1"]["plugin"] == "NodeResourceTopologyMatch"
    listed = {"kind": "List", "items": [node, topology]}
    assert explain([listed], pinned("p", 2).obj())["fit"] == []
    assert (
        "NodeResourceTopologyMatch"
        not in explain([node], pinned("p", 2).obj())["scores"]["n1"]["plugins"]
    )


def test_profiles_share_the_cell_cache() -> None:
    document = config(cacheResyncPeriodSeconds=5)
    (profile,) = document["profiles"]
    document["profiles"] = [
        {**profile, "schedulerName": "equipoise"},
        {**profile, "schedulerName": "other"},
    ]
    stage = Stage(config=(document,))
    plugins = [f.plugins["NodeResourceTopologyMatch"] for f in stage.core.frameworks.values()]
    assert plugins[0].cache is plugins[1].cache  # type: ignore[attr-defined]  # the NUMA plugin


def test_objects_are_watched_where_the_plugin_is_enabled_as_by_default() -> None:
    stock = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND}
    assert "NodeResourceTopology" in Numa().stage.core.kinds()
    assert "NodeResourceTopology" in Stage().core.kinds()
    assert "NodeResourceTopology" not in Stage(config=(stock,)).core.kinds()


def test_by_default_cells_are_reserved() -> None:
    framework = Stage().core.frameworks["equipoise"]
    plugin = framework.plugins["NodeResourceTopologyMatch"]
    assert isinstance(plugin, NodeResourceTopologyMatch)
    assert isinstance(plugin.cache, ReserveCache)


@pytest.mark.parametrize("off", [False, "Off"], ids=["as YAML reads it", "quoted"])
def test_the_cache_can_be_turned_off(off: object) -> None:
    assert isinstance(Numa(cache=off).plugin.cache, PublishedCells)


def test_pods_cost_nothing_until_a_node_publishes_cells() -> None:
    numa = Numa().nodes("n1").runs(pinned("a", 8)).see(make_pod("done").on("n1").phase("Failed"))
    assert numa.cache.ledger("n1") is None
    numa.publish(make_topology().cell(8).cell(16).knows("a"))
    assert not numa.cache.dirty()
    assert numa.fits(pinned("p", 16))
    assert not numa.fits(pinned("p", 17))
