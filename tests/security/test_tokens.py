"""The scheduler's own token: where it is not to be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from e2e.harness.ports import free_port
from sandbox.apiserver import ApiServer
from scheduler.recording.reader import segments
from tests.builders import make_pod, make_worker
from tests.daemon.support import Cluster, Replica, configuration, expect_bound, running_daemon
from tests.webhooks.support import NAME, WebhookServer, webhook

TOKEN = "eyJhbGciOiJSUzI1NiIsImtpZCI6InRva2VuIn0.of-the.scheduler"
PATHS = ("/configz", "/metrics", "/api/v1/overview", "/api/v1/queue", "/debug/config", "/version")


@asynccontextmanager
async def scheduling(
    tmp_path: Path, hook: WebhookServer | None = None
) -> AsyncIterator[tuple[Cluster, Replica, str]]:
    """A daemon with a token that has bound a pod, and its address."""
    port = free_port()
    own = {"server": {"port": port}, "recording": {"directory": str(tmp_path / "recording")}}
    enabled = []
    if hook is not None:
        own["webhooks"] = [webhook(hook, "filter", "preBind")]
        enabled = [{"name": NAME}]
    kube = {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
    async with ApiServer(token=TOKEN) as server:
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(server.kubeconfig()))
        cluster = Cluster(server)
        cluster.add(make_worker("n"))
        config = configuration(kube=kube, own=own)
        async with running_daemon(cluster, config, kubeconfig=str(file)) as replica:
            cluster.submit(make_pod("p"))
            await expect_bound(cluster, "p")
            yield cluster, replica, f"http://127.0.0.1:{port}"


async def test_webhooks_are_not_sent_the_schedulers_token(tmp_path: Path) -> None:
    async with WebhookServer() as hook, scheduling(tmp_path, hook):
        assert {"filter", "pre-bind"} <= set(hook.paths())
        assert TOKEN not in f"{hook.headers} {hook.asked}"


async def test_the_token_is_nowhere_to_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with scheduling(tmp_path) as (cluster, replica, url), aiohttp.ClientSession() as session:
        assert replica.requests("GET", 401) == 0, "the token is used"
        cluster.faults.fail("POST", r"/binding$", times=1)
        cluster.submit(make_pod("q"))
        await expect_bound(cluster, "q")
        for path in PATHS:
            async with session.get(url + path) as answer:
                assert TOKEN not in await answer.text(), path
    assert TOKEN not in caplog.text
    recorded = [
        repr(each) for found in segments(tmp_path / "recording") for each in found.entries()
    ]
    assert any("default/p" in each for each in recorded)
    assert not any(TOKEN in each for each in recorded)
