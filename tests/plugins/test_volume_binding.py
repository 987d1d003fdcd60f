"""VolumeBinding against a search node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.faults import PluginFault
from scheduler.model.csi_migration import BETA_ZONE
from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.volume_binding import REASONS, VolumeBinding
from tests.builders import Json, make_node, requirement, term
from tests.plugins.storage import (
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


def test_a_volume_that_cannot_be_translated_does_no_harm_where_another_is_out_of_reach() -> None:
    """Claims are looked at in turn, and the first that does not suit a node settles it."""
    bench = Bench(VolumeBinding, [make_node("n0").label(**{ZONE: "a"})])
    two_zones = {BETA_ZONE: "a__b"}
    put(
        bench.state,
        a_csi_node("n0", {}, "kubernetes.io/gce-pd"),
        a_volume("v0", spec=within(ZONE, "b")),
        a_volume("v1", spec={"gcePersistentDisk": {"pdName": "d"}}, labels=two_zones),
        a_claim("c0", volume="v0"),
        a_claim("c1", volume="v1"),
    )
    elsewhere = unresolvable(REASONS[0]).by(NAME)
    assert bench.verdicts(a_pod().claim("c0", "c1")) == {"n0": elsewhere}
    with pytest.raises(PluginFault, match="failed to get region"):
        bench.verdicts(a_pod().claim("c1", "c0"))
