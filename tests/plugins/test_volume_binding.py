"""VolumeBinding against a search node by node."""

from __future__ import annotations

from collections.abc import Sequence
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
from tests.plugins.volume_oracle import (
    EBS_ZONE,
    SELECTED,
    SIZES,
    UNBINDABLE,
    UNREACHABLE,
    ZONE,
    Oracle,
)

NAME = "VolumeBinding"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DRIVER = "csi.example.com"
HOST = "kubernetes.io/hostname"
NODES = ("n0", "n1", "n2")

Labels = dict[str, str]


def rarely(strange: Any, usual: Any) -> st.SearchStrategy[Any]:
    """One in five is strange: enough of them, and most examples still have something to find."""
    return st.integers(0, 4).flatmap(lambda number: usual if number else strange)


sizes = st.sampled_from(list(SIZES))
zones = st.sampled_from(["a", "b"])
labels = st.fixed_dictionaries({}, optional={ZONE: zones, EBS_ZONE: zones, "disk": zones})
clusters = st.tuples(labels, labels, labels)
choosy = {
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
nowhere: Json = {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}
affinities: st.SearchStrategy[Json] = st.one_of(
    st.just({}),
    st.sampled_from(NODES).map(local),
    st.lists(zones, min_size=1, max_size=2).map(lambda values: within(ZONE, *values)),
    st.sampled_from([choosy, nowhere]),
)
kept = st.sampled_from(
    [
        {"claimRef": {"namespace": "default", "name": "c0"}},
        {"claimRef": {"namespace": "default", "name": "c1", "uid": "uid-c1"}},
        {"claimRef": {"namespace": "default", "name": "c1", "uid": "another"}},
    ]
)
kinds = st.sampled_from([{"volumeMode": "Block"}, {"volumeAttributesClassName": "gold"}])
GOLD = {"volumeAttributesClassName": "gold"}
going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
free_volumes = st.builds(
    lambda size, affinity, ref, kind, phase, label, metadata: {
        "size": size,
        "phase": phase,
        "labels": {"tier": label},
        "spec": {**affinity, **ref, **kind},
        "metadata": metadata,
    },
    sizes,
    affinities,
    rarely(kept, st.just({})),
    rarely(kinds, st.just({})),
    rarely(st.just("Released"), st.just("Available")),
    zones,
    rarely(st.just(going), st.just({})),
)
wishes = st.builds(
    lambda size, more, selected: {
        "size": size,
        "spec": more,
        "annotations": {SELECTED: selected} if selected else {},
    },
    sizes,
    rarely(
        kinds
        | st.sampled_from(
            [{"selector": {"matchLabels": {"tier": "a"}}}, {"accessModes": ["ReadOnlyMany"]}]
        ),
        st.just({}),
    ),
    rarely(st.sampled_from(["n0", "gone"]), st.just("")),
)
topologies = st.sampled_from(
    [
        [],
        [],
        [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}],
        [{"matchLabelExpressions": []}],
        [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]},
            {"matchLabelExpressions": [{"key": "disk", "values": ["a", "b"]}]},
        ],
    ]
)
rooms = st.lists(
    st.builds(
        lambda size, most, topology: {
            "capacity": size,
            "maximumVolumeSize": most,
            "nodeTopology": topology,
        },
        rarely(st.none(), sizes),
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


def kept_for(claim: str, uid: str = "") -> Json:
    return {"claimRef": {"namespace": "default", "name": claim, "uid": uid}}


def check(
    cluster: tuple[Labels, ...],
    offers: Sequence[Json] = (),
    wanted: Sequence[Json] = (),
    held: Sequence[Json | None] = (),
    *,
    migrated: bool = False,
    allowed: Sequence[Json] = (),
    provisioner: str = NO_PROVISIONER,
    room: list[Json] | None = None,
) -> None:
    """Every node gets the verdict that a search on it alone would give."""
    having = {n: {**own, HOST: n} for n, own in zip(NODES, cluster, strict=True)}
    bench = Bench(VolumeBinding, [make_node(n).label(**own) for n, own in having.items()])
    volumes = [a_volume(f"free{i}", **each) for i, each in enumerate(offers)]
    delayed = [a_claim(f"c{i}", **each) for i, each in enumerate(wanted)]
    bound = [each and a_volume(f"held{i}", "done", **each) for i, each in enumerate(held)]
    storage_class = a_class("late", provisioner, allowedTopologies=list(allowed))
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


@given(
    clusters,
    st.lists(free_volumes, min_size=1, max_size=5),
    st.lists(wishes, min_size=1, max_size=3),
)
def test_free_volumes(cluster: tuple[Labels, ...], offers: list[Json], wanted: list[Json]) -> None:
    check(cluster, offers, wanted)


plain_volumes = st.builds(
    lambda size, affinity: {"size": size, "labels": {"tier": "a"}, "spec": affinity},
    sizes,
    st.sampled_from([{}, local("n0"), local("n1"), within(ZONE, "a")]),
)
plain_wishes = sizes.map(lambda size: {"size": size})


@given(
    st.lists(plain_volumes, min_size=1, max_size=4), st.lists(plain_wishes, min_size=2, max_size=3)
)
def test_claims_that_compete_for_volumes(offers: list[Json], wanted: list[Json]) -> None:
    check(({ZONE: "a"}, {ZONE: "b"}, {}), offers, wanted)


@given(clusters, st.lists(wishes, min_size=1, max_size=2), topologies, st.none() | rooms)
def test_new_volumes(
    cluster: tuple[Labels, ...], wanted: list[Json], allowed: list[Json], room: list[Json] | None
) -> None:
    check(cluster, wanted=wanted, allowed=allowed, provisioner=DRIVER, room=room)


@given(clusters, st.lists(rarely(st.none(), bound_volumes), min_size=1, max_size=2), st.booleans())
def test_bound_volumes(
    cluster: tuple[Labels, ...], held: list[Json | None], migrated: bool
) -> None:
    check(cluster, held=held, migrated=migrated)


@given(
    clusters,
    st.lists(free_volumes, max_size=5),
    st.lists(wishes, max_size=3),
    st.lists(rarely(st.none(), bound_volumes), max_size=1),
    topologies,
    st.sampled_from([DRIVER, NO_PROVISIONER]),
    st.none() | rooms,
)
def test_everything_together(
    cluster: tuple[Labels, ...],
    offers: list[Json],
    wanted: list[Json],
    held: list[Json | None],
    allowed: list[Json],
    provisioner: str,
    room: list[Json] | None,
) -> None:
    check(cluster, offers, wanted, held, allowed=allowed, provisioner=provisioner, room=room)


@pytest.mark.parametrize(
    ("volume", "wish", "fits"),
    [
        pytest.param({}, {}, True, id="nothing special"),
        pytest.param({"size": "4Gi"}, {}, False, id="too small"),
        pytest.param({"size": "5Gi"}, {}, True, id="just large enough"),
        pytest.param({"class_name": "early"}, {}, False, id="another class"),
        pytest.param({"phase": "Released"}, {}, False, id="not available"),
        pytest.param({"metadata": going}, {}, False, id="about to go"),
        pytest.param({"spec": {"volumeMode": "Block"}}, {}, False, id="a block device"),
        pytest.param({}, {"volumeMode": "Block"}, False, id="a block device is wanted"),
        pytest.param({"spec": {"volumeMode": "Filesystem"}}, {}, True, id="a file system"),
        pytest.param({"spec": GOLD}, {}, False, id="attributes"),
        pytest.param({"spec": GOLD}, GOLD, True, id="attributes that are wanted"),
        pytest.param({}, {"accessModes": ["ReadOnlyMany"]}, False, id="another access mode"),
        pytest.param(
            {"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, {}, True, id="more modes than wanted"
        ),
        pytest.param({}, {"selector": {"matchLabels": {"tier": "a"}}}, False, id="other labels"),
        pytest.param(
            {"labels": {"tier": "a"}},
            {"selector": {"matchLabels": {"tier": "a"}}},
            True,
            id="the labels that are wanted",
        ),
        pytest.param({"spec": kept_for("c")}, {}, True, id="kept for the claim"),
        pytest.param(
            {"spec": kept_for("c"), "phase": "Bound", "modes": []}, {}, True, id="bound to it"
        ),
        pytest.param({"spec": kept_for("c", "other")}, {}, False, id="kept for its predecessor"),
        pytest.param({"spec": kept_for("d")}, {}, False, id="kept for another"),
        pytest.param({"spec": nowhere}, {}, False, id="out of reach"),
    ],
)
def test_one_volume_and_one_claim(volume: Json, wish: Json, fits: bool) -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late", NO_PROVISIONER), a_volume("v", **volume))
    put(bench.state, a_claim("c", spec=wish))
    want = SUCCESS if fits else unresolvable(UNBINDABLE).by(NAME)
    assert bench.verdicts(a_pod().claim("c")) == {"n": want}


def test_a_migrated_volume_follows_the_topology_of_its_driver() -> None:
    ours, others = {ZONE: "a", EBS_ZONE: "b"}, {ZONE: "b", EBS_ZONE: "a"}
    nodes = [make_node("n0").label(**ours), make_node("n1").label(**others)]
    bench = Bench(VolumeBinding, nodes)
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    put(bench.state, a_volume("v", spec=disk | within(ZONE, "a")), a_claim("c", volume="v"))
    unreachable = unresolvable(UNREACHABLE).by(NAME)
    assert bench.verdicts(a_pod().claim("c")) == {"n0": SUCCESS, "n1": unreachable}
    for name in ("n0", "n1"):
        put(bench.state, a_csi_node(name, {}, migrated="kubernetes.io/aws-ebs,other"))
    assert bench.verdicts(a_pod().claim("c")) == {"n0": unreachable, "n1": SUCCESS}


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
