"""NodePorts against every pair of ports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, unschedulable
from scheduler.plugins.node_ports import NodePorts
from tests.builders import PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")

Port = tuple[int, str, str]

ports = st.tuples(
    st.sampled_from([0, 80, 443]),
    st.sampled_from(["", "TCP", "UDP"]),
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
)
claims = st.lists(ports, max_size=3)


def clash(one: Port, other: Port) -> bool:
    everywhere = {"", "0.0.0.0"}
    same_address = one[2] == other[2] or bool({one[2], other[2]} & everywhere)
    return one[0] == other[0] != 0 and (one[1] or "TCP") == (other[1] or "TCP") and same_address


def with_ports(pod: PodBuilder, claimed: list[Port]) -> PodBuilder:
    for port in claimed:
        pod.host_port(*port)
    return pod


@given(st.lists(st.lists(claims, max_size=2), min_size=1, max_size=4), claims)
def test_every_node(cluster: list[list[list[Port]]], wanted: list[Port]) -> None:
    nodes = [make_node(f"n{i}") for i in range(len(cluster))]
    pods = [
        with_ports(make_pod(f"p{i}-{j}").on(f"n{i}"), claimed)
        for i, on_node in enumerate(cluster)
        for j, claimed in enumerate(on_node)
    ]
    taken = {
        f"n{i}": any(clash(have, want) for held in on_node for have in held for want in wanted)
        for i, on_node in enumerate(cluster)
    }
    got = Bench(NodePorts, nodes, pods).verdicts(with_ports(make_pod("p"), wanted))
    assert got == {name: TAKEN if clashes else SUCCESS for name, clashes in taken.items()}


def test_ports_are_free_again_when_their_pods_are_gone() -> None:
    bench = Bench(NodePorts, [make_node("n")], [make_pod("a").host_port(80).on("n")])
    pod = make_pod("p").host_port(80)
    assert bench.verdicts(pod)["n"] == TAKEN
    bench.state.remove_pod("uid-a")
    assert bench.verdicts(pod)["n"] == SUCCESS
