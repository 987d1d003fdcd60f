"""NUMA nodes of the embedded API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.apiserver import ApiServer
from sandbox.kubelets import Kubelets
from sandbox.numa.tasks import NumaNodes
from sandbox.registry import Registry
from tests.apicontract.client import Client, Watch, a_binding, pods_in
from tests.sandbox.numa.support import GPU, body, container, kubelet

PODS = pods_in("default")
NRTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
Body = dict[str, Any]


async def until(watch: Watch, wanted: Callable[[Body], bool]) -> Body:
    """Read a watch up to the first object that is wanted."""
    while True:
        _, found = await watch.next()
        if wanted(found):
            return found


async def settled(watch: Watch, name: str) -> tuple[str, str]:
    """The phase of a pod once it is not pending, and the reason if it failed."""
    found = await until(
        watch, lambda p: p["metadata"]["name"] == name and p["status"]["phase"] != "Pending"
    )
    return found["status"]["phase"], found["status"].get("reason", "")


async def add_pod(client: Client, manifest: Body, node: str = "n1") -> None:
    manifest["spec"]["containers"][0]["image"] = "example.com/app:1"
    name = manifest["metadata"]["name"]
    (await client.create(PODS, manifest)).ok(201)
    (await client.create(f"{PODS}/{name}/binding", a_binding(name, node))).ok(201)


def a_pod(name: str, cpu: str) -> Body:
    return body(name, container("app", cpu))


def left(nrt: Body) -> list[int]:
    """Available CPUs of every cell."""
    return [
        int(each["available"])
        for zone in nrt["zones"]
        for each in zone["resources"]
        if each["name"] == "cpu"
    ]


async def test_pods_that_no_cell_can_hold_fail(server: ApiServer, client: Client) -> None:
    numa = NumaNodes(server.registry, [kubelet()])
    (await client.create("/api/v1/nodes", numa.kubelets["n1"].machine.node("n1"))).ok(201)
    async with numa, Kubelets(server.registry, admission=numa), client.watch(PODS) as watch:
        for name, cpu in (("a", "4"), ("b", "5"), ("c", "4")):
            await add_pod(client, a_pod(name, cpu))
        assert await settled(watch, "c") == ("Failed", "TopologyAffinityError")
        for name in ("a", "b"):
            assert (await client.get(f"{PODS}/{name}")).ok()["status"]["phase"] == "Running"
        refused = (await client.get(f"{PODS}/c")).ok()["status"]
        assert refused["message"].startswith("Pod was rejected: ")
        assert refused["startTime"]
        assert numa.refused == 1


async def test_nodes_without_cells_take_everything(server: ApiServer, client: Client) -> None:
    numa = NumaNodes(server.registry, [])
    (await client.create("/api/v1/nodes", {"metadata": {"name": "plain"}})).ok(201)
    async with numa, Kubelets(server.registry, admission=numa), client.watch(PODS) as watch:
        await add_pod(client, a_pod("wide", "100"), "plain")
        assert await settled(watch, "wide") == ("Running", "")


async def test_agents_publish_what_is_left_and_when_it_comes_back(
    server: ApiServer, client: Client
) -> None:
    numa = NumaNodes(server.registry, [kubelet()], publish_seconds=0.02)
    (await client.create("/api/v1/nodes", numa.kubelets["n1"].machine.node("n1"))).ok(201)
    async with (
        numa,
        Kubelets(server.registry, admission=numa),
        client.watch(NRTS) as published,
    ):
        await until(published, lambda nrt: left(nrt) == [7, 8])
        await add_pod(client, a_pod("a", "4"))
        await add_pod(client, a_pod("b", "6"))
        await until(published, lambda nrt: left(nrt) == [3, 2])
        (await client.delete(f"{PODS}/a")).ok()
        await until(published, lambda nrt: left(nrt) == [7, 2])
        await client.patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
        await until(published, lambda nrt: left(nrt) == [7, 8])


async def test_what_has_not_changed_is_not_written_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    numa = NumaNodes(server.registry, [kubelet()])
    numa.publish("n1")
    written = server.registry.store.revision
    monkeypatch.setattr(server.registry, "patch", None)
    numa.publish("n1")
    assert server.registry.store.revision == written


async def test_a_forced_deletion_frees_the_cell_too(server: ApiServer, client: Client) -> None:
    numa = NumaNodes(server.registry, [kubelet()], publish_seconds=0.02)
    (await client.create("/api/v1/nodes", numa.kubelets["n1"].machine.node("n1"))).ok(201)
    async with (
        numa,
        Kubelets(server.registry, admission=numa, start_seconds=60.0),
        client.watch(NRTS) as published,
    ):
        await add_pod(client, a_pod("a", "4"))
        await until(published, lambda nrt: left(nrt) == [3, 8])
        await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        await until(published, lambda nrt: left(nrt) == [7, 8])


async def test_kubelets_that_start_late_find_running_pods_in_their_cells(
    server: ApiServer, client: Client
) -> None:
    first = NumaNodes(server.registry, [kubelet()])
    (await client.create("/api/v1/nodes", first.kubelets["n1"].machine.node("n1"))).ok(201)
    async with first, Kubelets(server.registry, admission=first), client.watch(PODS) as watch:
        await add_pod(client, a_pod("a", "4"))
        await settled(watch, "a")
    again = NumaNodes(server.registry, [kubelet()], publish_seconds=0.02)
    async with (
        again,
        Kubelets(server.registry, admission=again),
        client.watch(NRTS) as published,
    ):
        await until(published, lambda nrt: left(nrt) == [3, 8])


async def test_a_pod_with_devices_and_init_containers(server: ApiServer, client: Client) -> None:
    numa = NumaNodes(server.registry, [kubelet()])
    (await client.create("/api/v1/nodes", numa.kubelets["n1"].machine.node("n1"))).ok(201)
    init = container("prepare", "2", image="example.com/prepare:1")
    manifest = body("p", container("app", "2", gpus=2), init=(init,))
    async with numa, Kubelets(server.registry, admission=numa), client.watch(PODS) as watch:
        await add_pod(client, manifest)
        assert await settled(watch, "p") == ("Running", "")
        assert numa.kubelets["n1"].free()[0][GPU] == 0


def test_a_pod_that_cannot_be_read_is_refused_and_nothing_breaks() -> None:
    numa = NumaNodes(Registry(), [kubelet()])
    odd = a_pod("odd", "2")
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "two"
    refusal = numa.admit("n1", odd)
    assert refusal is not None
    assert refusal[0] == "UnexpectedAdmissionError"
    assert "two" in refusal[1]
    strange = a_pod("strange", "2")
    strange["spec"]["containers"] = "none"
    assert numa.admit("n1", strange) is not None
    assert numa.admit("n1", a_pod("fine", "2")) is None


async def test_agents_bring_back_what_somebody_deletes(server: ApiServer, client: Client) -> None:
    numa = NumaNodes(server.registry, [kubelet()], publish_seconds=0.02)
    async with numa, client.watch(NRTS) as published:
        await until(published, lambda nrt: left(nrt) == [7, 8])
        (await client.delete(f"{NRTS}/n1")).ok()
        while (await published.next())[0] != "DELETED":
            pass
        assert (await published.next())[0] == "ADDED"
