"""NodeVolumeLimits against counting from scratch, while everything it counts from changes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.faults import PluginFault
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.state import attachments
from scheduler.state.attachments import Attachable, Lookup, attached_by
from scheduler.state.scratch import scratch
from tests.builders import Json, make_node
from tests.plugins.storage import (
    VolumePod,
    a_claim,
    a_class,
    a_csi_node,
    a_pod,
    a_volume,
    an_attachment,
    csi,
    lose,
    put,
)
from tests.plugins.support import Bench

NAME = "NodeVolumeLimits"
FULL = unschedulable("node(s) exceed max volume count").by(NAME)
EBS, IN_TREE_EBS = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"
OTHER = "csi.example.com"
NODES = ("n0", "n1")

nodes = st.sampled_from(NODES)
claims = st.sampled_from(["c0", "c1", "c2"])
volumes = st.sampled_from(["v0", "v1"])
disks = st.sampled_from(["vol-0", "aws:///vol-1", "vol-2"])
classes = st.sampled_from(["ebs", "other", "file", ""])
limits = st.dictionaries(st.sampled_from([EBS, OTHER]), st.none() | st.integers(0, 3))

sources = st.one_of(
    st.sampled_from(["h0", "h1", ""]).map(csi),
    st.sampled_from(["vol-0", "vol-1"]).map(lambda handle: csi(handle, EBS)),
    disks.map(lambda disk: {"awsElasticBlockStore": {"volumeID": disk}}),
    st.just({"hostPath": {"path": "/"}}),
)
storage = st.one_of(
    st.builds(lambda n, c, v: a_claim(n, c or None, v), claims, classes, volumes | st.just("")),
    st.builds(lambda n, s: a_volume(n, spec=s), volumes, sources),
    st.builds(
        a_class, classes, st.sampled_from([IN_TREE_EBS, OTHER, "kubernetes.io/vsphere-volume"])
    ),
    st.builds(a_csi_node, nodes, limits),
    st.builds(
        an_attachment,
        st.sampled_from(["a0", "a1"]),
        nodes,
        volumes,
        st.sampled_from([EBS, OTHER, ""]),
    ),
)
uses = st.lists(st.one_of(claims, disks), min_size=1, max_size=3)
running = st.tuples(st.integers(0, 3), nodes, uses)
steps = st.lists(st.one_of(storage, st.tuples(storage), running), min_size=1, max_size=12)
"""An object comes or changes, an object goes (in a tuple), or a pod comes or goes."""


def with_volumes(pod: VolumePod, used: list[str]) -> VolumePod:
    for use in used:
        if use.startswith("c"):
            pod.claim(use)
        else:
            pod.volume(awsElasticBlockStore={"volumeID": use})
    return pod


BEGINNING: list[Json | tuple[int, str, list[str]]] = [
    a_class("ebs", IN_TREE_EBS),
    a_class("other", OTHER),
    a_volume("v0", spec=csi("h0")),
    a_volume("v1", spec={"awsElasticBlockStore": {"volumeID": "vol-1"}}),
    a_claim("c0", "other", "v0"),
    a_claim("c1", "ebs", "v1"),
    a_claim("c2", "other"),
    a_csi_node("n0", {EBS: 2, OTHER: 2}),
    a_csi_node("n1", {EBS: 1, OTHER: 1}),
    an_attachment("a0", "n1", "v0"),
    (9, "n0", ["c0", "vol-0"]),
]
"""So that every change has something to change."""


class Oracle:
    """Counts as the documentation says, from all objects, each time."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.pods: dict[int, tuple[str, list[str]]] = {}

    def get(self, kind: str, name: str) -> Json | None:
        return self.objects.get((kind, name))

    def of_claim(self, name: str) -> tuple[str, str] | None:
        claim = self.get("PersistentVolumeClaim", name)
        if claim is None:
            return None
        volume = self.get("PersistentVolume", claim["spec"]["volumeName"])
        if volume is None:
            found = self.get("StorageClass", claim["spec"]["storageClassName"] or "none")
            driver = found["provisioner"] if found else ""
            driver = {IN_TREE_EBS: EBS, OTHER: OTHER}.get(driver, "")
            return (driver, f"claim {name}") if driver else None
        source = volume["spec"]
        if "csi" in source:
            handle = source["csi"]["volumeHandle"]
            return (source["csi"]["driver"], handle) if handle else None
        if "awsElasticBlockStore" in source:
            return EBS, source["awsElasticBlockStore"]["volumeID"].removeprefix("aws:///")
        return None

    def attached(self, used: Iterable[str]) -> set[tuple[str, str]]:
        found = set()
        for use in used:
            if not use.startswith("c"):
                found.add((EBS, use.removeprefix("aws:///")))
            elif volume := self.of_claim(use):
                found.add(volume)
        return found

    def verdict(self, node: str, wanted: list[str]) -> Status:
        for use in wanted:
            if use.startswith("c") and self.get("PersistentVolumeClaim", use) is None:
                text = f'persistentvolumeclaim "{use}" not found'
                return unresolvable(f"looking up PVC default/{use}: {text}").by(NAME)
        csi_node = self.get("CSINode", node)
        drivers = csi_node["spec"]["drivers"] if csi_node else []
        allowed = {d["name"]: d["allocatable"]["count"] for d in drivers if d["allocatable"]}
        there = self.attached(
            use for where, used in self.pods.values() if where == node for use in used
        )
        new = self.attached(wanted) - there
        for (kind, _), raw in self.objects.items():
            spec = raw.get("spec", {})
            if kind == "VolumeAttachment" and spec["nodeName"] == node and spec["attacher"]:
                volume = self.get("PersistentVolume", spec["source"]["persistentVolumeName"])
                if volume and "csi" in volume["spec"]:
                    there.add((spec["attacher"], volume["spec"]["csi"]["volumeHandle"]))
        for driver, limit in allowed.items():
            more = sum(volume[0] == driver for volume in new)
            if more and more + sum(volume[0] == driver for volume in there) > limit:
                return FULL
        return SUCCESS


@given(steps, uses)
def test_every_verdict_after_every_change(
    history: list[Json | tuple[Json] | tuple[int, str, list[str]]], wanted: list[str]
) -> None:
    oracle = Oracle()
    bench = Bench(NodeVolumeLimits, [make_node(name) for name in NODES])
    pending = with_volumes(a_pod("pending"), wanted)
    for step in (*BEGINNING, *history):
        if isinstance(step, dict):
            oracle.objects[step["kind"], step["metadata"]["name"]] = step
            put(bench.state, step)
        elif len(step) == 1:
            oracle.objects.pop((step[0]["kind"], step[0]["metadata"]["name"]), None)
            lose(bench.state, step[0])
        else:
            number, node, used = step
            if oracle.pods.pop(number, None):
                bench.state.remove_pod(f"uid-p{number}")
            else:
                oracle.pods[number] = node, used
                bench.state.set_pod(with_volumes(a_pod(f"p{number}"), used).on(node).info())
        want = {name: oracle.verdict(name, wanted) for name in NODES}
        assert bench.verdicts(pending) == want


def test_a_node_that_comes_later_is_counted() -> None:
    bench = Bench(NodeVolumeLimits, [], [a_pod("q").claim("c0").on("n")])
    put(bench.state, a_volume("v0", spec=csi("h0")), a_claim("c0", volume="v0"))
    put(bench.state, a_volume("v1", spec=csi("h1")), a_claim("c1", volume="v1"))
    put(bench.state, a_csi_node("n", {OTHER: 1}))
    bench.state.set_node(make_node("n").struct())
    assert bench.verdicts(a_pod().claim("c1")) == {"n": FULL}
    assert bench.verdicts(a_pod().claim("c0")) == {"n": SUCCESS}

    bench.state.remove_node("n")
    bench.state.set_node(make_node("m").struct())  # takes the row, and none of what was there
    assert bench.verdicts(a_pod().claim("c1")) == {"m": SUCCESS}


def test_an_eviction_would_make_room() -> None:
    bench = Bench(NodeVolumeLimits, [make_node("n")], [a_pod("q").claim("c0").on("n")])
    put(bench.state, a_class("late"), a_claim("c0"), a_claim("c1"), a_csi_node("n", {OTHER: 1}))
    pod = a_pod().claim("c1")
    held = bench.state.pod("uid-q")
    assert held is not None
    with scratch(bench.state) as changes:
        changes.remove(held)
        assert bench.verdicts(pod) == {"n": SUCCESS}
    assert bench.verdicts(pod) == {"n": FULL}


def test_rows_beyond_the_first_capacity() -> None:
    names = [f"n{i}" for i in range(70)]
    bench = Bench(NodeVolumeLimits, [make_node(name) for name in names[:2]])
    put(bench.state, a_class("late"), a_claim("c"), a_csi_node("n0", {OTHER: 0}))
    put(bench.state, a_csi_node("n69", {OTHER: 0}))
    pod = a_pod().claim("c")
    assert bench.verdicts(pod) == {"n0": FULL, "n1": SUCCESS}
    for name in names[2:]:
        bench.state.set_node(make_node(name).struct())
    full = [name for name, verdict in bench.verdicts(pod).items() if verdict == FULL]
    assert full == ["n0", "n69"]


def test_an_ephemeral_claim_counts_if_it_is_the_pods_own() -> None:
    owner = {"ownerReferences": [{"uid": "uid-p", "controller": True}]}
    bench = Bench(NodeVolumeLimits, [make_node("n")])
    put(bench.state, a_class("late"), a_csi_node("n", {OTHER: 0}), a_claim("p-v0", metadata=owner))
    assert bench.verdicts(a_pod().ephemeral()) == {"n": FULL}
    put(bench.state, a_claim("p-v0"))
    text = "PVC default/p-v0 was not created for pod default/p (pod is not owner)"
    assert bench.verdicts(a_pod().ephemeral()) == {"n": unresolvable(text).by(NAME)}


def odd_disk() -> VolumePod:
    """A pod with a disk that its CSI driver cannot serve."""
    return a_pod().volume(azureDisk={"diskURI": "/d", "kind": "Dedicated"})


def test_a_disk_that_cannot_be_served_is_a_fault_on_nodes_with_drivers() -> None:
    bench = Bench(NodeVolumeLimits, [make_node("n0"), make_node("n1")])
    put(bench.state, a_csi_node("n1", {}))
    with pytest.raises(PluginFault, match="Dedicated"):
        bench.verdicts(odd_disk())


def test_a_disk_that_cannot_be_served_is_nobodys_concern_without_drivers() -> None:
    bench = Bench(NodeVolumeLimits, [make_node("n0")])
    assert bench.verdicts(odd_disk()) == {"n0": SUCCESS}


def test_a_pod_that_comes_or_goes_costs_its_own_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pods with volumes its node has."""
    bench = Bench(NodeVolumeLimits, [make_node("n0")])
    put(bench.state, a_csi_node("n0", {OTHER: 40}))
    looked: list[str] = []

    def counted(pod: PodInfo, get: Lookup) -> set[Attachable]:
        looked.append(pod.pod.metadata.name)
        return attached_by(pod, get)

    monkeypatch.setattr(attachments, "attached_by", counted)
    for number in range(20):
        name = f"c{number}"
        put(bench.state, a_volume(f"v{number}", spec=csi(f"h{number}")))
        put(bench.state, a_claim(name, "other", f"v{number}"))
        bench.state.assume(a_pod(name).claim(name).info(), "n0")
        assert bench.state.attachments.counts(OTHER)[0] == number + 1
    assert looked == [f"c{number}" for number in range(20)]
    looked.clear()
    for number in range(20):
        bench.state.forget(f"uid-c{number}")
        assert bench.state.attachments.counts(OTHER)[0] == 19 - number
        assert not bench.state.attachments.users(Attachable(OTHER, f"h{number}"))
    assert looked == [f"c{number}" for number in range(20)]


def test_a_volume_counts_until_the_last_pod_that_uses_it_has_gone() -> None:
    bench = Bench(NodeVolumeLimits, [make_node("n0")])
    put(bench.state, a_csi_node("n0", {OTHER: 40}))
    put(bench.state, a_volume("v", spec=csi("h")), a_claim("c", "other", "v"))
    put(bench.state, an_attachment("a", "n0", "v"))
    assert bench.state.attachments.counts(OTHER)[0] == 1
    for name in ("one", "two"):
        bench.state.set_pod(a_pod(name).claim("c").on("n0").info())
    seen = []
    for name in ("one", "two"):
        bench.state.remove_pod(f"uid-{name}")
        attachments = bench.state.attachments
        seen.append((attachments.counts(OTHER)[0], bool(attachments.users(Attachable(OTHER, "h")))))
    assert seen == [(1, True), (1, False)], "it is still attached"
    lose(bench.state, an_attachment("a", "n0", "v"))
    assert bench.state.attachments.counts(OTHER)[0] == 0
