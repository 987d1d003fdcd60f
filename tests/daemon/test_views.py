"""What a running daemon shows the page: overview, nodes, classes, gangs, and what is new."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from e2e.harness.ports import free_port
from scheduler.config.loading import Configuration
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from scheduler.views.pod_manifest import pod_manifest
from tests.builders import make_node, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)
from tests.daemon.test_endpoints import fetch, fetch_json
from tests.gangs.support import make_group, member
from tests.operators.support import Groups
from tests.patience import PATIENCE


def serving(*plugins: str, **own: Any) -> Configuration:
    enabled = [{"name": name} for name in plugins]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    sections = {"server": {"port": free_port()}, **own}
    return configuration(kube={"profiles": [profile]}, own=sections)


async def refused(replica: Replica, path: str) -> str:
    status, text = await fetch(replica, path)
    assert 400 <= status < 500
    return f"{status} {msgspec.json.decode(text)['error']['message']}"


async def test_the_overview_counts_and_names_what_fails_most(cluster: Cluster) -> None:
    cluster.add(make_worker("n1").cpu("4"), make_worker("n2").cpu("4").taint("dedicated"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("small").cpu("1"))
        for name in ("large", "larger"):
            cluster.submit(make_pod(name).cpu("100"))
        cluster.submit(make_pod("held").gate("example.com/a"))
        await expect_bound(cluster, "small")
        for name in ("large", "larger"):
            await expect_pending(cluster, replica, name)
        await eventually(lambda: replica.queued("held") is not None, "the gated one is seen")
        await replica.settled()
        replica.daemon._samples.take()
        shown = await fetch_json(replica, "/api/v1/overview")
    assert (shown["nodes"], shown["pods"]) == (2, {"bound": 1, "pending": 3})
    assert (shown["tiers"]["unschedulable"], shown["tiers"]["gated"]) == (2, 1)
    assert shown["leader"]
    assert shown["profiles"] == ["equipoise"]
    assert {len(shown["series"][name]) for name in ("time", "bound", "p99")} == {
        len(shown["series"]["tiers"]["gated"])
    }
    assert sum(shown["series"]["attempts"]) > 0
    failing = {each["reason"]: each for each in shown["failing"]}
    assert failing["Insufficient cpu"] == {
        "plugin": "NodeResourcesFit",
        "reason": "Insufficient cpu",
        "pods": 2,
        "classes": 1,
    }
    assert failing["node(s) had untolerated taint(s)"]["plugin"] == "TaintToleration"
    gated = [each for each in shown["failing"] if each["plugin"] == "SchedulingGates"]
    assert [each["pods"] for each in gated] == [1]


async def test_the_map_has_columns_of_one_resource(cluster: Cluster) -> None:
    zone = {"topology.kubernetes.io/zone": "z1"}
    cluster.add(
        make_node("b").cpu("8").memory("1Gi").offer("example.com/gpu", 2),
        make_worker("a").cpu("4").label(**zone).taint("dedicated"),
    )
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("3").on("b"))
        await eventually(lambda: replica.daemon.core.state.pod_count == 1, "it is seen")
        shown = await fetch_json(replica, "/api/v1/nodes?view=map")
        gpus = await fetch_json(replica, "/api/v1/nodes?view=map&resource=example.com/gpu")
        pods = await fetch_json(replica, "/api/v1/nodes?view=map&resource=pods&limit=1")
        unknown = await refused(replica, "/api/v1/nodes?view=map&resource=cp")
        no_map = await refused(replica, "/api/v1/nodes?resource=cpu")
        odd = await refused(replica, "/api/v1/nodes?view=chart")
    nodes = shown["nodes"]
    assert (nodes["name"], nodes["zone"]) == (["a", "b"], ["z1", ""])
    assert nodes["capacity"] == {"cpu": [4000, 8000]}
    assert nodes["requested"] == {"cpu": [0, 3000]}
    assert (nodes["pods"], nodes["taints"], nodes["unschedulable"]) == (
        *([0, 1], [1, 0]),
        [False, False],
    )
    assert nodes["cells"] is None
    assert gpus["nodes"]["capacity"] == {"example.com/gpu": [0, 2]}
    assert shown["resources"][-1] == "pods"
    assert (pods["count"], pods["nodes"]["name"]) == (2, ["a"])
    assert unknown.startswith("404 no node offers 'cp'; there are cpu")
    assert no_map.startswith("400 resource needs view=map")
    assert odd.startswith("400 view must be one of list, map")


async def test_a_node_is_shown_with_its_pods(cluster: Cluster) -> None:
    cluster.add(make_worker("n1").cpu("4").label(disk="ssd"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(
            make_pod("low").cpu("1"),
            make_pod("high").cpu("2").spec(priorityClassName="system-node-critical"),
        )
        await expect_bound(cluster, "low", "high")
        shown = await fetch_json(replica, "/api/v1/node?name=n1")
        unknown = await refused(replica, "/api/v1/node?name=n2")
        unnamed = await refused(replica, "/api/v1/node")
    assert (shown["requested"]["cpu"], shown["allocatable"]["cpu"]) == (3000, 4000)
    assert [each["pod"] for each in shown["podsOnNode"]] == ["default/high", "default/low"]
    assert shown["podsOnNode"][0]["requests"]["cpu"] == 2000
    assert shown["labels"]["disk"] == "ssd"
    assert (shown["numa"], shown["devices"]) == (None, [])
    assert unknown == "404 unknown node: n2"
    assert unnamed == "400 name must be given"


async def test_classes_have_hit_rates_by_plugin(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"), make_worker("n2"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(*(make_pod(f"p{i}").cpu("1m") for i in range(4)))
        await expect_bound(cluster, "p0", "p1", "p2", "p3")
        shown = await fetch_json(replica, "/api/v1/classes")
    assert shown["enabled"]
    assert shown["classes"][0]["pods"] == 4
    hits = {(each["plugin"], each["point"]): each for each in shown["plugins"]}
    fit = hits["NodeResourcesFit", "filter"]
    assert 0 < fit["misses"] <= fit["needed"] == 4 * 2
    assert sum(each["hits"] for each in shown["plugins"]) == shown["hits"]
    assert sum(each["misses"] for each in shown["plugins"]) == shown["misses"]


async def test_without_the_cache_no_classes_are_shown(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, serving(equivalence={"enabled": False})) as replica:
        shown = await fetch_json(replica, "/api/v1/classes")
    assert (shown["enabled"], shown["classes"]) == (False, [])


async def test_gangs_say_what_they_wait_for(cluster: Cluster) -> None:
    groups = Groups(cluster)
    groups.define()
    for name, least in (("few", 3), ("large", 1), ("placed", 1)):
        groups.create(make_group(name, least))
    cluster.add(make_worker("n1").cpu("4"))
    async with running_daemon(cluster, serving("Coscheduling")) as replica:
        cluster.submit(member("one", "few"), member("huge", "large").cpu("100"))
        cluster.submit(member("fits", "placed"))
        await expect_bound(cluster, "fits")
        await expect_pending(cluster, replica, "huge")
        shown = await fetch_json(replica, "/api/v1/groups")
        first = await fetch_json(replica, "/api/v1/groups?limit=1")
    gangs = {each["name"]: each for each in shown["groups"]}
    assert gangs["default/few"]["message"] == "2 of 3 members do not exist yet"
    assert "Insufficient cpu" in gangs["default/large"]["message"]
    assert (gangs["default/placed"]["message"], gangs["default/placed"]["placed"]) == ("", 1)
    assert shown["groups"][-1]["name"] == "default/placed", "what is not placed comes first"
    assert (shown["enabled"], shown["batching"], shown["batches"]) == (True, False, [])
    assert (first["count"], len(first["groups"])) == (3, 1)


async def test_batches_are_reported(cluster: Cluster) -> None:
    cluster.add(make_worker("n1").cpu("8"), make_worker("n2").cpu("8"))
    cluster.submit(*(make_pod(f"p{i}").cpu("1") for i in range(8)))
    batch = {"enabled": True, "minPending": 2}
    async with running_daemon(cluster, serving(batch=batch)) as replica:
        await expect_bound(cluster, *(f"p{i}" for i in range(8)))
        shown = await fetch_json(replica, "/api/v1/groups")
    assert shown["batching"]
    assert sum(each["pods"] for each in shown["batches"]) == 8
    assert all(each["secondsAgo"] >= 0 for each in shown["batches"])


async def test_the_stream_tells_of_decisions(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, serving()) as replica:
        server = replica.daemon.server
        assert server is not None
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession() as session,
            session.get(f"{server.url}/api/v1/stream") as stream,
        ):
            assert b"overview" in await stream.content.readline()
            cluster.submit(make_pod("p"))
            while b"event: decision" not in await stream.content.readline():
                pass
            assert (await stream.content.readline()).startswith(b"id: ")
            told = (await stream.content.readline()).removeprefix(b"data: ")
            assert msgspec.json.decode(told)["pod"] == "default/p"


async def test_a_pod_is_shown_as_a_manifest_that_can_be_explained(cluster: Cluster) -> None:
    cluster.add(make_worker("n1").cpu("4"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("small").cpu("1").label(app="web"))
        await expect_bound(cluster, "small")
        shown = await fetch_json(replica, "/api/v1/pod?pod=default/small")
        unknown = await refused(replica, "/api/v1/pod?pod=default/none")
        unnamed = await refused(replica, "/api/v1/pod")
        manifest = shown["manifest"]
        server = replica.daemon.server
        assert server is not None
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/api/v1/explain", json=manifest) as response,
        ):
            explained = await response.json()
    assert (shown["pod"], shown["owner"]) == ("default/small", "")
    assert manifest["metadata"]["labels"] == {"app": "web"}
    assert manifest["metadata"].keys() == {"name", "namespace", "labels"}
    assert "nodeName" not in manifest["spec"]
    assert explained["node"] == "n1"
    assert unknown == "404 unknown pod: default/none"
    assert unnamed.startswith("400 pod must be given as namespace/name")


@pytest.mark.parametrize(
    ("kind", "name", "labels", "owner"),
    [
        ("ReplicaSet", "web-7f9c", {"pod-template-hash": "7f9c"}, "Deployment/web"),
        ("ReplicaSet", "web-7f9c", {"pod-template-hash": "other"}, "ReplicaSet/web-7f9c"),
        ("ReplicaSet", "web", {}, "ReplicaSet/web"),
        ("StatefulSet", "db-0", {"pod-template-hash": "0"}, "StatefulSet/db-0"),
    ],
)
def test_whose_template_a_pod_is_made_from(
    kind: str, name: str, labels: dict[str, str], owner: str
) -> None:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u"}
    references = [{**reference, "name": "other"}, {**reference, "controller": True}]
    metadata = {"name": "p", "namespace": "n", "labels": labels, "ownerReferences": references}
    assert pod_manifest(from_dict({"metadata": metadata}, Pod))["owner"] == owner
