"""The checker reports each kind of difference, and nothing else."""

from __future__ import annotations

from scheduler.model.limits import PodLimits
from scheduler.model.podinfo import PodInfo
from scheduler.state.cache import ClusterState
from scheduler.state.checker import differences
from tests.builders import make_pod, make_worker

NODE = make_worker("n1").struct()
POD = make_pod("p").cpu("1").on("n1").struct()


def known() -> ClusterState:
    state = ClusterState()
    state.set_node(NODE)
    state.set_pod(make_pod("p").cpu("1").on("n1").info())
    return state


def test_agreement() -> None:
    assert differences(known(), [NODE], [POD]) == []


def test_assumed_pods_are_our_lead_and_no_disagreement() -> None:
    state = known()
    state.assume(make_pod("q").cpu("2").info(), "n1")
    assert differences(state, [NODE], [POD]) == []


def test_a_resource_that_nobody_offers_any_more_is_no_disagreement() -> None:
    state = ClusterState()
    state.set_node(make_worker("n1").offer("example.com/gpu", 1).struct())
    pod = make_pod("p").request("example.com/gpu", 1).on("n1")
    state.set_pod(pod.info())
    state.set_node(NODE)
    assert differences(state, [NODE], [pod.struct()]) == []


def test_an_assumed_pod_that_is_elsewhere_is_told() -> None:
    state = ClusterState()
    state.set_node(NODE)
    state.assume(make_pod("p").info(), "n1")
    elsewhere = make_pod("p").on("n2").struct()
    assert "pod default/p: on n1, should be on n2" in differences(state, [NODE], [elsewhere])


def test_a_pod_beyond_configured_limits_is_compared_by_these_limits() -> None:
    state = ClusterState()
    state.set_node(NODE)
    pod = make_pod("p").on("n1").host_port(80).host_port(81).host_port(82)
    state.set_pod(PodInfo(pod.struct(), PodLimits(ports=2)))
    assert differences(state, [NODE], [pod.version(2).struct()]) == []


def test_finished_and_waiting_pods_hold_nothing() -> None:
    state = ClusterState()
    state.set_node(NODE)
    finished = make_pod("p").cpu("1").on("n1").phase("Succeeded").struct()
    assert differences(state, [NODE], [finished, make_pod("q").cpu("1").struct()]) == []


def test_missing_and_superfluous_nodes() -> None:
    lines = differences(known(), [make_worker("n2").struct()], [POD])
    assert lines == ["node n2: not in the cache", "node n1: not in the cluster"]


def test_missing_and_superfluous_pods() -> None:
    other = make_pod("q").on("n1").struct()
    lines = differences(known(), [NODE], [other])
    assert "pod default/q: not in the cache" in lines
    assert "pod default/p: not in the cluster" in lines


def test_a_wrong_sum() -> None:
    state = known()
    state.columns.requested[0, 0] += 1
    assert differences(state, [NODE], [POD]) == [
        "node n1: requested is {'cpu': 1001}, should be {'cpu': 1000}"
    ]


def test_a_stale_node() -> None:
    tainted = make_worker("n1").taint("t").struct()
    (line,) = differences(known(), [tainted], [POD])
    assert line.startswith("node n1: taints is [], should be ")
