"""VolumeBinding against a search node by node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.cycle import Cycle
from scheduler.model.status import SUCCESS, Status, unresolvable
from scheduler.pipeline.placement import CycleError, judge
from scheduler.plugins.volume_binding import REASONS, VolumeBinding
from tests.builders import Json, make_node, requirement, term
from tests.plugins.storage import (
    LATE,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_pod,
    a_room,
    a_volume,
    local,
    put,
    within,
)
from tests.plugins.support import Bench

NAME = "VolumeBinding"
ZONE = "topology.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
UNREACHABLE, UNBINDABLE, CRAMPED, MISSING = REASONS
SIZES = {"1Gi": 1, "2Gi": 2, "3Gi": 3}
NODES = ("n0", "n1", "n2")

sizes = st.sampled_from(list(SIZES))
zones = st.sampled_from(["a", "b"])
labels = st.fixed_dictionaries({}, optional={ZONE: zones, EBS_ZONE: zones, "disk": zones})
affinities = st.one_of(
    st.just({}),
    st.sampled_from(NODES).map(local),
    st.lists(zones, min_size=1, max_size=2).map(lambda values: within(ZONE, *values)),
    st.just({"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}),
    st.just(
        {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        term(requirement("disk", "Exists"), requirement(ZONE, "In", "a")),
                        term(requirement("disk", "DoesNotExist")),
                        term(),
                    ]
                }
            }
        }
    ),
)
kept = st.sampled_from(
    [
        {},
        {"claimRef": {"namespace": "default", "name": "c0"}},
        {"claimRef": {"namespace": "default", "name": "c1", "uid": "uid-c1"}},
        {"claimRef": {"namespace": "default", "name": "c1", "uid": "another"}},
    ]
)
free_volumes = st.builds(
    lambda size, affinity, ref, more, phase, label, going: {
        "size": size,
        "phase": phase,
        "labels": {"tier": label},
        "spec": {**affinity, **ref, **more},
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {},
    },
    sizes,
    affinities,
    kept,
    st.sampled_from([{}, {}, {"volumeMode": "Block"}, {"volumeAttributesClassName": "gold"}]),
    st.sampled_from(["Available", "Available", "Released"]),
    zones,
    st.sampled_from([False, False, False, True]),
)
wishes = st.builds(
    lambda size, more, selected: {
        "size": size,
        "spec": more,
        "annotations": {SELECTED: selected} if selected else {},
    },
    sizes,
    st.sampled_from(
        [
            {},
            {},
            {"selector": {"matchLabels": {"tier": "a"}}},
            {"volumeMode": "Block"},
            {"volumeAttributesClassName": "gold"},
            {"accessModes": ["ReadOnlyMany"]},
        ]
    ),
    st.sampled_from(["", "", "", "n0", "gone"]),
)
topologies = st.sampled_from(
    [
        [],
        [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}],
        [{"matchLabelExpressions": []}],
        [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]},
            {"matchLabelExpressions": [{"key": "disk", "values": ["a", "b"]}]},
        ],
    ]
)
provisioners = st.sampled_from(["csi.example.com", "kubernetes.io/no-provisioner"])
rooms = st.lists(
    st.builds(
        lambda size, most, topology: {
            "capacity": size,
            "maximumVolumeSize": most,
            "nodeTopology": topology,
        },
        st.none() | sizes,
        st.none() | sizes,
        st.sampled_from([None, {}, {"matchLabels": {ZONE: "a"}}, {"matchLabels": {ZONE: "b"}}]),
    ),
    max_size=3,
)
bound_volumes = st.builds(
    lambda affinity, source, label: {"spec": {**affinity, **source}, "labels": label},
    affinities,
    st.sampled_from([{}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}]),
    st.sampled_from([{}, {ZONE: "a"}, {ZONE: "a__b"}]),
)


class Oracle:
    """What storage offers, and a search on one node as the documentation describes it."""

    def __init__(self, volumes: list[Json], storage_class: Json, has_rooms: list[Json] | None):
        self.volumes = volumes
        self.storage_class = storage_class
        self.rooms = has_rooms

    def reasons(self, node: str, having: dict[str, str], migrated: bool, pod: Json) -> list[str]:
        found = []
        for volume in pod["bound"]:
            if volume is None:
                found.append(MISSING)
                break
            if not reachable(volume, having, migrated):
                found.append(UNREACHABLE)
                break
        pinned = [claim for claim in pod["delayed"] if claim["metadata"]["annotations"]]
        others = [claim for claim in pod["delayed"] if claim not in pinned]
        if any(claim["metadata"]["annotations"][SELECTED] != node for claim in pinned):
            return [*found, UNBINDABLE]
        to_make = list(pinned)
        taken: list[str] = []
        for claim in sorted(others, key=asked):
            volume = self.smallest(claim, having, taken)
            if volume is None:
                to_make.append(claim)
            else:
                taken.append(volume["metadata"]["name"])
        for claim in to_make:
            obstacle = self.obstacle(claim, having)
            if obstacle:
                return [*found, obstacle]
        return found

    def smallest(self, claim: Json, having: dict[str, str], taken: list[str]) -> Json | None:
        wish = claim["spec"]
        best = None
        for volume in sorted(self.volumes, key=lambda v: (offered(v), v["metadata"]["name"])):
            spec, reference = volume["spec"], volume["spec"].get("claimRef")
            mine = (
                reference is not None
                and reference["name"] == claim["metadata"]["name"]
                and reference.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]
            )
            if volume["metadata"]["name"] in taken or (reference and not mine):
                continue
            if offered(volume) < asked(claim) or "deletionTimestamp" in volume["metadata"]:
                continue
            if any(spec.get(k) != wish.get(k) for k in ("volumeMode", "volumeAttributesClassName")):
                continue
            if mine:
                return volume if reachable(volume, having, migrated=False) else None
            tier = wish.get("selector", {}).get("matchLabels", {}).get("tier")
            suits = (
                volume["status"]["phase"] == "Available"
                and tier in (None, volume["metadata"]["labels"]["tier"])
                and set(wish["accessModes"]) <= set(spec["accessModes"])
                and reachable(volume, having, migrated=False)
            )
            if suits and best is None:
                best = volume
        return best

    def obstacle(self, claim: Json, having: dict[str, str]) -> str:
        if self.storage_class["provisioner"] == "kubernetes.io/no-provisioner":
            return UNBINDABLE
        terms = self.storage_class["allowedTopologies"]
        if terms and not any(
            each["matchLabelExpressions"]
            and all(having.get(e["key"]) in e["values"] for e in each["matchLabelExpressions"])
            for each in terms
        ):
            return UNBINDABLE
        if self.rooms is None:
            return ""
        for room in self.rooms:
            limit = room["maximumVolumeSize"] or room["capacity"]
            where = room["nodeTopology"]
            if limit is None or where is None or SIZES[limit] < asked(claim):
                continue
            if where.get("matchLabels", {}).items() <= having.items():
                return ""
        return CRAMPED


def asked(claim: Json) -> int:
    return SIZES[claim["spec"]["resources"]["requests"]["storage"]]


def offered(volume: Json) -> int:
    return SIZES[volume["spec"]["capacity"]["storage"]]


def reachable(volume: Json, having: dict[str, str], migrated: bool) -> bool:
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    terms = None if required is None else required["nodeSelectorTerms"]
    key = ZONE
    if migrated and "awsElasticBlockStore" in volume["spec"]:
        label = volume["metadata"]["labels"].get(ZONE)
        named = any(e["key"] == ZONE for each in terms or () for e in each["matchExpressions"])
        if named:
            key = EBS_ZONE
        elif label is not None:
            extra = requirement(EBS_ZONE, "In", *label.split("__"))
            terms = [term(*each["matchExpressions"], extra) for each in terms or [term()]]
    if terms is None:
        return True
    return any(
        each["matchExpressions"]
        and all(holds(e, having, key if e["key"] == ZONE else e["key"]) for e in each["matchExpressions"])
        for each in terms
    )


def holds(expression: Json, having: dict[str, str], key: str) -> bool:
    if expression["operator"] == "In":
        return having.get(key) in expression["values"]
    return (key in having) == (expression["operator"] == "Exists")


@given(
    st.tuples(labels, labels, labels),
    st.booleans(),
    st.lists(free_volumes, max_size=5),
    st.lists(wishes, max_size=3),
    st.lists(st.none() | bound_volumes, max_size=2),
    topologies,
    provisioners,
    st.none() | rooms,
)
def test_every_verdict(
    cluster: tuple[dict[str, str], ...],
    migrated: bool,
    offers: list[Json],
    wanted: list[Json],
    held: list[Json | None],
    allowed: list[Json],
    provisioner: str,
    room: list[Json] | None,
) -> None:
    having = {n: {**own, HOST: n} for n, own in zip(NODES, cluster, strict=True)}
    bench = Bench(VolumeBinding, [make_node(n).label(**own) for n, own in having.items()])
    volumes = [a_volume(f"free{i}", **each) for i, each in enumerate(offers)]
    delayed = [a_claim(f"c{i}", **each) for i, each in enumerate(wanted)]
    bound = [each and a_volume(f"held{i}", "done", **each) for i, each in enumerate(held)]
    storage_class = a_class("late", provisioner, allowedTopologies=allowed)
    put(bench.state, storage_class, *volumes, *delayed, *filter(None, bound))
    put(bench.state, *(a_claim(f"b{i}", "done", f"held{i}") for i in range(len(held))))
    put(bench.state, a_driver(capacity=room is not None))
    put(bench.state, *(a_room(f"r{i}", "late", **each) for i, each in enumerate(room or ())))
    if migrated:
        put(bench.state, a_csi_node("n0", {}, migrated="kubernetes.io/aws-ebs"))
    pod = a_pod().claim(*(f"c{i}" for i in range(len(wanted))))
    pod.claim(*(f"b{i}" for i in range(len(held))))

    oracle = Oracle(volumes, storage_class, room)
    claims = {"delayed": delayed, "bound": bound}
    want = {}
    for node in NODES:
        reasons = oracle.reasons(node, having[node], migrated and node == "n0", claims)
        ordered = sorted(reasons, key=REASONS.index)
        want[node] = unresolvable(*ordered).by(NAME) if reasons else SUCCESS
    assert bench.verdicts(pod) == want


OWNED = {"ownerReferences": [{"uid": "uid-p", "controller": True}]}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("claim", "ephemeral", "text"),
    [
        pytest.param(None, False, 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            None,
            True,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"',
            id="no claim yet",
        ),
        pytest.param(
            a_claim("p-v0"),
            True,
            "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
            id="the claim of somebody else",
        ),
        pytest.param(a_claim("p-v0", metadata=OWNED), True, "", id="a claim made for the pod"),
        pytest.param(
            a_claim("c", volume="v", status={"phase": "Lost"}),
            False,
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="a lost claim",
        ),
        pytest.param(
            a_claim("c", metadata=GONE),
            False,
            'persistentvolumeclaim "c" is being deleted',
            id="a claim that goes",
        ),
        pytest.param(
            a_claim("c", "now"),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that should be bound",
        ),
        pytest.param(
            a_claim("c", None),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim without a class",
        ),
        pytest.param(
            a_claim("c", volume="v", annotations={}),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that names a volume and does not have it",
        ),
        pytest.param(a_claim("c"), False, "", id="a claim that waits"),
    ],
)
def test_claims_as_a_whole(claim: Json | None, ephemeral: bool, text: str) -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late"), a_class("now", mode="Immediate"))
    if claim:
        put(bench.state, claim)
    pod = a_pod().ephemeral() if ephemeral else a_pod().claim("c")
    want: Status = unresolvable(text).by(NAME) if text else SUCCESS
    assert bench.verdicts(pod) == {"n": want}


def test_a_class_without_a_mode_is_a_fault() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late") | {"volumeBindingMode": None}, a_claim("c"))
    with pytest.raises(CycleError, match='VolumeBindingMode not set for StorageClass "late"'):
        bench.verdicts(a_pod().claim("c"))


def test_pods_without_claims_are_not_looked_at() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    cycle = Cycle(a_pod().volume(emptyDir={}).info(), bench.state)
    judge(bench.framework, cycle)
    assert cycle.skipped["filter"] == {NAME}


def test_old_annotations_name_the_class() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    beta: dict[str, Any] = {"volume.beta.kubernetes.io/storage-class": "old"}
    put(bench.state, a_class("old", "kubernetes.io/no-provisioner"))
    put(bench.state, a_claim("c", None, annotations=beta))
    assert bench.verdicts(a_pod().claim("c")) == {"n": unresolvable(UNBINDABLE).by(NAME)}
    put(bench.state, a_volume("v", "", metadata={"annotations": beta}))
    assert bench.verdicts(a_pod().claim("c")) == {"n": SUCCESS}


def test_a_claim_that_is_used_twice_gets_one_volume() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late", "kubernetes.io/no-provisioner", LATE))
    put(bench.state, a_claim("c"), a_volume("v"))
    assert bench.verdicts(a_pod().claim("c", "c")) == {"n": SUCCESS}
