"""The reserve cache, rule by rule: what pods release, starting anew, what is woken."""

from __future__ import annotations

import pytest

from tests.builders import PodBuilder
from tests.numa.support import Numa, TopologyBuilder, make_topology, pinned, with_container


def two_cells(first: int, second: int, name: str = "n1") -> TopologyBuilder:
    return make_topology(name).cell(first).cell(second)


@pytest.fixture
def numa() -> Numa:
    """A node of two cells with 8 of 16 CPUs available each, without pods."""
    return Numa().nodes("n1").publish(two_cells(8, 8).knows())


class TestReleasing:
    def test_a_pod_removed_before_it_is_confirmed_takes_its_charge_along(self, numa: Numa) -> None:
        pods = pinned("a", 6), pinned("b", 6)
        numa.runs(*pods)
        assert not numa.fits(pinned("p", 3))
        numa.lose(*pods)
        assert numa.fits(pinned("p", 8))
        assert not numa.cache.dirty()

    def test_what_a_confirmed_pod_releases_counts_from_a_later_object(self, numa: Numa) -> None:
        pod = pinned("a", 6)
        numa.runs(pod).publish(two_cells(2, 2).knows("a"))
        numa.lose(pod)
        assert list(numa.cache.dirty()) == ["n1"]
        assert not numa.fits(pinned("p", 3))
        numa.publish(two_cells(8, 2).knows().version(3))
        assert not numa.cache.dirty()
        assert numa.fits(pinned("p", 8))

    def test_a_cell_could_host_what_fits_after_a_release(self, numa: Numa) -> None:
        pod = pinned("a", 6)
        numa.runs(pod).publish(two_cells(2, 8).knows("a"))
        numa.lose(pod)
        numa.assume(pinned("b", 8))
        # It may sit in the first cell, if that is where the other went from.
        assert not numa.fits(pinned("p", 3))
        assert numa.fits(pinned("p", 1)) is False

    def test_finishing_is_going(self, numa: Numa) -> None:
        pod = pinned("a", 6)
        numa.runs(pod).publish(two_cells(2, 2).knows("a"))
        numa.see(pod.phase("Succeeded"))
        assert list(numa.cache.dirty()) == ["n1"]
        numa.publish(two_cells(8, 2).knows().version(3))
        assert numa.fits(pinned("p", 8))

    def test_an_object_from_before_it_finished_does_not_tell_that_it_has(self) -> None:
        numa = Numa().nodes("n1").publish(make_topology().cell(16).cell(16).knows())
        pod = pinned("a", 6)
        numa.runs(pod).publish(make_topology().cell(10, "63Gi").cell(16).knows("a"))
        numa.see(pod.phase("Succeeded"))
        assert not numa.fits(with_container(pinned("p", 16), {"cpu": 16, "memory": "1Gi"}))
        assert numa.ledger().pods()[2] == [("default", "a")]
        # A kubelet that lists finished pods counts nothing for them.
        numa.publish(make_topology().cell(16).cell(16).knows("a").version(3))
        assert not numa.cache.dirty()

    def test_what_an_init_container_held_is_kept_though_nobody_tells(self, numa: Numa) -> None:
        hungry = with_container(pinned("a", 1), {"cpu": 6, "memory": "1Gi"}, init=True)
        numa.runs(hungry).publish(two_cells(7, 2).knows("a"))
        assert not numa.cache.dirty()
        assert not numa.fits(pinned("p", 3))
        assert numa.fits(pinned("p", 2))
        numa.lose(hungry)
        numa.publish(two_cells(8, 2).knows().version(3))
        assert numa.fits(pinned("p", 8))


class TestStarting:
    def test_without_a_match_cells_are_empty_and_all_pods_charged(self) -> None:
        numa = Numa().nodes("n1").runs(pinned("a", 12), pinned("b", 8))
        numa.publish(two_cells(16, 16).knows("others"))
        # They cannot both be in one cell of 16.
        assert numa.fits(pinned("p", 8))
        assert not numa.fits(pinned("p", 9))
        assert list(numa.cache.dirty()) == ["n1"]

    def test_an_object_without_a_fingerprint_confirms_nothing(self) -> None:
        numa = Numa().nodes("n1").runs(pinned("a", 12))
        numa.publish(two_cells(16, 16))
        assert not numa.fits(with_container(pinned("p", 16), {"cpu": 5, "memory": "1Gi"}))
        assert numa.fits(pinned("p", 16))

    def test_the_order_of_arrival_does_not_matter(self) -> None:
        verdicts = set()
        topology = two_cells(4, 8).knows("a", "b")
        for order in ("npt", "ntp", "tnp", "ptn", "tpn", "pnt"):
            numa = Numa()
            for what in order:
                if what == "n":
                    numa.nodes("n1")
                elif what == "p":
                    numa.runs(pinned("a", 12), pinned("b", 8))
                else:
                    numa.publish(topology)
            verdicts.add((numa.fits(pinned("p", 8)), numa.fits(pinned("p", 9))))
        assert verdicts == {(True, False)}

    def test_pods_in_flight_of_an_earlier_leader_are_charged(self) -> None:
        numa = Numa().nodes("n1").see(pinned("a", 8).on("n1"), pinned("b", 8).on("n1"))
        numa.publish(two_cells(8, 8).knows())
        assert not numa.fits(pinned("p", 1))
        numa.publish(make_topology().cell(0, "63Gi").cell(0, "63Gi").knows("a", "b").version(2))
        assert not numa.cache.dirty()


class TestLooking:
    def test_a_rejected_node_is_looked_at_again(self, numa: Numa) -> None:
        numa.runs(pinned("a", 8), pinned("b", 8))
        newcomer = pinned("c", 2).scheduler("other")
        # The object counts a pod that our watch has not delivered yet.
        numa.publish(make_topology().cell(6).cell(8).knows("a", "b", "c").version(2))
        assert not numa.fits(pinned("p", 1))
        numa.runs(newcomer)
        assert not numa.cache.dirty()
        assert numa.fits(pinned("p", 8))

    def test_after_as_many_rejections_in_a_row_as_are_set(self) -> None:
        numa = Numa(compareAfterRejections=3).nodes("n1").publish(two_cells(8, 8).knows())
        numa.runs(pinned("a", 8), pinned("b", 8))
        numa.publish(make_topology().cell(6).cell(8).knows("a", "b", "c").version(2))
        numa.runs(pinned("c", 2).scheduler("other"))
        assert [numa.fits(pinned("p", 1)) for _ in range(4)] == [False, False, True, True]

    def test_one_that_was_not_filtered_out_starts_again(self) -> None:
        numa = Numa(compareAfterRejections=2).nodes("n1").publish(two_cells(8, 8).knows())
        numa.runs(pinned("a", 4), pinned("b", 4))
        numa.publish(make_topology().cell(8).cell(8).knows("a", "b", "c").version(2))
        numa.runs(pinned("c", 0, 0).scheduler("other"))
        small, large = pinned("p", 1), pinned("q", 8)
        assert [numa.fits(p) for p in (large, small, large, large)] == [False, True, False, True]


class TestWaking:
    async def test_a_rejected_pod_is_tried_again_after_a_match(self, numa: Numa) -> None:
        gone = pinned("a", 8)
        numa.runs(gone, pinned("b", 8)).publish(two_cells(0, 0).knows("a", "b").version(2))
        numa.see(pinned("p", 8))
        await numa.stage.run()
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 1
        numa.lose(gone)
        await numa.stage.run()
        assert not numa.stage.outlet.bound
        numa.publish(two_cells(8, 0).knows("b").version(3))
        numa.stage.clock.advance(60)
        numa.stage.core.queue.flush()
        await numa.stage.run()
        assert numa.stage.outlet.bound == [("default/p", "n1")]

    async def test_or_when_somebody_else_gives_up(self, numa: Numa) -> None:
        numa.assume(pinned("a", 8), pinned("b", 8))
        numa.see(pinned("p", 8))
        await numa.stage.run()
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 1
        numa.state.forget("uid-a")
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 0

    async def test_an_object_that_helps_nobody_wakes_nobody(self, numa: Numa) -> None:
        numa.runs(pinned("a", 8), pinned("b", 8)).publish(two_cells(0, 0).knows("a", "b"))
        numa.see(pinned("p", 8))
        await numa.stage.run()
        numa.publish(two_cells(4, 4).knows("a", "b").version(3))
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 1
        numa.publish(two_cells(8, 4).knows("a", "b").version(4))
        assert numa.stage.core.queue.view.counts()["unschedulable"] == 0


def test_metrics_tell_about_dirty_nodes(numa: Numa) -> None:
    def value(name: str, **labels: str) -> float:
        found = numa.stage.metrics.registry.get_sample_value(name, labels)
        assert found is not None
        return found

    numa.assume(pinned("a", 6))
    assert value("equipoise_numa_dirty_nodes") == 1
    assert value("equipoise_numa_doubtful_cells") == 2
    numa.stage.clock.advance(3)
    numa.runs(pinned("a", 6)).publish(two_cells(2, 8).knows("a"))
    assert value("equipoise_numa_dirty_nodes") == 0
    assert value("equipoise_numa_doubtful_cells") == 0
    assert value("equipoise_numa_dirty_duration_seconds_sum") == 3
    assert value("equipoise_numa_comparisons_total", result="settled") == 2


def test_pods_of_nodes_without_cells_leave_no_ledger(numa: Numa) -> None:
    pod: PodBuilder = pinned("a", 1)
    numa.runs(pod, node="elsewhere").lose(pod)
    assert numa.cache.ledger("elsewhere") is None
