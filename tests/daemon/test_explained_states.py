"""For each state that a pod can be in: the daemon is driven there, and says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from e2e.harness.ports import free_port
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.model.status import Code, Status
from scheduler.plugins.table import IN_TREE
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    POLL_SECONDS,
    WAIT_SECONDS,
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)
from tests.daemon.test_endpoints import fetch_json, serving
from tests.daemon.test_leadership import leads
from tests.daemon.test_preemption import leaving, low, prepare, vip
from tests.daemon.test_webhooks import ELECTION
from tests.gangs.support import make_group, member
from tests.operators.support import Groups
from tests.webhooks.support import NAME, WebhookServer, webhook


async def explained(replica: Replica, name: str) -> Any:
    return await fetch_json(replica, f"/api/v1/explain?pod=default/{name}")


async def posted(replica: Replica, manifest: Json, query: str = "") -> tuple[int, Any]:
    server = replica.daemon.server
    assert server is not None
    url = f"{server.url}/api/v1/explain{query}"
    async with aiohttp.ClientSession() as session, session.post(url, json=manifest) as answer:
        return answer.status, await answer.json()


async def once(
    replica: Replica, name: str, condition: Callable[[Any], bool], what: str = ""
) -> Any:
    """The explanation of a pod, as soon as it meets a condition."""
    await eventually(lambda: f"default/{name}" in replica.daemon.pods(), "the pod is known")
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition(answer := await explained(replica, name)):  # noqa: ASYNC110  because glances at a server have no event
                await asyncio.sleep(POLL_SECONDS)
            return answer
    except TimeoutError:
        raise AssertionError(f"never happened: {what}: {answer['standing']}") from None


async def in_state(replica: Replica, name: str, state: str) -> Any:
    """The explanation of a pod, as soon as it is in a state."""
    return await once(replica, name, lambda said: said["standing"]["state"] == state, state)


async def test_gated_names_the_gates_and_what_removes_them(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").gate("example.com/a").gate("example.com/b"))
        standing = (await in_state(replica, "p", "gated"))["standing"]
        assert standing["waitsFor"] == [
            "gate example.com/a to be removed",
            "gate example.com/b to be removed",
        ]
        assert standing["attempts"] == 0
        assert standing["lastTriedSeconds"] is None
        (wake,) = standing["wakes"]
        assert wake["message"] == "this Pod's scheduling gates are removed"
        assert (await explained(replica, "p"))["history"] == []
        cluster.change_pod("p", lambda pod: pod["spec"].pop("schedulingGates"))
        await expect_bound(cluster, "p")


async def test_unschedulable_says_what_wakes_it_and_its_history(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("100"))
        message = await expect_pending(cluster, replica, "p")
        answer = await explained(replica, "p")
        standing = answer["standing"]
        assert standing["state"] == "unschedulable"
        assert standing["attempts"] == 1
        assert 0 <= standing["lastTriedSeconds"] <= time.time() - standing["since"] + 1
        (wake,) = standing["wakes"]
        assert wake == {
            "plugin": "NodeResourcesFit",
            "events": [
                "a Pod is deleted or scaled down",
                "a Node is added or its allocatable changes",
                "a DeviceClass is added or it changes",
            ],
            "message": "; ".join(wake["events"]),
        }
        assert [(each["message"], each["count"]) for each in answer["history"]] == [(message, 1)]
        assert answer["comparison"] is None
        cluster.add(make_worker("large").cpu("200"))
        await expect_bound(cluster, "p")
        history = (await in_state(replica, "p", "bound"))["history"]
        assert [each["node"] for each in history] == ["", "large"]
        cluster.delete_pod("p")
        kept = replica.daemon.core.decisions.history
        await eventually(lambda: kept.usage().entries == 0, "its history goes with it")


async def test_a_bound_pod_is_compared_as_if_it_were_placed_now(cluster: Cluster) -> None:
    cluster.add(make_worker("a"), make_worker("b"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("1"))
        await expect_bound(cluster, "p")
        answer = await in_state(replica, "p", "bound")
        said = answer["comparison"]
        assert said["message"].startswith("if scheduled now: 1 other node has the same")
        assert {said["node"], said["runnerUp"]} == {"a", "b"}
        assert answer["boundTo"] == said["node"] == cluster.node_of("p")


async def test_nominated_says_whom_it_waits_for(cluster: Cluster) -> None:
    prepare(cluster)
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(low("a"), low("b"))
        await expect_bound(cluster, "a", "b")
        cluster.submit(vip())
        await eventually(lambda: leaving(cluster, "a") and leaving(cluster, "b"), "victims leave")
        wanted = {f"pod default/{name} to leave n: it is terminating" for name in ("a", "b")}
        answer = await once(
            replica, "vip", lambda said: set(said["standing"]["waitsFor"]) == wanted, "victims"
        )
        assert answer["nominated"] == "n"
        assert answer["node"] is None
        cluster.delete_pod("a")
        cluster.delete_pod("b")
        await expect_bound(cluster, "vip")


class Holding:
    """Has every pod wait for a minute."""

    name = "Holding"

    def __init__(self, args: object, handle: object) -> None: ...

    def permit(self, cycle: Any, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


REGISTRY: Registry = {**IN_TREE, Holding.name: Holding}


def with_plugin(name: str, registry: Registry = IN_TREE, **own: Any) -> Configuration:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}
    own = {"server": {"port": free_port()}, **own}
    return configuration(kube={"profiles": [profile]}, own=own, registry=registry)


async def test_permit_names_plugin_age_and_time_out(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    config = with_plugin(Holding.name, REGISTRY)
    async with running_daemon(cluster, config, registry=REGISTRY) as replica:
        before = time.time()
        cluster.submit(make_pod("p"))
        standing = (await in_state(replica, "p", "permit"))["standing"]
        (wait,) = standing["permit"]
        assert wait["plugin"] == "Holding"
        assert before - 1 <= standing["since"] <= time.time()
        assert wait["seconds"] + wait["timeoutSeconds"] == pytest.approx(60, abs=0.1)
        assert (standing["node"], standing["attempts"]) == ("n", 1)
        (entry,) = (await fetch_json(replica, "/api/v1/waiting"))["pods"]
        assert (entry["pod"], entry["node"], entry["plugins"]) == ("default/p", "n", ["Holding"])
        assert [each["plugin"] for each in entry["permit"]] == ["Holding"]
        assert entry["timeoutSeconds"] == entry["permit"][0]["timeoutSeconds"]
        for holder in replica.daemon.core.permits.holders(cluster.pod("p")["metadata"]["uid"]):
            holder.allow("Holding")
        await expect_bound(cluster, "p")


async def test_binding_says_so(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            standing = (await explained(replica, "p"))["standing"]
            assert (standing["state"], standing["node"]) == ("binding", "n")
            assert (standing["attempts"], standing["permit"]) == (1, [])
        await expect_bound(cluster, "p")


async def test_suspended_names_the_webhook_without_waiting_for_it(cluster: Cluster) -> None:
    async with WebhookServer() as server:
        server.open.clear()
        cluster.add(make_worker("n"))
        hook = webhook(server, "filter", timeout="60s")
        async with running_daemon(cluster, with_plugin(NAME, webhooks=[hook])) as replica:
            cluster.submit(make_pod("p"))
            answer = await in_state(replica, "p", "suspended")
            standing = answer["standing"]
            assert standing["plugins"] == [NAME]
            assert standing["waitsFor"] == [f"the answer of {NAME}"]
            assert standing["since"] <= time.time()
            assert answer["node"] is None
            assert NAME in answer["message"]
            queued = await fetch_json(replica, "/api/v1/queue?tier=suspended")
            assert [entry["pod"] for entry in queued["pods"]] == ["default/p"]
            server.open.set()
            await expect_bound(cluster, "p")


async def test_backing_off_says_for_how_long(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    kube = {"podInitialBackoffSeconds": 60, "podMaxBackoffSeconds": 60}
    config = configuration(kube=kube, own={"server": {"port": free_port()}})
    async with running_daemon(cluster, config) as replica:
        cluster.faults.fail("POST", BINDING, status=422)
        cluster.submit(make_pod("p"))
        standing = (await in_state(replica, "p", "error-backoff"))["standing"]
        assert 0 < standing["retrySeconds"] <= 61
        assert standing["attempts"] == 1
        assert standing["wakes"] == []
        cluster.delete_pod("p")
        await replica.settled()


async def test_a_gang_has_its_own_verdict_and_says_who_is_missing(cluster: Cluster) -> None:
    groups = Groups(cluster)
    groups.define()
    groups.create(make_group("g", 3))
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, with_plugin("Coscheduling")) as replica:
        cluster.submit(member("a", cpu="2"), member("b", cpu="2"))
        await eventually(lambda: len(replica.daemon.core.queue) == 2, "both members wait")
        answer = await in_state(replica, "a", "gated")
        assert answer["standing"]["message"] == "pod group default/g: 2 of 3 members exist"
        assert answer["standing"]["waitsFor"] == ["1 more member of pod group default/g"]
        assert (answer["group"]["existing"], answer["group"]["missing"]) == (2, 1)
        events = [event for wake in answer["standing"]["wakes"] for event in wake["events"]]
        assert any("a member of pod group default/g is added" in event for event in events)
        cluster.submit(member("c", cpu="2"))
        await expect_pending(cluster, replica, "a")
        answer = await in_state(replica, "a", "group")
        verdict = answer["standing"]["message"]
        assert verdict.startswith("pod group default/g: 2 of 3 members can be placed; default/")
        assert "Insufficient cpu" in verdict
        assert (answer["node"], answer["wouldGoTo"]) == (None, "n")
        assert {each["pod"] for each in answer["group"]["members"]} == {
            f"default/{name}" for name in "abc"
        }
        assert {each["state"] for each in answer["group"]["members"]} == {"waiting"}


async def test_another_schedulers_pod_and_a_standby_say_so(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    kube = {"leaderElection": ELECTION}
    one = configuration(kube=kube, own={"server": {"port": free_port()}})
    two = configuration(kube=kube, own={"server": {"port": free_port()}})
    async with running_daemon(cluster, one) as first, running_daemon(cluster, two) as second:
        await eventually(lambda: leads(first) != leads(second), "one of them leads")
        leader, standby = (first, second) if leads(first) else (second, first)
        cluster.submit(make_pod("theirs").scheduler("default-scheduler"), make_pod("p").cpu("99"))
        answer = await in_state(leader, "theirs", "other-scheduler")
        assert "default-scheduler" in answer["standing"]["message"]
        assert answer["replica"]["leading"]
        await expect_pending(cluster, leader, "p")
        answer = await in_state(standby, "p", "standby")
        assert not answer["replica"]["leading"]
        assert answer["standing"]["wakes"] == []


async def test_a_manifest_is_judged_without_a_pod_and_nothing_is_left_behind(
    cluster: Cluster,
) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        revision = cluster.revision
        status, answer = await posted(replica, make_pod("new").cpu("1").obj())
        assert (status, answer["node"], answer["standing"]["state"]) == (200, "n", "new")
        _, answer = await posted(replica, make_pod("big").cpu("100").obj())
        assert answer["node"] is None
        assert answer["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        _, answer = await posted(replica, make_pod("held").gate("example.com/a").obj())
        assert (answer["node"], answer["wouldGoTo"]) == (None, "n")
        assert answer["standing"]["waitsFor"] == ["gate example.com/a to be removed"]
        _, answer = await posted(replica, make_pod("x").scheduler("default-scheduler").obj())
        assert answer["standing"]["state"] == "other-scheduler"
        assert cluster.revision == revision
        assert replica.daemon.core.state.pod_count == 0


async def test_a_manifest_takes_the_place_of_the_pod_of_its_name(cluster: Cluster) -> None:
    cluster.add(make_worker("n").cpu("4"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("3"))
        await expect_bound(cluster, "p")
        assert (await posted(replica, make_pod("p").cpu("4").obj()))[1]["node"] == "n"
        assert (await posted(replica, make_pod("q").cpu("4").obj()))[1]["node"] is None


async def test_how_many_like_it_fit_together(cluster: Cluster) -> None:
    cluster.add(make_worker("n").cpu("4"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("1"))
        await expect_bound(cluster, "p")
        status, answer = await posted(replica, make_pod("q").cpu("1").obj(), "?count=5")
        assert status == 200
        assert (answer["replicas"]["asked"], answer["replicas"]["fit"]) == (5, 3)
        answer = await fetch_json(replica, "/api/v1/explain?pod=default/p&count=9")
        assert answer["replicas"]["fit"] == 4, "the pod itself counts as one that waits"
        assert (await explained(replica, "p"))["replicas"] is None
