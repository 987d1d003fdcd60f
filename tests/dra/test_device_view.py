"""What people see of a node's devices: reserved by us, and reported by claims."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.dra.device_view import EXCLUDED, REPORTED, RESERVED
from scheduler.views.node_detail import node_detail
from scheduler.views.node_map import UnknownResource, node_map
from tests.builders import Json, make_node
from tests.daemon.support import Replica, eventually, expect_bound, running_daemon
from tests.dra.devices import DRIVER, DeviceCluster, claim, device_class, slice_of, using

CLAIM_STATUS = r"/resourceclaims/[^/]+/status$"


def shown(replica: Replica, node: str = "n0") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node_detail(replica.daemon.core, node)["devices"]
    return found


def on_map(replica: Replica, resource: str = f"device:{DRIVER}") -> dict[str, Any]:
    found: dict[str, Any] = node_map(replica.daemon.core, resource, 100)
    return found


async def test_a_map_has_the_devices_of_a_driver(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"), make_node("n1"))
    cluster.publish(slice_of("n0", 3))
    async with running_daemon(cluster) as replica:
        found = on_map(replica)
        assert found["resources"][-1] == f"device:{DRIVER}"
        assert found["nodes"]["capacity"] == {f"device:{DRIVER}": [3, 0]}
        assert found["nodes"]["requested"] == {f"device:{DRIVER}": [0, 0]}
        assert found["nodes"]["devices"] == [[0, 0, 0], None]
        assert on_map(replica, "pods")["nodes"]["devices"] is None
        with cluster.faults.hold("PATCH", CLAIM_STATUS) as held:
            cluster.claim(claim("mine"))
            cluster.submit(using("p", "mine"))
            await held.reached()
            found = on_map(replica)["nodes"]
            assert found["requested"] == {f"device:{DRIVER}": [1, 0]}
            assert found["devices"] == [[RESERVED, 0, 0], None]
        await expect_bound(cluster, "p")
        both = [RESERVED | REPORTED, 0, 0]
        await eventually(
            lambda: on_map(replica)["nodes"]["devices"] == [both, None], "the claim is seen"
        )
        with pytest.raises(UnknownResource, match=r"no node offers 'device:other\.example'"):
            on_map(replica, "device:other.example")


async def test_admin_access_takes_no_device_of_a_map(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"))
    cluster.publish(slice_of("n0", 1))
    result = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}

    def look(body: Json) -> None:
        results = [{**result, "adminAccess": True}]
        body["status"] = {"allocation": {"devices": {"results": results}}}

    cluster.let_administrators_look()
    cluster.claim(claim("looks"))
    cluster.change_claim("looks", look, "status")
    async with running_daemon(cluster) as replica:
        await eventually(lambda: bool(shown(replica)[0]["reported"]), "the claim is seen")
        assert on_map(replica)["nodes"]["devices"] == [[0]]


async def test_a_device_is_reserved_before_its_claim_reports_it(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"), make_node("n1"))
    cluster.publish(slice_of("n0", 2))
    async with running_daemon(cluster) as replica:
        nothing = {"reported": [], "reserved": [], "excluded": False, "taints": []}
        assert shown(replica) == [
            {"driver": DRIVER, "pool": "n0", "device": f"gpu-{i}", **nothing} for i in range(2)
        ]
        assert shown(replica, "n1") == []
        with cluster.faults.hold("PATCH", CLAIM_STATUS) as held:
            cluster.claim(claim("mine"))
            cluster.submit(using("p", "mine"))
            await held.reached()
            first = shown(replica)[0]
            assert (first["reserved"], first["reported"]) == (["default/mine"], [])
        await expect_bound(cluster, "p")
        await eventually(
            lambda: shown(replica)[0]["reported"] == ["default/mine"], "the claim is seen"
        )
        assert shown(replica)[0]["reserved"] == ["default/mine"]
        assert shown(replica)[1]["reserved"] == []


def partitions(node: str) -> list[Json]:
    """A board that can be had whole or by halves, and the counter that these share."""

    def part(name: str, amount: str) -> Json:
        taken = [{"counterSet": "board", "counters": {"memory": {"value": amount}}}]
        return {"name": name, "consumesCounters": taken}

    devices = [part("half-0", "8Gi"), part("half-1", "8Gi"), part("whole", "16Gi")]
    counters = [{"name": "board", "counters": {"memory": {"value": "16Gi"}}}]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "pool": pool, "nodeName": node}
    return [
        {"metadata": {"name": f"{node}-counters"}, "spec": {**common, "sharedCounters": counters}},
        {"metadata": {"name": f"{node}-parts"}, "spec": {**common, "devices": devices}},
    ]


async def test_a_device_is_excluded_when_others_have_its_counters(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"))
    cluster.publish(*partitions("n0"))
    async with running_daemon(cluster) as replica:
        assert on_map(replica)["nodes"]["devices"] == [[0, 0, 0]]
        cluster.claim(claim("mine"))
        cluster.submit(using("p", "mine"))
        await expect_bound(cluster, "p")
        both = RESERVED | REPORTED
        await eventually(
            lambda: on_map(replica)["nodes"]["devices"] == [[both, 0, EXCLUDED]],
            "the claim is seen",
        )
        assert [each["excluded"] for each in shown(replica)] == [False, False, True]
        assert on_map(replica)["nodes"]["requested"] == {f"device:{DRIVER}": [1]}
