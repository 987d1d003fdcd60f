"""Gangs with claims: all members get their devices, or none does; members may share a claim."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.model.objects import KINDS, from_dict
from scheduler.simulation import place
from tests.builders import Json, PodBuilder, make_node, make_worker
from tests.dra.devices import claim, device_class, slice_of, using
from tests.pipeline.support import Stage

GROUP = "scheduling.x-k8s.io/pod-group"
WITH_GANGS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER_NAME,
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
        }
    ],
}


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


class Written:
    """An object as JSON, for a stage."""

    def __init__(self, kind: str, raw: Json) -> None:
        self._raw = {**raw, "kind": kind}

    def obj(self) -> Json:
        return self._raw

    def struct(self) -> Any:
        return from_dict(self._raw, KINDS[self._raw["kind"]].type)


def waiting_for(device_class_name: str) -> Written:
    """The claim of a member, named after the class that it asks for."""
    raw = claim(device_class_name)
    raw["metadata"]["uid"] = f"uid-{device_class_name}"
    raw["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = device_class_name
    return Written("ResourceClaim", raw)


def published(kind: str, node: str = "n0") -> Written:
    """One device of a driver that is named after its class."""
    raw = slice_of(node, 1)
    raw["metadata"]["name"], raw["spec"]["driver"] = f"{node}-{kind}", f"{kind}.example.com"
    return Written("ResourceSlice", raw)


def holding(kind: str, node: str = "n0") -> Written:
    """A claim of somebody else that has the device."""
    device = {"request": "r", "driver": f"{kind}.example.com", "pool": node, "device": "gpu-0"}
    raw = claim("other")
    raw["metadata"]["uid"] = "uid-other"
    return Written(
        "ResourceClaim", {**raw, "status": {"allocation": {"devices": {"results": [device]}}}}
    )


@pytest.mark.parametrize("lacking", ["nic", "fpga"])
@pytest.mark.parametrize("cured_by", ["a slice", "a claim that is gone"])
async def test_a_gang_is_woken_by_devices_for_any_of_its_members(
    lacking: str, cured_by: str
) -> None:
    """The members ask for different devices, and only one of them stands in the queue for all."""
    scene = Stage(config=(WITH_GANGS,))
    scene.see(make_worker("n0"))
    for kind in ("nic", "fpga"):
        selector = {"cel": {"expression": f'device.driver == "{kind}.example.com"'}}
        scene.see(Written("DeviceClass", device_class(kind, selectors=[selector])))
        scene.see(waiting_for(kind))
        if kind != lacking or cured_by != "a slice":
            scene.see(published(kind))
    if cured_by != "a slice":
        scene.see(holding(lacking))
    scene.see(Written("PodGroup", gang(2)), member("first", "nic"), member("second", "fpga"))
    while scene.attempt() is not None:
        pass
    assert set(scene.tiers().values()) == {"unschedulable"}
    scene.clock.advance(60)
    if cured_by == "a slice":
        scene.see(published(lacking))
    else:
        scene.lose(holding(lacking))
    assert scene.core.queue.active == 1
