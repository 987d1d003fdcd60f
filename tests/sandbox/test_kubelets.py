"""The small kubelets of the sandbox."""

from collections.abc import Callable
from typing import Any

from sandbox.apiserver import ApiServer
from sandbox.kubelets import Kubelets
from tests.apicontract.client import Client, Watch, a_binding, a_pod, condition, pods_in

PODS = pods_in("default")
Body = dict[str, Any]


async def until(watch: Watch, wanted: Callable[[str, Body], bool]) -> Body:
    """Read a watch up to the first event that is wanted."""
    while True:
        kind, found = await watch.next()
        if wanted(kind, found):
            return found


async def add_node(client: Client, name: str = "n1") -> None:
    (await client.create("/api/v1/nodes", {"metadata": {"name": name}})).ok(201)


async def add_bound_pod(client: Client, name: str = "p", node: str = "n1") -> None:
    (await client.create(PODS, a_pod(name))).ok(201)
    (await client.create(f"{PODS}/{name}/binding", a_binding(name, node))).ok(201)


def is_running(_: str, pod: Body) -> bool:
    return bool(pod["status"]["phase"] == "Running")


async def test_a_bound_pod_comes_to_run(server: ApiServer, client: Client) -> None:
    async with Kubelets(server.registry), client.watch(PODS) as watch:
        await add_node(client)
        await add_bound_pod(client)
        pod = await until(watch, is_running)
    assert condition(pod, "Ready")["status"] == "True"
    assert condition(pod, "PodScheduled")["status"] == "True"
    assert pod["status"]["podIP"]
    assert pod["status"]["startTime"]
    assert pod["status"]["qosClass"] == "BestEffort"
    assert pod["status"]["containerStatuses"][0]["ready"] is True


async def test_a_time_to_sleep_that_is_no_number_is_like_any_command(
    server: ApiServer, client: Client
) -> None:
    async with Kubelets(server.registry, finish_seconds=0.0), client.watch(PODS) as watch:
        await add_node(client)
        pod = a_pod("p")
        pod["spec"] |= {"restartPolicy": "Never", "nodeName": "n1"}
        pod["spec"]["containers"][0]["command"] = ["sleep", "²"]
        (await client.create(PODS, pod)).ok(201)
        await until(watch, lambda _, seen: bool(seen["status"]["phase"] == "Succeeded"))


async def test_pods_bound_before_the_kubelets_start_or_the_node_exists(
    server: ApiServer, client: Client
) -> None:
    await add_node(client, "early")
    await add_bound_pod(client, "p", "early")
    await add_bound_pod(client, "q", "late")
    async with Kubelets(server.registry), client.watch(PODS) as watch:
        assert (await until(watch, is_running))["metadata"]["name"] == "p"
        assert (await client.get(f"{PODS}/q")).ok()["status"]["phase"] == "Pending"
        await add_node(client, "late")
        assert (await until(watch, is_running))["metadata"]["name"] == "q"


async def test_a_deleted_pod_goes_and_makes_room_for_its_successor(
    server: ApiServer, client: Client
) -> None:
    async with Kubelets(server.registry), client.watch(PODS) as watch:
        await add_node(client)
        await add_bound_pod(client)
        first = await until(watch, is_running)
        leaving = (await client.delete(f"{PODS}/p")).ok()
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
        gone = await until(watch, lambda kind, _: kind == "DELETED")
        assert gone["metadata"]["uid"] == first["metadata"]["uid"]
        await add_bound_pod(client)
        assert (await until(watch, is_running))["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_pod_with_a_finalizer_stays_until_it_is_freed(
    server: ApiServer, client: Client
) -> None:
    body = a_pod("p")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    async with Kubelets(server.registry), client.watch(PODS) as watch:
        await add_node(client)
        (await client.create(PODS, body)).ok(201)
        (await client.create(f"{PODS}/p/binding", a_binding("p", "n1"))).ok(201)
        await until(watch, is_running)
        (await client.delete(f"{PODS}/p")).ok()
        await until(watch, lambda _, pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)
        (await client.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})).ok()
        await until(watch, lambda kind, _: kind == "DELETED")


async def test_nodes_report_ready_and_keep_their_leases(server: ApiServer, client: Client) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    async with (
        Kubelets(server.registry, heartbeat_seconds=0.01),
        client.watch("/api/v1/nodes") as nodes,
        client.watch(leases) as beats,
    ):
        await add_node(client)
        ready = await until(nodes, lambda _, node: bool(node.get("status", {}).get("conditions")))
        assert condition(ready, "Ready")["status"] == "True"
        first = await until(beats, lambda kind, _: kind == "ADDED")
        later = await until(beats, lambda kind, _: kind == "MODIFIED")
    assert later["spec"]["holderIdentity"] == "n1"
    assert later["spec"]["renewTime"] > first["spec"]["renewTime"]


async def test_an_ill_node_is_not_healed(server: ApiServer, client: Client) -> None:
    ill = {"conditions": [{"type": "Ready", "status": "False"}]}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    async with Kubelets(server.registry), client.watch(leases) as beats:
        (await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": ill})).ok(201)
        await beats.next()
    assert (await client.get("/api/v1/nodes/n1")).ok()["status"] == ill
