"""A daemon with a webhook: it is sent whole objects, and its calls end with the lease."""

from __future__ import annotations

import asyncio

from scheduler.config.loading import Configuration
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
    starting_daemon,
)
from tests.daemon.test_leadership import leads
from tests.webhooks.support import NAME, WebhookServer, webhook

ELECTION: Json = {
    "leaderElect": True,
    "leaseDuration": "60s",
    "renewDeadline": "40s",
    "retryPeriod": "100ms",
    "resourceNamespace": "kube-system",
}


def asking(server: WebhookServer, *points: str, election: Json | None = None) -> Configuration:
    """A configuration whose profile asks the webhook at these points."""
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": NAME}]}}}
    kube: Json = {"profiles": [profile]}
    if election is not None:
        kube["leaderElection"] = election
    hook = webhook(server, *points, nodes="Objects", timeout="60s")
    return configuration(kube=kube, own={"webhooks": [hook]})


async def test_whole_objects_are_sent(cluster: Cluster) -> None:
    async with WebhookServer() as server:
        cluster.add(make_worker("n1").meta(annotations={"rack": "7"}))
        async with running_daemon(cluster, asking(server, "filter")):
            cluster.submit(make_pod("p").meta(annotations={"wish": "window"}))
            await expect_bound(cluster, "p")
        sent = server.last("filter")
        assert sent["pod"]["metadata"]["annotations"] == {"wish": "window"}
        assert sent["nodes"][0]["metadata"]["annotations"]["rack"] == "7"
        assert sent["pod"]["kind"] == "Pod"


async def test_calls_end_when_the_lease_is_lost(cluster: Cluster) -> None:
    async with WebhookServer() as server:
        server.open.clear()
        cluster.add(make_worker("n1"))
        config = asking(server, "filter", election=ELECTION)
        async with starting_daemon(cluster, config) as replica:
            await eventually(lambda: leads(replica))
            cluster.submit(make_pod("p"))
            await eventually(lambda: server.present == 1, "the webhook is asked")
            cluster.steal_lease("thief")
            assert await replica.task == 1
            assert len(replica.daemon.core.suspension) == 0
            server.open.set()
            await asyncio.sleep(0.05)
            assert cluster.bound() == {}


async def test_a_standby_asks_nobody(cluster: Cluster) -> None:
    async with WebhookServer() as server:
        cluster.add(make_worker("n1"))
        config = asking(server, "preEnqueue", "filter", election=ELECTION)
        async with (
            running_daemon(cluster, config) as first,
            running_daemon(cluster, config) as second,
        ):
            await eventually(lambda: leads(first) != leads(second), "one of them leads")
            names = cluster.submit_many(5, make_pod, "p")
            await expect_bound(cluster, *names)
            standby = second if leads(first) else first
            for point in ("preEnqueue", "filter"):
                labels = {"webhook": NAME, "point": point, "result": "success"}
                assert standby.sample("equipoise_webhook_duration_seconds_count", **labels) == 0
            assert {"filter", "pre-enqueue"} == set(server.paths())
