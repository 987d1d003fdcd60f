"""The reserve cache, rule by rule: what is charged, what is confirmed and when, what is woken."""

from __future__ import annotations

import pytest

from scheduler.numa.fingerprint import fingerprint
from scheduler.state.scratch import scratch
from tests.builders import make_pod
from tests.numa.support import Numa, TopologyBuilder, make_topology, pinned, with_container


def two_cells(first: int, second: int, name: str = "n1") -> TopologyBuilder:
    return make_topology(name).cell(first).cell(second)


@pytest.fixture
def numa() -> Numa:
    """A node of two cells with 8 of 16 CPUs available each, without pods."""
    return Numa().nodes("n1").publish(two_cells(8, 8).knows())


class TestCharging:
    def test_a_clean_node_is_what_it_says(self, numa: Numa) -> None:
        assert numa.fits(pinned("p", 8))
        assert not numa.fits(pinned("p", 9))
        assert not numa.cache.dirty()

    def test_a_pod_is_charged_to_every_cell_that_could_host_it(self, numa: Numa) -> None:
        numa.assume(pinned("a", 6), pinned("b", 6))
        assert not numa.fits(pinned("p", 3))
        assert numa.fits(pinned("p", 2))
        assert list(numa.cache.dirty()) == ["n1"]

    def test_it_is_in_one_cell_at_a_time(self, numa: Numa) -> None:
        numa.assume(pinned("a", 6))
        assert numa.fits(pinned("p", 8))

    def test_only_cells_that_could_host_it_are_charged(self) -> None:
        numa = Numa().nodes("n1").publish(two_cells(2, 8).knows())
        numa.assume(pinned("a", 6))
        assert numa.fits(pinned("p", 2))
        assert not numa.fits(pinned("p", 3))
        view = numa.cache.cells.of_node("n1")
        assert view is not None
        assert view.sure["cpu"] == view.free["cpu"] == [2000, 2000]

    def test_two_in_one_of_three_cells_do_not_pin_a_four_to_one(self) -> None:
        topology = make_topology().cell(4, of=6).cell(6, of=6).cell(4, of=6)
        numa = Numa().nodes("n1").publish(topology.knows())
        numa.assume(pinned("two", 2), pinned("four", 4), pinned("other", 4))
        # The 2 may be in the first cell, one 4 in the second and one in the third.
        assert not numa.fits(pinned("p", 4))

    def test_a_pod_on_its_way_is_not_endangered_by_one_behind_it(self) -> None:
        numa = Numa().nodes("n1").publish(two_cells(3, 5).knows())
        numa.assume(pinned("a", 4))
        # It would fit beside the other, but might be there first and take its only cell.
        assert not numa.fits(pinned("p", 3))
        numa.runs(pinned("a", 4))
        assert numa.fits(pinned("p", 3))

    def test_only_what_the_kubelet_pins_is_charged(self, numa: Numa) -> None:
        numa.assume(pinned("fraction", "1500m"), make_pod("burstable").cpu(4).memory("1Gi"))
        assert numa.fits(pinned("p", 8))

    def test_devices_are_charged_whatever_the_class(self) -> None:
        topology = make_topology().cell(8, gpu=(1, 2)).cell(8, gpu=(0, 2))
        numa = Numa().nodes("n1").publish(topology.knows())
        numa.assume(make_pod("burstable").request("example.com/gpu", 1))
        assert not numa.fits(pinned("p", 1, gpu=1))

    def test_containers_are_charged_one_by_one(self, numa: Numa) -> None:
        numa.assume(with_container(pinned("a", 6), {"cpu": 6, "memory": "1Gi"}))
        assert numa.fits(pinned("p", 2))
        assert not numa.fits(pinned("p", 3))

    def test_a_pod_of_the_pod_scope_is_charged_as_one(self) -> None:
        topology = make_topology(scope="pod").cell(8).cell(8)
        numa = Numa().nodes("n1").publish(topology.knows())
        numa.assume(with_container(pinned("a", 3), {"cpu": 3, "memory": "1Gi"}))
        assert numa.fits(pinned("p", 8))
        assert not numa.fits(with_container(pinned("p", 5), {"cpu": 5, "memory": "1Gi"}))

    def test_an_attempt_that_is_given_up_takes_its_charge_along(self, numa: Numa) -> None:
        pods = [pinned("a", 6), pinned("b", 6)]
        numa.assume(*pods)
        numa.state.forget("uid-a")
        numa.state.forget("uid-b")
        assert numa.fits(pinned("p", 8))
        assert not numa.cache.dirty()

    def test_pods_of_others_are_charged_and_the_node_stays_open(self, numa: Numa) -> None:
        numa.see(pinned("a", 6).on("n1").scheduler("other"))
        numa.see(pinned("b", 6).on("n1").scheduler("other"))
        assert not numa.fits(pinned("p", 3))
        assert numa.fits(pinned("p", 2))

    def test_pods_of_others_are_not_charged_if_that_is_not_wanted(self) -> None:
        numa = Numa(cache={"foreignPodsDetect": "None"})
        numa.nodes("n1").publish(two_cells(8, 8).knows())
        numa.see(pinned("a", 6).on("n1").scheduler("other"))
        numa.see(pinned("b", 6).on("n1").scheduler("other"))
        assert numa.fits(pinned("p", 8))

    def test_without_the_cache_nothing_is_charged(self) -> None:
        numa = Numa(reserve=False).nodes("n1").publish(two_cells(8, 8))
        numa.assume(pinned("a", 6), pinned("b", 6))
        assert numa.fits(pinned("p", 8))
        numa.publish(two_cells(2, 2))
        assert not numa.fits(pinned("p", 3))

    def test_a_trial_leaves_no_trace(self, numa: Numa) -> None:
        numa.runs(pinned("a", 6)).publish(two_cells(2, 8).knows("a"))
        with scratch(numa.state) as trial:
            trial.remove(numa.state.pods_on("n1")[0])
            trial.add(pinned("x", 8).info(), "n1")
        assert not numa.cache.dirty()
        assert numa.fits(pinned("p", 8))


class TestConfirming:
    def test_an_object_that_does_not_match_is_kept_and_not_used(self, numa: Numa) -> None:
        numa.assume(pinned("a", 6), pinned("b", 6))
        numa.publish(two_cells(16, 16).knows("somebody"))
        assert not numa.fits(pinned("p", 3))
        assert not numa.fits(pinned("p", 9))

    def test_an_object_that_matches_confirms_the_node(self, numa: Numa) -> None:
        numa.runs(pinned("a", 6), pinned("b", 6))
        assert not numa.fits(pinned("p", 3))
        numa.publish(two_cells(8 - 6, 8 - 6).knows("a", "b"))
        assert not numa.cache.dirty()
        assert numa.ledger().pods() == ([("default", "a"), ("default", "b")], [], [])

    def test_a_reservation_that_the_object_does_not_know_stays_charged(self, numa: Numa) -> None:
        numa.runs(pinned("a", 6))
        numa.assume(pinned("b", 6))
        numa.publish(two_cells(2, 8).knows("a"))
        assert numa.ledger().pods() == ([("default", "a")], [("default", "b")], [])
        assert numa.fits(pinned("p", 2))
        assert not numa.fits(pinned("p", 3))

    def test_an_object_that_is_older_than_a_binding_does_not_hide_it(self, numa: Numa) -> None:
        numa.see(pinned("a", 6).on("n1"))
        numa.publish(two_cells(8, 8).knows().version(2))
        assert numa.ledger().pods() == ([], [("default", "a")], [])
        assert not numa.fits(pinned("p", 9))
        assert list(numa.cache.dirty()) == ["n1"]

    def test_of_several_on_their_way_the_first_may_have_arrived(self, numa: Numa) -> None:
        numa.see(pinned("a", 2).on("n1"), pinned("b", 2).on("n1"), pinned("c", 2).on("n1"))
        numa.publish(make_topology().cell(6, "63Gi").cell(8).knows("a").version(2))
        charged = numa.ledger().pods()[1]
        assert charged == [("default", "b"), ("default", "c")]

    def test_the_annotation_will_do_where_there_is_no_attribute(self, numa: Numa) -> None:
        numa.runs(pinned("a", 6))
        text = fingerprint([("default", "a")])
        numa.publish(two_cells(2, 8).annotate("topology.node.k8s.io/fingerprint", text))
        assert not numa.cache.dirty()

    def test_a_pod_that_is_listed_but_not_counted_stays_charged(self, numa: Numa) -> None:
        numa.see(pinned("a", 6).on("n1"))
        numa.publish(make_topology().cell(16).cell(16).knows("a"))
        assert numa.ledger().pods()[1] == [("default", "a")]
        assert not numa.fits(with_container(pinned("p", 16), {"cpu": 16, "memory": "1Gi"}))

    def test_a_pod_is_not_confirmed_by_an_object_about_its_predecessor(self, numa: Numa) -> None:
        first = pinned("web-0", 2)
        numa.runs(first).publish(two_cells(6, 8).knows("web-0"))
        numa.lose(first)
        again = pinned("web-0", 6).uid("uid-again")
        numa.see(again.on("n1"))
        numa.publish(two_cells(6, 8).knows("web-0").version(3))
        assert numa.ledger().pods()[1] == [("default", "web-0")]
        numa.runs(again).publish(two_cells(2, 8).knows("web-0").version(4))
        assert not numa.cache.dirty()

    def test_nor_by_one_that_was_written_before_it_was_bound(self) -> None:
        numa = Numa().nodes("n1").runs(pinned("web-0", 6).version(50))
        numa.publish(two_cells(2, 8).knows("web-0").version(40))
        assert numa.ledger().pods()[1] == [("default", "web-0")]
        numa.publish(two_cells(2, 8).knows("web-0").version(60))
        assert not numa.cache.dirty()

    def test_a_pod_that_comes_again_is_not_taken_for_its_predecessor(self, numa: Numa) -> None:
        pod = pinned("a", 6)
        numa.assume(pod)
        numa.state.forget("uid-a")  # its binding has failed
        numa.assume(pod)
        numa.publish(two_cells(2, 8).knows("a").version(3))  # no other follows
        numa.runs(pod)  # the watch of pods is late
        assert numa.fits(pinned("p", 8))
        assert not numa.cache.dirty()

    def test_memory_that_is_not_pinned_is_not_charged(self) -> None:
        numa = Numa().nodes("n1").publish(two_cells(16, 16).knows())
        numa.runs(pinned("a", 2, "40Gi"))
        numa.publish(make_topology().cell(14).cell(16).knows("a"))
        numa.assume(pinned("b", 2, "40Gi"), pinned("c", 2, "40Gi"))
        assert numa.fits(pinned("p", 2, "40Gi"))

    def test_another_policy_is_used_at_once(self, numa: Numa) -> None:
        numa.assume(pinned("a", 8), pinned("b", 8))
        assert not numa.fits(pinned("p", 1))
        numa.publish(make_topology(policy="none").cell(0).cell(0).knows("x"))
        assert numa.fits(pinned("p", 1))

    def test_another_machine_is_used_at_once_with_all_pods_charged(self, numa: Numa) -> None:
        numa.runs(pinned("a", 6)).publish(two_cells(2, 8).knows("a"))
        numa.publish(make_topology().cell(24, of=24).cell(24, of=24).knows("nobody we know"))
        assert numa.fits(pinned("p", 24))
        assert not numa.fits(with_container(pinned("p", 20), {"cpu": 20, "memory": "1Gi"}))

    def test_unless_only_resources_are_to_be_followed(self) -> None:
        numa = Numa(cache={"resyncScope": "OnlyResources"})
        numa.nodes("n1").publish(two_cells(8, 8).knows())
        numa.runs(pinned("a", 6)).publish(two_cells(2, 8).knows("a"))
        numa.publish(make_topology().cell(24, of=24).cell(24, of=24).knows("nobody we know"))
        assert not numa.fits(pinned("p", 24))


class TestCandidates:
    """Old and new kubelets list different pods."""

    def test_a_finished_pod_may_be_listed(self, numa: Numa) -> None:
        job = pinned("job", 2)
        numa.runs(job, pinned("a", 6)).see(job.phase("Succeeded"))
        numa.publish(two_cells(2, 8).knows("a", "job"))
        assert not numa.cache.dirty()

    def test_or_not(self, numa: Numa) -> None:
        job = pinned("job", 2)
        numa.runs(job, pinned("a", 6)).see(job.phase("Succeeded"))
        numa.publish(two_cells(2, 8).knows("a"))
        assert not numa.cache.dirty()

    def test_until_it_is_deleted(self, numa: Numa) -> None:
        job = pinned("job", 2)
        numa.runs(job, pinned("a", 6)).see(job.phase("Failed"))
        numa.lose(job)
        numa.publish(two_cells(2, 8).knows("a", "job"))
        assert numa.cache.dirty()

    def test_a_pod_that_is_being_deleted_may_be_gone_already(self, numa: Numa) -> None:
        going = pinned("going", 6)
        numa.runs(going).publish(two_cells(2, 8).knows("going"))
        numa.see(going.deleting())
        numa.publish(two_cells(8, 8).knows().version(3))
        assert numa.fits(with_container(pinned("p", 8), {"cpu": 8, "memory": "1Gi"}))
        numa.lose(going)
        assert not numa.cache.dirty()

    def test_but_not_by_an_object_that_never_knew_it(self, numa: Numa) -> None:
        going = pinned("going", 6)
        numa.runs(going).see(going.deleting())
        numa.fits(pinned("p", 9))
        assert numa.ledger().pods()[1] == [("default", "going")]

    def test_a_pod_with_nothing_of_its_own_does_not_count_for_the_exclusive_method(self) -> None:
        numa = Numa().nodes("n1")
        numa.runs(make_pod("shared").cpu(1), pinned("a", 6))
        topology = two_cells(2, 8).knows("a")
        numa.publish(
            topology.attribute("nodeTopologyPodsFingerprintMethod", "with-exclusive-resources")
        )
        assert not numa.cache.dirty()

    def test_a_pod_whose_init_container_alone_is_exclusive_may_count_or_not(self) -> None:
        for listed in (("a",), ("a", "init-only")):
            numa = Numa().nodes("n1")
            init_only = make_pod("init-only").cpu(1)
            with_container(init_only, {"example.com/gpu": 1}, init=True)
            numa.runs(init_only, pinned("a", 6))
            topology = two_cells(2, 8).knows(*listed)
            numa.publish(
                topology.attribute("nodeTopologyPodsFingerprintMethod", "with-exclusive-resources")
            )
            assert numa.ledger().confirmed

    def test_the_method_can_be_dictated(self) -> None:
        numa = Numa(cache={"resyncMethod": "OnlyExclusiveResources"})
        numa.nodes("n1").runs(make_pod("shared").cpu(1), pinned("a", 6))
        numa.publish(two_cells(2, 8).knows("a"))
        assert numa.ledger().confirmed

    def test_at_most_eight_are_tried(self, numa: Numa) -> None:
        for i in range(20):
            numa.see(pinned(f"p{i}", 1).on("n1"))
        numa.see(pinned("job", 1).on("n1").phase("Succeeded"))
        numa.see(pinned("going", 1).on("n1").deleting())
        assert len(list(numa.ledger().candidates())) == 8


class TestUnconfirmed:
    """An object whose fingerprint is missing or matches no set of known pods."""

    @pytest.mark.parametrize("signed", [False, True], ids=["no fingerprint", "another fingerprint"])
    def test_what_it_says_is_taken_is_taken(self, signed: bool) -> None:
        topology = two_cells(0, 3)
        if signed:
            topology.knows("stranger")
        numa = Numa().nodes("n1").publish(topology)
        assert not numa.fits(pinned("p", 4))
        assert numa.fits(pinned("p", 3))

    def test_pods_that_explain_what_is_taken_are_not_counted_twice(self) -> None:
        numa = Numa().nodes("n1").runs(pinned("a", 6)).publish(two_cells(10, 16))
        assert numa.fits(pinned("p", 16))
        assert not numa.fits(pinned("p", 17))

    def test_pods_that_it_cannot_know_of_are_counted_too(self) -> None:
        numa = Numa().nodes("n1").publish(two_cells(4, 4))
        numa.assume(pinned("a", 4), pinned("b", 4))
        assert not numa.fits(pinned("p", 1))

    def test_pods_that_it_may_not_know_of_yet_are_counted_too(self) -> None:
        numa = Numa().nodes("n1").assume(pinned("a", 16), pinned("b", 16))
        numa.publish(two_cells(16, 16))
        assert not numa.fits(pinned("p", 1))

    def test_a_newer_object_replaces_it(self) -> None:
        numa = Numa().nodes("n1").publish(two_cells(0, 0))
        numa.publish(two_cells(8, 0).version(2))
        assert numa.fits(pinned("p", 8))
        assert not numa.fits(pinned("p", 9))


async def test_equal_pods_count_as_often_as_they_are_tried() -> None:
    """With ``compareAfterRejections`` above 1, cached verdicts delay no comparison."""
    numa = Numa(compareAfterRejections=3).nodes("n1").publish(two_cells(8, 8).knows("a", "b"))
    numa.runs(pinned("a", 8), pinned("b", 8))
    numa.see(*(pinned(f"p{number}", 8) for number in range(3)))
    assumed = []
    for _ in range(3):
        numa.stage.attempt()
        assumed.append(numa.state.assumed_count)
    assert assumed == [0, 0, 1]
