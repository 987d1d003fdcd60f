"""Gangs with claims: all members get their devices, or none does; members may share a claim."""

from __future__ import annotations

import pytest

from scheduler.simulation import place
from tests.builders import Json, PodBuilder, make_node
from tests.dra.devices import claim, device_class, slice_of, using

GROUP = "scheduling.x-k8s.io/pod-group"


def gang(size: int) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"minMember": size},
    }


def member(name: str, *claims: str) -> PodBuilder:
    return using(name, *claims).meta(labels={GROUP: "gang"})


def cluster(devices: int, nodes: int = 2) -> list[Json]:
    names = [f"n{i}" for i in range(nodes)]
    return [
        *(make_node(name).obj() for name in names),
        {"kind": "DeviceClass", **device_class()},
        *({"kind": "ResourceSlice", **slice_of(name, devices)} for name in names),
    ]


@pytest.mark.parametrize(("devices", "placed"), [(2, 4), (1, 0)])
def test_all_members_get_devices_or_none_does(devices: int, placed: int) -> None:
    objects = [*cluster(devices), gang(4)]
    for number in range(4):
        objects.append({"kind": "ResourceClaim", **claim(f"c{number}")})
        objects.append(member(f"p{number}", f"c{number}").obj())
    outcome = place(objects)
    assert sum(node is not None for _, node, _ in outcome) == placed


def test_what_a_gang_gave_back_serves_others() -> None:
    objects = [*cluster(1), gang(4), {"kind": "ResourceClaim", **claim("own")}]
    for number in range(4):
        objects.append({"kind": "ResourceClaim", **claim(f"c{number}")})
        objects.append(member(f"p{number}", f"c{number}").obj())
    objects.append(using("alone", "own").obj())
    outcome = {pod: node for pod, node, _ in place(objects)}
    assert outcome.pop("default/alone") is not None
    assert set(outcome.values()) == {None}


def test_members_share_a_claim() -> None:
    objects = [*cluster(1, nodes=3), gang(3), {"kind": "ResourceClaim", **claim("shared")}]
    objects += [member(f"p{number}", "shared").obj() for number in range(3)]
    nodes = [node for _, node, _ in place(objects)]
    assert None not in nodes
    assert len(set(nodes)) == 1
