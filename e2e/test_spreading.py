"""Pods that are to be apart from each other, or together, are."""

from collections import Counter

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import (
    HOSTNAME,
    ZONE,
    Json,
    condition,
    deployment,
    is_bound,
    is_rejected,
    is_running,
    node_of,
    pod,
)
from e2e.harness.workspace import Workspace

UNEQUAL_ZONES = ("a", "b", "b", "c", "c", "c")


def among(app: str, key: str) -> Json:
    """A term about pods with the label ``app``, in a domain of ``key``."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


async def pods_by_zone(space: Workspace, pods: list[Json]) -> Counter[str]:
    nodes = await space.api.items("/api/v1/nodes")
    zone = {node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE) for node in nodes}
    return Counter(zone[node_of(pod)] for pod in pods)


async def test_deployment_of_30_pods_is_spread_over_three_zones(
    space: Workspace, launch: Launch
) -> None:
    # Twice as many nodes in one zone as in another: fair to nodes would be unfair to zones.
    await space.add_nodes(6, zones=UNEQUAL_ZONES)
    launch(*NO_ELECTION)
    spread = {**among("web", ZONE), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    await space.apply(deployment("web", 30, topologySpreadConstraints=[spread]))

    pods = await space.wait_for_pods(30, is_running)

    assert await pods_by_zone(space, pods) == {"a": 10, "b": 10, "c": 10}


async def test_pods_without_constraints_are_spread_by_their_service(
    space: Workspace, launch: Launch
) -> None:
    nodes = await space.add_nodes(3, cpu="10", memory="10Gi", zones=("a", "b", "c"))
    launch(*NO_ELECTION)
    # An empty node would get all pods of the Deployment if only room mattered.
    ballast = [
        pod(f"ballast-{number}", cpu="2", memory="2Gi", nodeSelector={HOSTNAME: node})
        for number, node in enumerate(nodes[:2])
    ]
    await space.create_pods(ballast)
    await space.wait_for_pods(2)
    ports = [{"port": 80}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    await space.apply(
        service | {"spec": {"selector": {"app": "web"}, "ports": ports}},
        deployment("web", 12, cpu="10m", memory="10Mi"),
    )

    pods = await space.wait_for_pods(14, is_running)

    web = [each for each in pods if each["metadata"]["labels"].get("app") == "web"]
    assert await pods_by_zone(space, web) == {"a": 4, "b": 4, "c": 4}


async def test_one_pod_too_many_for_anti_affinity_waits_for_a_node(
    space: Workspace, launch: Launch
) -> None:
    nodes = await space.add_nodes(4)
    launch(*NO_ELECTION)
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [among("db", HOSTNAME)]}
    await space.apply(deployment("db", 5, affinity={"podAntiAffinity": apart}))

    pods = await space.wait_for_pods(5, lambda pod: is_running(pod) or is_rejected(pod))

    placed = [pod for pod in pods if is_bound(pod)]
    (left_over,) = [pod for pod in pods if not is_bound(pod)]
    assert sorted(map(node_of, placed)) == nodes
    assert condition(left_over, "PodScheduled")["message"] == (
        "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."
        " no new claims to deallocate, preemption: 0/4 nodes are available:"
        " 4 No preemption victims found for incoming pod."
    )

    (fifth,) = await space.add_nodes(1)
    bound = await space.wait_for_pod(left_over["metadata"]["name"], is_running)
    assert node_of(bound) == fifth


async def test_pods_go_where_the_pods_are_that_they_like(space: Workspace, launch: Launch) -> None:
    nodes = await space.add_nodes(6, cpu="10", memory="10Gi")
    launch(*NO_ELECTION)
    # The least attractive node, but for the company.
    cache = pod("cache", cpu="1", memory="1Gi", labels={"app": "cache"})
    cache["spec"]["nodeSelector"] = {HOSTNAME: nodes[3]}
    await space.create_pods([cache])
    await space.wait_for_pod("cache")
    near = {"weight": 100, "podAffinityTerm": among("cache", HOSTNAME)}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]}}

    await space.create_pods([pod("lonely"), pod("client", affinity=affinity)])

    pods = await space.wait_for_pods(3, is_running)
    where = {each["metadata"]["name"]: node_of(each) for each in pods}
    assert where["client"] == where["cache"]
    assert where["lonely"] != where["cache"]
