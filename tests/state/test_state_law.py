"""The law of the state: whatever happened, the columns say what a fresh start would say."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from scheduler.model.nodes import Node
from scheduler.model.podinfo import HostPort, PodInfo
from scheduler.model.pods import Pod
from scheduler.model.selectors import Requirement, equals
from scheduler.state.cache import ClusterState
from scheduler.state.checker import differences
from tests.builders import make_node, make_pod

NODES = [f"n{i}" for i in range(70)]  # more than the rows of an empty state, so that it must grow
PORTS = [HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80)]
IMAGES = ["img:1", "img:2"]

names = st.sampled_from(NODES[:6])
sizes = st.integers(0, 4)


def a_node(name: str, size: int, zone: str, version: int) -> Node:
    node = make_node(name).version(version).cpu(size).label(zone=zone)
    if size % 2:
        node.taint("t", str(size)).offer("example.com/gpu", size)
    if size % 3 == 1:
        node.image(IMAGES[0], IMAGES[0], size=100 * size)
    if size % 3 == 2:
        node.cordoned().image(IMAGES[1], size=200)
    return node.struct()


def a_pod(uid: int, size: int, node: str = "") -> Pod:
    pod = make_pod(f"p{uid}").cpu(f"{size}00m").request("example.com/gpu", size % 2)
    if size == 3:
        pod.host_port(80)
    if size == 4:
        pod.host_port(80, ip="10.0.0.1").memory("broken")
    return (pod.on(node) if node else pod).struct()


class StateLaw(RuleBasedStateMachine):
    """Drives a state through its documented transitions beside plain dictionaries."""

    waiting: Bundle[int] = Bundle("waiting")
    held: Bundle[int] = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.added: dict[str, Pod] = {}
        self.assumed: dict[str, tuple[Pod, str]] = {}
        self.count = 0

    # Nodes come, change, go, and come back.

    @rule(name=names, size=sizes, zone=st.sampled_from("ab"))
    def set_node(self, name: str, size: int, zone: str) -> None:
        self.count += 1
        self.nodes[name] = a_node(name, size, zone, self.count)
        self.state.set_node(self.nodes[name])

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.state.remove_node(name)

    @precondition(lambda self: len(self.nodes) < len(NODES))
    @rule()
    def fill_up(self) -> None:
        """So many nodes at once that the columns must grow."""
        for name in NODES:
            if name not in self.nodes:
                self.set_node(name, 1, "c")

    @precondition(lambda self: len(self.nodes) == len(NODES))
    @rule()
    def clear_out(self) -> None:
        for name in NODES[6:]:
            self.remove_node(name)

    # Pods are assumed, confirmed, forgotten, moved and removed.

    @rule(target=waiting)
    def new_pod(self) -> int:
        self.count += 1
        return self.count

    @rule(target=held, uid=consumes(waiting), size=sizes, node=names)
    def assume(self, uid: int, size: int, node: str) -> int:
        pod = a_pod(uid, size)
        booked = self.state.assume(PodInfo(pod), node)
        assert booked.node_name == node
        self.assumed[booked.uid] = (pod, node)
        return uid

    @rule(target=held, uid=consumes(waiting) | consumes(held), size=sizes, node=names)
    def set_pod(self, uid: int, size: int, node: str) -> int:
        pod = a_pod(uid, size, node)
        self.state.set_pod(PodInfo(pod))
        self.assumed.pop(pod.metadata.uid, None)
        self.added[pod.metadata.uid] = pod
        return uid

    @rule(target=held, uid=consumes(held), size=sizes)
    def renew(self, uid: int, size: int) -> int:
        pod = a_pod(uid, size)
        self.state.renew_assumed(PodInfo(pod))
        if pod.metadata.uid in self.assumed:
            self.assumed[pod.metadata.uid] = (pod, self.assumed[pod.metadata.uid][1])
        return uid

    @rule(target=waiting, uid=consumes(held))
    def forget(self, uid: int) -> int:
        name = f"uid-p{uid}"
        assert self.state.forget(name) is (name in self.assumed)
        self.assumed.pop(name, None)
        if name in self.added:
            self.state.remove_pod(name)
            del self.added[name]
        return uid

    @rule(target=waiting, uid=consumes(held))
    def remove_pod(self, uid: int) -> int:
        assert self.state.remove_pod(f"uid-p{uid}")
        self.added.pop(f"uid-p{uid}", None)
        self.assumed.pop(f"uid-p{uid}", None)
        return uid

    # The law

    @invariant()
    def the_checker_finds_nothing(self) -> None:
        assert differences(self.state, self.nodes.values(), self.added.values()) == []
        assert self.state.assumed_count == len(self.assumed)
        assert self.state.pod_count == len(self.assumed) + len(self.added)

    @invariant()
    def sums_are_those_of_the_pods(self) -> None:
        """Against plain arithmetic, so that the checker cannot be wrong in the same way."""
        pods = [(p, p.spec.node_name) for p in self.added.values()] + list(self.assumed.values())
        infos = [(PodInfo(pod), node) for pod, node in pods]
        for name in self.nodes:
            mine = [info for info, node in infos if node == name]
            row = self.state.describe(name)
            assert row["pods"] == len(mine)
            assert row["requested"].get("cpu", 0) == sum(i.requests.get("cpu", 0) for i in mine)
            assert row["scored"][0] == sum(info.nonzero[0] for info in mine)

    @invariant()
    def indexes_are_those_of_the_pods_and_nodes(self) -> None:
        by_name = {name: self.state.row(name) for name in self.nodes}
        for wanted in PORTS:
            users = {
                row
                for name, row in by_name.items()
                for info in self.state.pods_on(name)
                for port in info.host_ports
                if "0.0.0.0" in (port.ip, wanted.ip) or port.ip == wanted.ip
            }
            assert set(self.state.ports.conflicts(wanted)) == users
        for image in IMAGES:
            holders = {
                by_name[name]: each.size_bytes
                for name, node in self.nodes.items()
                for each in node.status.images
                if image in (each.names or ())
            }
            known = self.state.images.get(image)
            assert (known.rows if known else {}) == holders
            assert (known.size if known else 0) == max(holders.values(), default=0)

    @invariant()
    def rows_and_labels_belong_to_the_right_nodes(self) -> None:
        rows = self.state.rows()
        assert sorted(self.state.name(int(row)) for row in rows) == sorted(self.nodes)
        for wanted in (equals("zone", "a"), Requirement("zone", "DoesNotExist")):
            got = self.state.columns.labels.satisfy([wanted], rows)
            want = [
                wanted.accepts(self.nodes[self.state.name(int(row))].metadata.labels.get("zone"))
                for row in rows
            ]
            assert got.tolist() == want

    @invariant()
    def free_rows_are_blank(self) -> None:
        columns = self.state.columns
        free = np.setdiff1d(np.arange(columns.capacity), self.state.rows())
        for column in (columns.allocatable, columns.requested, columns.nonzero):
            assert not column[:, free].any()
        assert not columns.pod_count[free].any()
        assert not columns.unschedulable[free].any()
        assert {columns.names[row] for row in free} <= {""}


TestStateLaw = StateLaw.TestCase
TestStateLaw.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
