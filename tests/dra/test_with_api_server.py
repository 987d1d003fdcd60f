"""Devices end to end: a daemon on the embedded API server, judged from the API alone."""

from __future__ import annotations

import pytest

from tests.builders import Json, make_node, make_pod
from tests.daemon.support import (
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)
from tests.dra.devices import DeviceCluster, claim, device_class, slice_of, using

CLAIM = r"/resourceclaims/[^/]+$"
CLAIM_STATUS = r"/resourceclaims/[^/]+/status$"
BINDING = r"/binding$"


def equip(cluster: DeviceCluster, nodes: int = 2, devices: int = 2) -> None:
    cluster.classes(device_class())
    for number in range(nodes):
        cluster.add(make_node(f"n{number}"))
        cluster.publish(slice_of(f"n{number}", devices))


async def test_claims_get_devices_and_their_pods_are_bound_there(cluster: DeviceCluster) -> None:
    equip(cluster)
    names = [f"p{i}" for i in range(4)]
    async with running_daemon(cluster):
        for name in names:
            cluster.claim(claim(name))
            cluster.submit(using(name, name))
        await expect_bound(cluster, *names)
    assert cluster.given_twice() == []
    for name in names:
        (device,) = cluster.devices_of(name)
        assert device.startswith(cluster.node_of(name))
        assert cluster.consumers(name) == [name]
        written = cluster.claims()[name]
        assert written["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert "allocationTimestamp" in written["status"]["allocation"]


async def test_a_pod_waits_for_its_claim_and_then_for_devices(cluster: DeviceCluster) -> None:
    equip(cluster, nodes=1, devices=1)
    async with running_daemon(cluster) as replica:
        cluster.submit(using("first", "one"), using("second", "two"))
        await eventually(lambda: replica.queued("first") is not None, "it is gated")
        cluster.claim(claim("one"))
        await expect_bound(cluster, "first")
        cluster.claim(claim("two"))
        message = await expect_pending(cluster, replica, "second")
        assert "1 cannot allocate all claims. still not schedulable" in message
        cluster.delete_pod("first")

        def give_back(body: Json) -> None:
            body["status"] = {}

        cluster.change_claim("one", give_back, "status")
        await expect_bound(cluster, "second")
    assert cluster.devices_of("two") == ["n0/gpu-0"]


async def test_pods_share_a_claim(cluster: DeviceCluster) -> None:
    equip(cluster, nodes=3, devices=1)
    async with running_daemon(cluster):
        cluster.claim(claim("shared"))
        names = [f"p{i}" for i in range(5)]
        cluster.submit(*(using(name, "shared") for name in names))
        await expect_bound(cluster, *names)
    assert sorted(cluster.consumers("shared")) == names
    assert len({cluster.node_of(name) for name in names}) == 1


async def test_an_extended_resource_becomes_a_claim(cluster: DeviceCluster) -> None:
    cluster.classes(device_class(extendedResourceName="example.com/gpu"))
    cluster.add(make_node("n0"))
    cluster.publish(slice_of("n0", 2))
    async with running_daemon(cluster) as replica:
        cluster.submit(make_pod("p").request("example.com/gpu", 2))
        await expect_bound(cluster, "p")
        cluster.submit(make_pod("q").request("example.com/gpu", 1))
        message = await expect_pending(cluster, replica, "q")
        assert "cannot allocate all claims" in message
    (name,) = cluster.claims()
    assert name.startswith("p-extended-resources-")
    assert cluster.devices_of(name) == ["n0/gpu-0", "n0/gpu-1"]
    said = cluster.pod("p")["status"]["extendedResourceClaimStatus"]
    assert said["resourceClaimName"] == name
    assert [each["resourceName"] for each in said["requestMappings"]] == ["example.com/gpu"]


async def test_conflicts_are_retried(cluster: DeviceCluster) -> None:
    equip(cluster, nodes=1)
    cluster.faults.fail("PATCH", CLAIM, times=2, status=409)
    cluster.faults.fail("PATCH", CLAIM_STATUS, times=2, status=409)
    async with running_daemon(cluster):
        cluster.claim(claim("c"))
        cluster.submit(using("p", "c"))
        await expect_bound(cluster, "p")
    assert cluster.consumers("c") == ["p"]


async def test_a_lost_answer_gives_no_device_away(cluster: DeviceCluster) -> None:
    equip(cluster, nodes=1, devices=2)
    cluster.faults.drop("PATCH", CLAIM_STATUS, times=1)
    async with running_daemon(cluster):
        for name in ("a", "b"):
            cluster.claim(claim(name))
            cluster.submit(using(name, name))
        await expect_bound(cluster, "a", "b")
    assert cluster.given_twice() == []
    assert sorted(cluster.devices_of("a") + cluster.devices_of("b")) == ["n0/gpu-0", "n0/gpu-1"]


async def test_what_was_written_is_undone_when_the_binding_fails(cluster: DeviceCluster) -> None:
    equip(cluster, nodes=1, devices=1)
    cluster.faults.fail("POST", BINDING, times=1, status=403)
    async with running_daemon(cluster):
        cluster.claim(claim("c"))
        with cluster.faults.hold("PATCH", CLAIM_STATUS) as held:
            cluster.submit(using("p", "c"))
            await held.reached()
            held.release()
        await expect_bound(cluster, "p")  # the second attempt finds the claim allocated
    assert cluster.consumers("c") == ["p"]
    assert cluster.devices_of("c") == ["n0/gpu-0"]


async def test_another_scheduler_takes_over_where_one_ended(cluster: DeviceCluster) -> None:
    """A scheduler was killed between the allocation and the binding."""
    equip(cluster, nodes=3, devices=1)
    cluster.claim(claim("c"))
    cluster.submit(using("p", "c"))
    leave_reserved(cluster, "c", "n1", "p")
    async with running_daemon(cluster):
        await expect_bound(cluster, "p")
    assert cluster.node_of("p") == "n1"
    assert cluster.consumers("c") == ["p"]


def leave_reserved(cluster: DeviceCluster, name: str, node: str, *pods: str) -> None:
    """As a scheduler leaves a claim that is killed before it has bound pods."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    consumers = [
        {"resource": "pods", "name": each, "uid": cluster.pod(each)["metadata"]["uid"]}
        for each in pods
    ]

    def protect(body: Json) -> None:
        body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]

    def allocate(body: Json) -> None:
        body["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            },
            "reservedFor": consumers,
        }

    cluster.change_claim(name, protect)
    cluster.change_claim(name, allocate, "status")


async def test_a_claim_that_is_deleted_is_no_longer_reserved_for_a_pod_that_waits(
    cluster: DeviceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reservation would keep it, and the claim that is being deleted the pod."""
    monkeypatch.setattr("scheduler.dra.plugin.RETRY_SECONDS", 0.05)
    equip(cluster, nodes=1, devices=1)
    cluster.claim(claim("c"))
    cluster.submit(using("p", "c"))
    leave_reserved(cluster, "c", "n0", "p")
    cluster.delete_claim("c")
    cluster.faults.fail("PATCH", CLAIM_STATUS, times=1, status=403)  # it is tried again
    async with running_daemon(cluster) as replica:
        await eventually(lambda: cluster.consumers("c") == [], "it is given up")
        assert cluster.node_of("p") == ""
        message = await expect_pending(cluster, replica, "p")
        assert 'resourceclaim "c" is being deleted' in message


async def test_a_claim_that_is_deleted_while_its_pod_waits_is_given_up(
    cluster: DeviceCluster,
) -> None:
    """Two pods share what is out of reach, so that neither may take it back."""
    equip(cluster, nodes=1, devices=1)
    cluster.claim(claim("c"))
    cluster.submit(using("p", "c"), using("q", "c"))
    leave_reserved(cluster, "c", "gone", "p", "q")
    async with running_daemon(cluster) as replica:
        for name in ("p", "q"):
            await expect_pending(cluster, replica, name)
        assert cluster.consumers("c") == ["p", "q"]
        cluster.delete_claim("c")
        await eventually(lambda: cluster.consumers("c") == [], "it is given up")


@pytest.mark.parametrize("failures", [0, 2])
async def test_what_is_out_of_reach_is_taken_back(
    cluster: DeviceCluster, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """The node of an allocation is gone: PostFilter gives the claim another device."""
    monkeypatch.setattr("scheduler.dra.plugin.RETRY_SECONDS", 0.05)
    equip(cluster, nodes=1, devices=1)
    cluster.claim(claim("c"))
    result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
    only = {"key": "metadata.name", "operator": "In", "values": ["gone"]}

    def allocated(body: Json) -> None:
        selector = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        body["status"] = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": selector}
        }

    cluster.change_claim("c", allocated, "status")
    if failures:
        cluster.faults.fail("PATCH", CLAIM_STATUS, times=failures, status=403)
    async with running_daemon(cluster):
        cluster.submit(using("p", "c"))
        await expect_bound(cluster, "p")
    assert cluster.devices_of("c") == ["n0/gpu-0"]


async def test_devices_are_awaited(cluster: DeviceCluster) -> None:
    cluster.classes(device_class())
    cluster.add(make_node("n0"))
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    cluster.publish(slice_of("n0", 1, **conditions))
    async with running_daemon(cluster) as replica:
        cluster.claim(claim("c"))
        cluster.submit(using("p", "c"))
        await eventually(
            lambda: bool(cluster.events("p", "BindingConditionsPending")), "it waits for devices"
        )
        assert cluster.node_of("p") == ""
        assert cluster.pod("p")["status"]["nominatedNodeName"] == "n0"

        def ready(body: Json) -> None:
            (result,) = body["status"]["allocation"]["devices"]["results"]
            device = {key: result[key] for key in ("driver", "pool", "device")}
            condition = {
                "type": "ready",
                "status": "True",
                "reason": "Attached",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            body["status"]["devices"] = [{**device, "conditions": [condition]}]

        cluster.change_claim("c", ready, "status")
        await expect_bound(cluster, "p")
        labels = {"profile": "equipoise", "driver": "gpu.example.com", "status": "success"}
        total = "scheduler_dra_bindingconditions_allocations_total"
        assert replica.sample(total, **labels) == 1


async def test_a_cluster_without_the_api_works(cluster: DeviceCluster) -> None:
    cluster.faults.fail("GET", r"/apis/resource.k8s.io/v1/", times=1000, status=404)
    cluster.add(make_node("n0"))
    async with running_daemon(cluster, configuration()):
        cluster.submit(make_pod("p"))
        await expect_bound(cluster, "p")
