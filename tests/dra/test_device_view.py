"""What people see of a node's devices: reserved by us, and reported by claims."""

from __future__ import annotations

from typing import Any

from scheduler.views.node_detail import node_detail
from tests.builders import make_node
from tests.daemon.support import Replica, eventually, expect_bound, running_daemon
from tests.dra.devices import DRIVER, DeviceCluster, claim, device_class, slice_of, using

CLAIM_STATUS = r"/resourceclaims/[^/]+/status$"


def shown(replica: Replica, node: str = "n0") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node_detail(replica.daemon.core, node)["devices"]
    return found


async def test_a_device_is_reserved_before_its_claim_reports_it(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"), make_node("n1"))
    cluster.publish(slice_of("n0", 2))
    async with running_daemon(cluster) as replica:
        nothing: dict[str, list[str]] = {"reported": [], "reserved": [], "taints": []}
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
