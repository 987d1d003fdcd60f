"""What the running daemon serves over HTTP."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.harness.ports import free_port
from scheduler.config.loading import Configuration
from shipping.queries import rules
from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    WAIT_SECONDS,
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
    starting_daemon,
)
from tests.daemon.test_webhooks import ELECTION

STABLE = {
    "scheduler_pending_pods",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_preemption_attempts",
    "scheduler_preemption_victims",
    "scheduler_queue_incoming_pods",
    "scheduler_schedule_attempts",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
}


REPEATED = {
    "equipoise_watch_restarts_total",
    "rest_client_requests_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_resourceclaim_creates_total",
}
"""What failed here is tried again, so that further increases follow."""


def serving() -> Configuration:
    return configuration(own={"server": {"port": free_port()}})


async def fetch(replica: Replica, path: str) -> tuple[int, str]:
    server = replica.daemon.server
    assert server is not None
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as answer:
        return answer.status, await answer.text()


async def fetch_json(replica: Replica, path: str) -> Any:
    status, text = await fetch(replica, path)
    assert status == 200, text
    return msgspec.json.decode(text)


async def samples(replica: Replica) -> dict[tuple[str, tuple[str, ...]], float]:
    """All samples of /metrics by name and sorted label values."""
    _, text = await fetch(replica, "/metrics")
    families = list(text_string_to_metric_families(text))
    assert {family.name for family in families} >= STABLE
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in families
        for sample in family.samples
    }


async def test_ready_is_said_after_the_first_sync_and_until_the_stop(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    with cluster.faults.hold("GET", r"/nodes$") as held:
        async with starting_daemon(cluster, serving()) as replica:
            await held.reached()
            assert (await fetch(replica, "/readyz"))[0] == 500
            assert "Node" in (await fetch(replica, "/readyz/informer-sync"))[1]
            assert (await fetch(replica, "/livez"))[0] == 200
            held.release()
            await replica.daemon.until_synced()
            assert await fetch(replica, "/readyz") == (200, "ok")
            with cluster.faults.hold("POST", BINDING) as binding:
                cluster.submit(make_pod("p"))
                await binding.reached()
                replica.daemon.stop()
                assert (await fetch(replica, "/readyz"))[0] == 500
                assert (await fetch(replica, "/readyz/shutdown"))[1].strip().endswith("stopping")
                assert (await fetch(replica, "/livez"))[0] == 200
            assert await replica.task == 0
    assert cluster.node_of("p") == "n", "a binding that is under way is finished"


async def test_a_replica_that_hears_nothing_of_a_kind_is_not_ready_and_says_which(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        assert await fetch(replica, "/readyz") == (200, "ok")
        monkeypatch.setattr("scheduler.app.STALE_SECONDS", -1.0)
        assert (await fetch(replica, "/readyz"))[0] == 500
        said = (await fetch(replica, "/readyz/watch-freshness"))[1]
        assert "nothing heard of" in said
        assert "Pod for" in said
        assert (await fetch(replica, "/livez"))[0] == 200
        monkeypatch.setattr("scheduler.app.STALE_SECONDS", 180.0)
        assert await fetch(replica, "/readyz") == (200, "ok")
        found = await samples(replica)
        assert 0 <= found["equipoise_watch_age_seconds", ("Pod",)] < 180


async def test_counters_begin_at_zero_whose_increase_alerts_look_for(cluster: Cluster) -> None:
    """A series that begins with 1 has no increase, so the first fault would cause no alert."""
    looked_for = {
        name for rule in rules() for name in re.findall(r"\bincrease\(\s*(\w+)", rule["expr"])
    }
    assert looked_for > REPEATED
    own = {"server": {"port": free_port()}, "batch": {"enabled": True}}
    async with running_daemon(cluster, configuration(own=own)) as replica:
        found = {name for name, _ in await samples(replica)}
    assert looked_for - REPEATED <= found


async def test_metrics_tell_what_happened(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        names = cluster.submit_many(5, lambda name: make_pod(name).cpu("100m"), "p")
        cluster.submit(make_pod("giant").cpu("100"), make_pod("held").gate("example.com/gate"))
        await expect_bound(cluster, *names)
        await expect_pending(cluster, replica, "giant")
        await replica.settled()
        found = await samples(replica)
        assert found["scheduler_schedule_attempts_total", ("equipoise", "scheduled")] == 5
        assert found["scheduler_schedule_attempts_total", ("equipoise", "unschedulable")] == 1
        assert found["scheduler_pending_pods", ("unschedulable",)] == 1
        assert found["scheduler_pending_pods", ("gated",)] == 1
        assert found["scheduler_pending_pods", ("active",)] == 0
        assert found["scheduler_pod_scheduling_attempts_count", ()] == 5
        assert found["scheduler_pod_scheduling_attempts_sum", ()] == 5
        assert found["scheduler_pod_scheduling_sli_duration_seconds_count", ("1",)] == 5
        assert found["scheduler_queue_incoming_pods_total", ("UnschedulablePodAdd", "active")] == 6
        assert found["scheduler_cache_size", ("nodes",)] == 1
        assert found["scheduler_cache_size", ("pods",)] == 5
        assert found["scheduler_unschedulable_pods", ("NodeResourcesFit", "equipoise")] == 1
        assert found["scheduler_goroutines", ("binding",)] == 0
        spent = found[
            "scheduler_scheduling_attempt_duration_seconds_sum", ("equipoise", "scheduled")
        ]
        assert 0 < spent < 60


async def test_the_configuration_in_force_is_shown(cluster: Cluster) -> None:
    config = serving()
    async with running_daemon(cluster, config) as replica:
        assert await fetch_json(replica, "/configz") == config.to_dicts()


async def test_queue_nodes_decisions_and_explanations_are_shown(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("1"), make_pod("giant").cpu("100"))
        await expect_bound(cluster, "p")
        message = await expect_pending(cluster, replica, "giant")
        await replica.settled()

        queue = await fetch_json(replica, "/api/v1/queue")
        assert queue["counts"]["unschedulable"] == 1
        (entry,) = queue["pods"]
        assert (entry["pod"], entry["attempts"]) == ("default/giant", 1)
        assert (entry["message"], entry["plugins"]) == (message, ["NodeResourcesFit"])

        nodes = await fetch_json(replica, "/api/v1/nodes?limit=1")
        assert nodes["nodes"][0]["requested"]["cpu"] == 1000

        decisions = (await fetch_json(replica, "/api/v1/decisions"))["decisions"]
        assert {d["pod"]: d["node"] for d in decisions} == {
            "default/p": "n",
            "default/giant": "",
        }

        giant = await fetch_json(replica, "/api/v1/explain?pod=default/giant")
        assert giant["fit"] == []
        assert message.startswith(giant["message"])
        assert giant["nodes"]["n"]["reasons"] == ["Insufficient cpu"]
        bound = await fetch_json(replica, "/api/v1/explain?pod=default/p")
        assert (bound["boundTo"], bound["node"]) == ("n", "n")


async def test_what_is_not_ours_is_not_said_to_go_anywhere(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    cluster.submit(make_pod("theirs").scheduler("default-scheduler"))
    async with running_daemon(cluster, serving()) as replica:
        await eventually(lambda: "default/theirs" in replica.daemon.pods())
        answer = await fetch_json(replica, "/api/v1/explain?pod=default/theirs")
        assert (answer["node"], answer["standing"]["state"]) == (None, "other-scheduler")
        status, text = await fetch(replica, "/api/v1/explain?pod=default/nobody")
        assert status == 404
        assert "default/nobody" in text


async def test_looking_changes_nothing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("giant").cpu("100"))
        await expect_pending(cluster, replica, "giant")
        await replica.settled()
        before = replica.daemon.core.queue.view.snapshot()[0].attempts, cluster.revision
        for path in ("queue", "nodes", "decisions", "explain?pod=default/giant"):
            await fetch_json(replica, f"/api/v1/{path}")
        assert (replica.daemon.core.queue.view.snapshot()[0].attempts, cluster.revision) == before


def standing_for_election() -> Configuration:
    server = {"server": {"port": free_port()}}
    return configuration(kube={"leaderElection": ELECTION}, own=server)


@pytest.mark.parametrize("path", ["queue", "nodes", "decisions", "explain?pod=default/p"])
async def test_every_look_says_who_answers_and_who_leads(cluster: Cluster, path: str) -> None:
    cluster.add(make_worker("n"))
    cluster.submit(make_pod("p"))
    async with running_daemon(cluster, standing_for_election()) as leader:
        await expect_bound(cluster, "p")
        async with running_daemon(cluster, standing_for_election()) as standby:
            led = (await fetch_json(leader, f"/api/v1/{path}"))["replica"]
            identity = cluster.lease()["holderIdentity"]
            assert led == {"identity": identity, "leading": True, "leader": identity}

            async def informed() -> bool:
                stood_by = (await fetch_json(standby, f"/api/v1/{path}"))["replica"]
                assert not stood_by["leading"]
                assert stood_by["identity"] not in ("", identity)
                return bool(stood_by["leader"] == identity)

            async with asyncio.timeout(WAIT_SECONDS):
                while not await informed():  # until the standby has looked at the lease
                    pass


async def test_without_election_a_replica_leads_by_itself(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    cluster.submit(make_pod("p"))
    async with running_daemon(cluster, serving()) as replica:
        await expect_bound(cluster, "p")
        who = (await fetch_json(replica, "/api/v1/queue"))["replica"]
        assert who["leading"]
        assert who["leader"] == who["identity"] != ""
