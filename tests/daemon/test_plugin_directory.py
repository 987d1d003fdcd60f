"""The example plugins, loaded from their directory by a daemon: no build, no change of the tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.assembly import configure
from scheduler.config.loading import Configuration
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples" / "plugins"


def configured(*plugins: str, **args: Json) -> Configuration:
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}},
        "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
    }
    kube = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    own = {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "server": {"port": 0}}
    election = {"leaderElection": {"leaderElect": False}}
    return configure([{**kube, **election}, {**own, "plugins": {"directory": str(EXAMPLES)}}])


async def test_a_filter_for_one_node_at_a_time(cluster: Cluster) -> None:
    cluster.add(make_worker("shut").label(maintenance="yes"))
    async with running_daemon(cluster, configured("Maintenance")) as replica:
        cluster.submit(make_pod("waits"), make_pod("fitter").label(maintenance="yes"))
        await expect_bound(cluster, "fitter")
        message = await expect_pending(cluster, replica, "waits")
        assert message.startswith("0/1 nodes are available: 1 node(s) were under maintenance.")

        def open_up(node: Json) -> None:
            del node["metadata"]["labels"]["maintenance"]

        cluster.change_node("shut", open_up)
        await expect_bound(cluster, "waits")


class Pool:
    """A device pool as the example describes it, over HTTP."""

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.claims: dict[str, Json] = {}
        self.freed: list[str] = []
        self.broken = 0

    async def put(self, request: web.Request) -> web.Response:
        if self.broken:
            self.broken -= 1
            return web.Response(status=503)
        if len(self.claims) >= self.devices:
            return web.Response(status=409)
        self.claims[request.match_info["claim"]] = await request.json()
        return web.Response(status=201)

    async def delete(self, request: web.Request) -> web.Response:
        claim = request.match_info["claim"]
        self.freed.append(claim)
        return web.Response(status=204 if self.claims.pop(claim, None) else 404)


@pytest.fixture
async def pool() -> AsyncIterator[Any]:
    """A pool of one device that listens; ``url`` says where."""
    pool = Pool(devices=1)
    application = web.Application()
    application.router.add_put("/claims/{claim}", pool.put)
    application.router.add_delete("/claims/{claim}", pool.delete)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    pool.url = f"http://127.0.0.1:{runner.addresses[0][1]}"  # type: ignore[attr-defined]  # known now
    yield pool
    await runner.cleanup()


def wanting(name: str) -> Any:
    return make_pod(name).label(**{"devices.example.com/pool": "fast"})


async def test_a_device_is_claimed_before_the_pod_is_bound(cluster: Cluster, pool: Any) -> None:
    cluster.add(make_worker("n"))
    config = configured("DeviceClaims", DeviceClaims={"url": pool.url})
    async with running_daemon(cluster, config) as replica:
        cluster.submit(make_pod("plain"), wanting("first"))
        await expect_bound(cluster, "plain")
        await expect_bound(cluster, "first")
        assert list(pool.claims.values()) == [{"pool": "fast", "node": "n", "pod": "default/first"}]
        cluster.submit(wanting("second"))
        message = await expect_pending(cluster, replica, "second")
        assert message == 'no device of pool "fast" is free'
        pool.claims.clear()
        cluster.delete_pod("first")
        await expect_bound(cluster, "second")


async def test_a_device_is_given_back_when_the_binding_fails(cluster: Cluster, pool: Any) -> None:
    cluster.add(make_worker("n"))
    config = configured("DeviceClaims", DeviceClaims={"url": pool.url})
    async with running_daemon(cluster, config) as replica:
        cluster.faults.fail("POST", BINDING, status=403, times=1)
        cluster.submit(wanting("p"))
        await expect_bound(cluster, "p")
        await eventually(lambda: len(pool.freed) == 1, "the claim of the first attempt is freed")
        await replica.settled()
        (claim,) = pool.claims
        assert claim != pool.freed[0]


async def test_a_pool_that_fails_costs_the_pod_an_attempt(cluster: Cluster, pool: Any) -> None:
    cluster.add(make_worker("n"))
    pool.broken = 1
    config = configured("DeviceClaims", DeviceClaims={"url": pool.url})
    async with running_daemon(cluster, config):
        cluster.submit(wanting("p"))
        await expect_bound(cluster, "p")
        await eventually(lambda: bool(cluster.events("p", "FailedScheduling")), "the event")
        (event,) = cluster.events("p", "FailedScheduling")
        said = 'running PreBind plugin "DeviceClaims": the device pool answered 503'
        assert event["note"] == said
        await eventually(lambda: bool(pool.freed), "what may have been claimed is given back")
