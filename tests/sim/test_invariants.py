"""The rules find what they are for, and nothing else: each has a history that breaks it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.store import Body, Key, StoreChange, Version
from tests.builders import Json
from tests.sim import objects
from tests.sim.invariants import Knowledge, Violation, amount
from tests.sim.plan import (
    AddClaim,
    AddGroup,
    AddNode,
    AddVolume,
    AnyAction,
    At,
    DeletePod,
    DropTopology,
    NodePlan,
    PauseTopologies,
    Plan,
    PodPlan,
    SilenceWatches,
)
from tests.sim.rules import CLAIMS, GROUPS, LEASE, LEASES, judge


class Written(NamedTuple):
    time: float
    writer: str
    table: str
    key: Key
    revision: int
    before: Version | None
    after: Version | None


class Scene:
    """A registry whose writes are judged; `writer` and `time` are those of the next write."""

    def __init__(self, *actions: At, nodes: tuple[NodePlan, ...] = ()) -> None:
        self.judge = judge(Plan(1, 60.0, 60.0, nodes=nodes, actions=actions))
        self.registry = Registry()
        self.writer, self.time = "world", 0.0
        self.registry.store.journal = self
        self.hold("a")

    def written(self, table: str, change: StoreChange) -> None:
        key, revision = change.key, change.revision
        self.judge.see(
            Written(self.time, self.writer, table, key, revision, change.before, change.after)
        )

    def hold(self, replica: str) -> None:
        self.put(LEASES, LEASE, {"spec": {"holderIdentity": f"{replica}_1" if replica else ""}})

    def put(self, table: str, key: Key, body: Body) -> None:
        """Write past all rules of the API."""
        metadata = {"name": key[1], "namespace": key[0], "uid": key[1]}
        self.registry.store.table(table).put(key, {"metadata": metadata, **body})

    def node(self, plan: NodePlan) -> None:
        self.put("nodes", ("", plan.name), _whole(objects.node(plan)))

    def pod(self, plan: PodPlan) -> None:
        pods = self.registry.builtin("pods")
        self.registry.create(pods, plan.namespace, objects.pod(plan))

    def bind(self, name: str, node: str, by: str = "a", at: float | None = None) -> None:
        self.writer, self.time = by, self.time if at is None else at
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.registry.bind("default", target)
        self.writer = "world"

    def label(self, name: str, app: str, at: float) -> None:
        self.time = at
        pods, patch = self.registry.builtin("pods"), {"metadata": {"labels": {"app": app}}}
        self.registry.patch(pods, ("default", name), MERGE, patch)

    def status(self, name: str, status: Json, at: float) -> None:
        self.time = at
        body = self.registry.store.table("pods").current["default", name].body
        self.put("pods", ("default", name), {**body, "status": status})

    def delete(self, name: str) -> None:
        pods = self.registry.builtin("pods")
        self.registry.delete(pods, ("default", name), {"gracePeriodSeconds": 0})

    def found(self, time: float = 200.0) -> list[str]:
        return [each.rule for each in self.judge.finish(time)]


def _whole(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "uid": "u"}}


def test_a_history_in_order_breaks_nothing() -> None:
    scene = Scene()
    scene.node(NodePlan("n", cpu=2))
    for name in ("p", "q"):
        scene.pod(PodPlan(name, cpu=1000))
        scene.bind(name, "n")
    assert scene.found() == []


def test_a_violation_names_pod_time_write_and_rule() -> None:
    scene = Scene()
    scene.pod(PodPlan("p"))
    scene.bind("p", "nowhere", at=7.5)
    (found,) = scene.judge.finish(60.0)
    assert str(found).startswith("node-exists: default/p: there is no node nowhere (write ")
    assert str(found).endswith(", 7.500 s)")


def test_only_the_holder_of_the_lease_binds() -> None:
    scene = Scene()
    scene.node(NodePlan("n"))
    for name in ("p", "q", "r"):
        scene.pod(PodPlan(name))
    scene.bind("p", "n", by="b")
    scene.hold("b")
    scene.bind("q", "n", by="b")
    scene.hold("")
    scene.bind("r", "n", by="b")
    assert scene.found() == ["leader-only", "leader-only"]


def test_a_pod_that_changes_its_node() -> None:
    scene = Scene()
    scene.put("pods", ("default", "p"), {"spec": {"nodeName": "n"}, "status": {}})
    scene.put("pods", ("default", "p"), {"spec": {"nodeName": "m"}, "status": {}})
    assert scene.found() == ["bound-once"]


def test_a_node_with_too_many_requests() -> None:
    scene = Scene()
    scene.node(NodePlan("n", cpu=2))
    for name in ("p", "q"):
        scene.pod(PodPlan(name, cpu=1500))
        scene.bind(name, "n")
    assert scene.found() == ["fits"]


def test_room_that_a_deleted_pod_leaves() -> None:
    scene = Scene()
    scene.node(NodePlan("n", cpu=2))
    for name in ("p", "q"):
        scene.pod(PodPlan(name, cpu=1500))
    scene.bind("p", "n")
    scene.delete("p")
    scene.bind("q", "n")
    assert scene.found() == []


def test_a_foreign_pod_counts_once_the_watch_has_shown_it() -> None:
    for later, found in ((0.5, []), (1.5, ["fits"])):
        scene = Scene()
        scene.node(NodePlan("n", cpu=2))
        for name in ("p", "q"):
            scene.pod(PodPlan(name, cpu=1500))
        scene.bind("p", "n", by="world", at=10.0)
        scene.bind("q", "n", at=10.0 + later)
        assert scene.found() == found


def test_a_foreign_pod_may_be_unknown_while_watches_are_silent() -> None:
    scene = Scene(At(9.0, SilenceWatches(20.0)))
    scene.node(NodePlan("n", cpu=2))
    for name in ("p", "q"):
        scene.pod(PodPlan(name, cpu=1500))
    scene.bind("p", "n", by="world", at=10.0)
    scene.bind("q", "n", at=25.0)
    assert scene.found() == []


def test_pods_of_our_own_count_even_then() -> None:
    scene = Scene(At(9.0, SilenceWatches(20.0)))
    scene.node(NodePlan("n", cpu=2))
    for name in ("p", "q"):
        scene.pod(PodPlan(name, cpu=1500))
    scene.bind("p", "n", at=10.0)
    scene.status("p", {"phase": "Running"}, at=11.0)  # by whom does not matter
    scene.bind("q", "n", at=25.0)
    assert scene.found() == ["fits"]


def test_a_node_that_has_just_shrunk_may_be_taken_for_what_it_was() -> None:
    for later, found in ((0.5, []), (1.5, ["fits"])):
        scene = Scene()
        scene.node(NodePlan("n", cpu=2))
        scene.pod(PodPlan("p", cpu=1500))
        scene.time = 10.0
        scene.node(NodePlan("n", cpu=1))
        scene.bind("p", "n", at=10.0 + later)
        assert scene.found() == found


def test_a_node_that_does_not_take_the_pod() -> None:
    scene = Scene()
    scene.node(NodePlan("tainted", tainted=True, zone="east"))
    scene.pod(PodPlan("p"))
    scene.pod(PodPlan("q", tolerates=True))
    scene.pod(PodPlan("r", tolerates=True, zone="west"))
    for name in ("p", "q", "r"):
        scene.bind(name, "tainted", at=5.0)
    assert scene.found() == ["node-takes-it", "node-takes-it"]


def test_pods_that_shun_each_other() -> None:
    scene = Scene()
    scene.node(NodePlan("n"))
    scene.pod(PodPlan("p", app="web", apart=True))
    scene.pod(PodPlan("q", app="web"))
    scene.pod(PodPlan("r", app="db"))
    for name in ("p", "q", "r"):
        scene.bind(name, "n")
    assert scene.found() == ["apart"]


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        pytest.param(0.1, [], id="that the watch may not have shown yet"),
        pytest.param(5.0, ["apart"], id="that every replica knows of"),
    ],
)
def test_a_pod_with_new_labels(seconds: float, found: list[str]) -> None:
    scene = Scene()
    scene.node(NodePlan("n"))
    scene.pod(PodPlan("p", app="web", apart=True))
    scene.bind("p", "n")
    scene.pod(PodPlan("q", app="db"))
    scene.label("q", app="web", at=50.0)
    scene.bind("q", "n", at=50.0 + seconds)
    assert scene.found() == found


def two_zones(*pods: PodPlan) -> Scene:
    scene = Scene()
    for name, zone in (("n0", "east"), ("n1", "west")):
        scene.node(NodePlan(name, zone=zone))
    for pod in pods:
        scene.pod(pod)
    return scene


def test_pods_that_are_not_spread() -> None:
    pods = [PodPlan(f"p{n}", app="web", spread="zone") for n in range(3)]
    for nodes, rules in ((("n0", "n1", "n0"), []), (("n0", "n0"), ["spread"])):
        scene = two_zones()
        for number, node in enumerate(nodes):
            scene.pod(pods[number])
            scene.bind(f"p{number}", node, at=5.0 + number)
        assert scene.found() == rules


def test_pods_on_their_way_count_for_spread_wherever_that_helps() -> None:
    pods = [PodPlan(f"p{n}", app="web", spread="zone") for n in range(3)]
    scene = two_zones(*pods)
    scene.bind("p0", "n0", at=5.0)
    scene.bind("p1", "n0")  # p2 may be on its way to the other zone
    scene.delete("p2")
    assert scene.found() == []


def test_bindings_that_arrive_in_another_order_than_decisions_were_made() -> None:
    for early, rules in ((True, ["spread"]), (False, [])):
        scene = two_zones(PodPlan("other", app="web"))
        if early:
            scene.bind("other", "n0", at=5.0)
        scene.pod(PodPlan("p", app="web", spread="zone"))
        if not early:  # the other may have been decided on after this one
            scene.bind("other", "n0", at=5.0)
        scene.bind("p", "n0", at=5.1)
        assert scene.found() == rules


def test_a_pod_far_from_those_it_has_to_be_near() -> None:
    for node, rules in (("n0", []), ("n1", ["near"])):
        scene = two_zones(PodPlan("w", app="web"))
        scene.bind("w", "n0", at=5.0)
        scene.pod(PodPlan("p", app="db", near="web"))
        scene.bind("p", node, at=10.0)
        assert scene.found() == rules


def test_the_first_of_its_kind_may_go_anywhere() -> None:
    scene = two_zones(PodPlan("p", app="web", near="web"), PodPlan("q", app="db", near="web"))
    scene.bind("p", "n1", at=5.0)
    scene.bind("q", "n1", at=6.0)
    assert scene.found() == []
    scene = two_zones(PodPlan("q", app="db", near="web"))
    scene.bind("q", "n1", at=5.0)
    assert scene.found() == ["near"]


def gang(scene: Scene, bound: int) -> None:
    scene.node(NodePlan("n"))
    key = ("default", "g")
    scene.put(GROUPS, key, {"spec": objects.group(AddGroup("g", 3))["spec"]})
    for number in range(bound):
        scene.pod(PodPlan(f"m{number}", group="g"))
        scene.bind(f"m{number}", "n", at=20.0 + number)


def test_half_a_gang() -> None:
    for bound, found in ((2, ["gang"]), (3, [])):
        scene = Scene()
        gang(scene, bound)
        assert scene.found() == found


def test_a_gang_of_which_a_member_was_deleted_meanwhile() -> None:
    scene = Scene(At(21.0, DeletePod("m2")))
    gang(scene, 2)
    assert scene.found() == []


def test_a_gang_whose_binder_was_killed_meanwhile() -> None:
    for killed, found in ((15.0, ["gang"]), (20.5, []), (31.0, ["gang"])):
        scene = Scene()
        scene.judge.kills.append(killed)
        gang(scene, 2)
        assert scene.found() == found, killed


def test_members_of_a_group_that_is_deleted() -> None:
    for seen, rules in ((True, ["gang"] * 3), (False, [])):
        scene = Scene(*[] if seen else [At(9.0, SilenceWatches(20.0))])
        scene.node(NodePlan("n"))
        key = ("default", "g")
        scene.put(GROUPS, key, {"spec": objects.group(AddGroup("g", 3))["spec"]})
        scene.time = 10.0
        scene.registry.store.table(GROUPS).remove(key)
        for number in range(3):
            scene.pod(PodPlan(f"m{number}", group="g"))
            scene.bind(f"m{number}", "n", at=20.0)
        assert scene.found() == rules


def test_a_device_for_two() -> None:
    scene = Scene()
    result = {"driver": "d", "pool": "n", "device": "gpu-0", "request": "device"}
    status = {"allocation": {"devices": {"results": [result]}}}
    for name in ("c", "d"):
        body = objects.claim(AddClaim(name))
        scene.put(CLAIMS, ("default", name), {"spec": body["spec"], "status": status})
    assert scene.found() == ["device-once"]


def test_a_device_that_was_given_back() -> None:
    scene = Scene()
    result = {"driver": "d", "pool": "n", "device": "gpu-0", "request": "device"}
    status: Json = {"allocation": {"devices": {"results": [result]}}}
    for name, given in (("c", status), ("c", {}), ("d", status)):
        scene.put(CLAIMS, ("default", name), {"spec": {}, "status": given})
    assert scene.found() == []


def test_a_volume_that_is_promised_twice() -> None:
    scene = Scene()
    assert objects.volume_claim(AddVolume("v", "n"))["spec"]["storageClassName"] == objects.LOCAL
    for uid in ("1", "2"):
        body = objects.volume("pv", "n", objects.LOCAL, {"name": f"c{uid}", "uid": uid})
        scene.put("persistentvolumes", ("", "pv"), _whole(body))
    assert scene.found() == ["volume-once"]


def test_a_condition_that_denies_a_binding() -> None:
    scene = Scene()
    scene.node(NodePlan("n"))
    scene.pod(PodPlan("p"))
    scene.bind("p", "n")
    scene.writer = "a"
    wrong = [{"type": "PodScheduled", "status": "False"}]
    scene.status("p", {"conditions": wrong}, at=1.0)
    assert scene.found() == ["condition"]


REFUSED = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no cell has it"}


@pytest.mark.parametrize(
    ("by", "status", "action", "found"),
    [
        pytest.param("a", REFUSED, None, ["kubelet"], id="one that a replica bound"),
        pytest.param("world", REFUSED, None, [], id="one that another scheduler bound"),
        pytest.param("a", {**REFUSED, "reason": "Evicted"}, None, [], id="one that it evicts"),
        pytest.param("a", REFUSED, PauseTopologies(5.0), [], id="while no NRTs are published"),
        pytest.param("a", REFUSED, SilenceWatches(5.0), [], id="while watches are silent"),
        pytest.param("a", REFUSED, DropTopology("n"), [], id="whose NRT was dropped"),
        pytest.param("a", REFUSED, AddNode(NodePlan("n")), [], id="whose node was replaced"),
        pytest.param("a", REFUSED, AddNode(NodePlan("m")), ["kubelet"], id="when another came"),
    ],
)
def test_a_pod_that_its_kubelet_refuses(
    by: str, status: Json, action: AnyAction | None, found: list[str]
) -> None:
    plan = NodePlan("n", cells=2)
    scene = Scene(*[At(10.0, action)] if action is not None else [], nodes=(plan,))
    scene.node(plan)
    scene.pod(PodPlan("p", pinned=True))
    scene.bind("p", "n", by=by, at=20.0)
    scene.status("p", status, at=20.5)
    assert scene.found() == found


def test_what_replicas_know() -> None:
    plan = Plan(1, 60.0, 60.0, actions=(At(10.0, SilenceWatches(5.0)),))
    knowledge = Knowledge(plan)
    assert knowledge.since(9.0) == 8.0
    assert knowledge.since(12.0) == 9.0
    assert knowledge.since(50.0) == 9.0
    assert knowledge.since(70.0) == 69.0


def test_amounts() -> None:
    assert [amount(each) for each in ("250m", "2", "1Ki", "1e3", 4)] == [0.25, 2, 1024, 1000, 4]


def test_violations_are_bounded() -> None:
    scene = Scene()
    scene.node(NodePlan("n", pods=1))
    for number in range(50):
        scene.pod(PodPlan(f"p{number}"))
        scene.bind(f"p{number}", "n")
    assert len(scene.judge.finish(60.0)) == 20
    assert all(isinstance(each, Violation) for each in scene.judge.violations)
