"""Pods that wait for permission: seen by all, and decided about by those who may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from click.testing import CliRunner

from e2e.harness.ports import free_port
from scheduler.cli.main import cli
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.plugins.table import IN_TREE
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
)
from tests.daemon.test_leadership import leads
from tests.daemon.test_webhooks import ELECTION
from tests.webhooks.support import NAME, WebhookServer, webhook

RESOURCE = "waitingpods.equipoise.dev"


class Holding:
    """Has pods with a label wait for a minute."""

    name = "Holding"

    def __init__(self, args: object, handle: object) -> None: ...

    def permit(self, cycle: Any, node: str) -> tuple[Status, float]:
        held = "hold" in cycle.pod.pod.metadata.labels
        return (Status(Code.WAIT), 60.0) if held else (SUCCESS, 0.0)


class Preparing:
    """Prepares nodes for pods with a label, when ``ready`` is set."""

    name = "Preparing"
    ready: asyncio.Event

    def __init__(self, args: object, handle: object) -> None: ...

    def pre_bind_pre_flight(self, cycle: Any, node: str) -> Status:
        return SUCCESS if "prepare" in cycle.pod.pod.metadata.labels else SKIP

    async def pre_bind(self, cycle: Any, node: str) -> Status:
        if "prepare" in cycle.pod.pod.metadata.labels:
            await self.ready.wait()
        return SUCCESS


REGISTRY: Registry = {**IN_TREE, Holding.name: Holding, Preparing.name: Preparing}


def holding(protection: str = "always", election: Json | None = None) -> Configuration:
    enabled = [{"name": Holding.name}, {"name": Preparing.name}]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    kube: Json = {"profiles": [profile]}
    if election is not None:
        kube["leaderElection"] = election
    server = {"port": free_port(), "protection": protection}
    return configuration(kube=kube, own={"server": server}, registry=REGISTRY)


def letting(cluster: Cluster) -> None:
    """Alice may approve, Bob may look, and Carol may reject elsewhere."""
    reviews = cluster.server.reviews
    for name in ("alice", "bob", "carol"):
        reviews.add_user(name, name, "people")
    reviews.allow("people", "get", "/api/v1/*")
    reviews.grant("alice", "approve", RESOURCE, "default")
    reviews.grant("alice", "reject", RESOURCE, "default")
    reviews.grant("carol", "reject", RESOURCE, "other")


async def call(
    replica: Replica, method: str, path: str, token: str = "", **headers: str
) -> tuple[int, Json]:
    server = replica.daemon.server
    assert server is not None
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, server.url + path, headers=headers, ssl=False) as answer,
    ):
        return answer.status, await answer.json()


async def held(cluster: Cluster, name: str) -> None:
    """Submit a pod, and return when its status says that it waits."""
    cluster.submit(make_pod(name).label(hold="yes"))
    await eventually(
        lambda: cluster.condition(name).get("reason") == "WaitingOnPermit", "it is said to wait"
    )


async def test_a_waiting_pod_says_where_it_goes_and_whom_it_waits_for(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, holding("auto"), registry=REGISTRY) as replica:
        await held(cluster, "p")
        assert cluster.pod("p")["status"]["nominatedNodeName"] == "n1"
        condition = cluster.condition("p")
        assert condition["status"] == "False"
        assert condition["message"].startswith("waiting on permit for node n1 since 2")
        assert ": Holding until 2" in condition["message"]
        revision = cluster.revision
        _, answer = await call(replica, "GET", "/api/v1/queue")
        (entry,) = answer["pods"]
        assert answer["counts"]["waiting-on-permit"] == 1
        assert (entry["tier"], entry["node"]) == ("waiting-on-permit", "n1")
        assert entry["plugins"] == ["Holding"]
        assert entry["attempts"] == 1
        assert 0 < entry["timeoutSeconds"] <= 60
        _, answer = await call(replica, "GET", "/api/v1/waiting")
        assert [each["pod"] for each in answer["pods"]] == ["default/p"]
        assert replica.sample("equipoise_waiting_pods", held_by="plugins") == 1
        assert cluster.revision == revision, "it is said once"
        replica.daemon.core.frameworks["equipoise"].waiting[uid(cluster, "p")].allow("Holding")
        await expect_bound(cluster, "p")
        assert "nominatedNodeName" not in cluster.pod("p")["status"]


async def test_an_ordinary_pod_costs_no_write_of_its_status(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, holding("auto"), registry=REGISTRY) as replica:
        cluster.submit(make_pod("p"))
        await expect_bound(cluster, "p")
        assert replica.requests("PATCH", 200) == 0


async def test_a_pod_whose_node_is_being_prepared_says_where_it_goes(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    Preparing.ready = asyncio.Event()
    async with running_daemon(cluster, holding("auto"), registry=REGISTRY) as replica:
        cluster.submit(make_pod("p").label(prepare="yes"))
        await eventually(lambda: cluster.pod("p")["status"].get("nominatedNodeName") == "n1")
        assert cluster.condition("p") == {}, "it waits for nobody's permission"
        assert replica.daemon.core.permits.entries() == []
        Preparing.ready.set()
        await expect_bound(cluster, "p")


async def test_what_was_said_is_taken_back_when_the_pod_is_rejected(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with running_daemon(cluster, holding(), registry=REGISTRY) as replica:
        await held(cluster, "p")
        path = "/api/v1/waiting/default/p/reject?reason=not%20today"
        status, answer = await call(replica, "POST", path, "alice")
        assert (status, answer["decision"], answer["plugins"]) == (200, "reject", ["Holding"])
        text = "permit was rejected by alice: not today"
        await eventually(lambda: cluster.condition("p").get("message") == text)
        await eventually(lambda: "nominatedNodeName" not in cluster.pod("p")["status"])
        assert cluster.condition("p")["reason"] == "Unschedulable"
        assert replica.sample("equipoise_permit_decisions_total", decision="reject") == 1
        await replica.settled()
        entry = replica.queued("p")
        assert entry is not None
        assert (entry.tier, entry.attempts) == ("unschedulable", 1), "our own words wake nobody"
        await removed(cluster, replica, "p")


async def test_somebody_who_may_approves(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with running_daemon(cluster, holding(), registry=REGISTRY) as replica:
        await held(cluster, "p")
        path = "/api/v1/waiting/default/p/approve"
        assert (await call(replica, "POST", path))[0] == 401
        assert (await call(replica, "POST", path, "nobody"))[0] == 401
        for token in ("bob", "carol"):
            status, answer = await call(replica, "POST", path, token)
            assert status == 403
            assert f'"{token}" cannot approve resource "waitingpods"' in answer["error"]["message"]
        assert (await call(replica, "POST", path, "alice", Origin="https://x"))[0] == 403
        assert (await call(replica, "POST", f"{path}?uid=other", "alice"))[0] == 404
        assert (await call(replica, "POST", f"{path}?plugin=Other", "alice"))[0] == 409
        assert (await call(replica, "POST", f"{path}?reason={'x' * 257}", "alice"))[0] == 400
        assert (await call(replica, "GET", path, "alice"))[0] == 405
        assert cluster.bound() == {}
        status, answer = await call(replica, "POST", f"{path}?plugin=Holding", "alice")
        assert (status, answer["node"], answer["stillWaitingFor"]) == (200, "n1", [])
        await expect_bound(cluster, "p")
        assert (await call(replica, "POST", path, "alice"))[0] == 404


async def test_nobody_decides_where_callers_are_not_known(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, holding("auto"), registry=REGISTRY) as replica:
        await held(cluster, "p")
        status, answer = await call(replica, "POST", "/api/v1/waiting/default/p/approve")
        assert status == 403
        assert "server.protection" in answer["error"]["message"]
        await removed(cluster, replica, "p")


async def test_an_old_yes_will_not_do_for_a_decision(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with running_daemon(cluster, holding(), registry=REGISTRY) as replica:
        await held(cluster, "p")
        assert (await call(replica, "GET", "/api/v1/waiting", "alice"))[0] == 200
        host, port = cluster.server.host, cluster.server.port
        await cluster.server.stop()
        path = "/api/v1/waiting/default/p/approve"
        assert (await call(replica, "POST", path, "alice"))[0] == 503
        assert (await call(replica, "GET", "/api/v1/waiting", "alice"))[0] == 200
        await cluster.server.start(host, port)
        await removed(cluster, replica, "p")


async def test_a_standby_names_the_leader(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with (
        running_daemon(cluster, holding(election=ELECTION), registry=REGISTRY) as first,
        running_daemon(cluster, holding(election=ELECTION), registry=REGISTRY) as second,
    ):
        await eventually(lambda: leads(first) or leads(second))
        leader, standby = (first, second) if leads(first) else (second, first)
        await held(cluster, "p")
        status, answer = await call(standby, "POST", "/api/v1/waiting/default/p/approve", "alice")
        assert status == 503
        assert "is a standby: the leader is " in answer["error"]["message"]
        result = await command(standby, leader, "approve", "p", "--reason", "because")
        assert result == "default/p approved for Holding on node n1\n"
        await expect_bound(cluster, "p")


async def command(*arguments: Replica | str) -> str:
    """The output of a command with the addresses of some replicas."""
    replicas = [each for each in arguments if isinstance(each, Replica)]
    words = [each for each in arguments if isinstance(each, str)]
    servers = [
        word
        for each in replicas
        if each.daemon.server
        for word in ("--server", each.daemon.server.url)
    ]
    runner = CliRunner()
    options = [*words, *servers, "--token", "alice", "--insecure-skip-tls-verify"]
    result = await asyncio.to_thread(runner.invoke, cli, options)
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_the_commands_list_and_reject(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with running_daemon(cluster, holding(), registry=REGISTRY) as replica:
        await held(cluster, "p")
        lines = (await command(replica, "queue", "--each")).splitlines()
        assert lines[0].split()[4:7] == ["NODE", "TIME", "LEFT"]
        assert lines[1].split()[:2] == ["default/p", "waiting-on-permit"]
        assert "Holding" in lines[1]
        assert lines[-1] == "1 waiting: 1 waiting-on-permit"
        said = json.loads(
            await command(replica, "reject", "p", "--plugin", "Holding", "-o", "json")
        )
        assert said["decision"] == "reject"
        await eventually(lambda: cluster.condition("p").get("reason") == "Unschedulable")
        await removed(cluster, replica, "p")


async def test_a_webhook_that_says_wait_can_be_approved_for(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    letting(cluster)
    async with WebhookServer() as server:
        server.answers["permit"] = {"code": "Wait", "timeoutSeconds": 60, "retryAfterSeconds": 30}
        profile = {"plugins": {"multiPoint": {"enabled": [{"name": NAME}]}}}
        own = {
            "webhooks": [webhook(server, "permit")],
            "server": {"port": free_port(), "protection": "always"},
        }
        config = configuration(kube={"profiles": [profile]}, own=own)
        async with running_daemon(cluster, config) as replica:
            await held(cluster, "p")
            assert cluster.pod("p")["status"]["nominatedNodeName"] == "n1"
            assert replica.sample("equipoise_waiting_pods", held_by="outside") == 1
            path = f"/api/v1/waiting/default/p/approve?plugin={NAME}"
            assert (await call(replica, "POST", path, "alice"))[0] == 200
            await expect_bound(cluster, "p")
            assert server.paths() == ["permit"]


async def test_pods_at_the_gate_and_pods_that_wait_for_answers_are_listed(cluster: Cluster) -> None:
    cluster.add(make_worker("n1"))
    async with WebhookServer() as server:
        server.answers["pre-enqueue"] = {"code": "Unschedulable", "reasons": ["not yet"]}
        profile = {"plugins": {"multiPoint": {"enabled": [{"name": NAME}, {"name": "Other"}]}}}
        gate = webhook(
            server, "preEnqueue", pods={"namespaces": [], "matchLabels": {"gate": "yes"}}
        )
        judge = {**webhook(server, "filter", timeout="60s"), "name": "Other"}
        own = {"webhooks": [gate, judge], "server": {"port": free_port()}}
        config = configuration(kube={"profiles": [profile]}, own=own)
        async with running_daemon(cluster, config) as replica:
            cluster.submit(make_pod("gated").label(gate="yes"))
            await eventually(lambda: "not yet" in said(replica, "gated"), "the gate's answer")
            assert server.paths() == ["pre-enqueue"]
            server.open.clear()
            cluster.submit(make_pod("asking"))
            await eventually(lambda: server.present == 1)
            _, answer = await call(replica, "GET", "/api/v1/queue")
            shown = {each["pod"]: each for each in answer["pods"]}
            assert shown["default/asking"]["tier"] == "suspended"
            assert shown["default/asking"]["plugins"] == ["Other"]
            assert shown["default/gated"]["tier"] == "gated"
            assert shown["default/gated"]["plugins"] == [NAME]
            assert "not yet" in shown["default/gated"]["message"]
            server.open.set()
            await expect_bound(cluster, "asking")


async def removed(cluster: Cluster, replica: Replica, name: str) -> None:
    """Delete a pod that may wait for permission again, and return when no task binds it."""
    cluster.delete_pod(name)
    core = replica.daemon.core
    await eventually(lambda: not len(core.bindings) and not len(core.queue), "it is gone")


def said(replica: Replica, name: str) -> str:
    """What the queue says of a pod."""
    entry = replica.queued(name)
    return "" if entry is None else entry.message


def uid(cluster: Cluster, name: str) -> str:
    return str(cluster.pod(name)["metadata"]["uid"])
