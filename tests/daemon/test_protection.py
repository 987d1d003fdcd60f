"""The daemon's endpoints where others can reach them: the API server decides who may read."""

from __future__ import annotations

import aiohttp
import pytest

from e2e.harness.ports import free_port
from tests.builders import make_worker
from tests.daemon.support import Cluster, Replica, configuration, eventually, running_daemon
from tests.patience import PATIENCE

SCRAPER = "system:serviceaccount:monitoring:prometheus"


async def status(replica: Replica, path: str, token: str = "") -> int:
    server = replica.daemon.server
    assert server is not None
    url = f"https://127.0.0.1:{server.port}{path}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as answer,
    ):
        await answer.read()
        return answer.status


async def test_known_callers_read_and_strangers_only_probe(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the requests take, the last one finds what the first one learned.
    monkeypatch.setattr("scheduler.serve.access.FRESH_SECONDS", PATIENCE)
    cluster.add(make_worker("n"))
    reviews = cluster.server.reviews
    reviews.add_user("scrape", SCRAPER)
    reviews.add_user("look", "alice", "viewers")
    reviews.allow(SCRAPER, "get", "/metrics")
    reviews.allow("viewers", "get", "/api/v1/*")
    config = configuration(own={"server": {"bindAddress": "0.0.0.0", "port": free_port()}})
    async with running_daemon(cluster, config) as replica:
        assert await status(replica, "/livez") == 200
        assert await status(replica, "/readyz") == 200
        assert await status(replica, "/metrics") == 403
        assert await status(replica, "/metrics", "guess") == 401
        assert await status(replica, "/metrics", "scrape") == 200
        assert await status(replica, "/metrics", "look") == 403
        assert await status(replica, "/api/v1/queue", "scrape") == 403
        assert await status(replica, "/api/v1/queue", "look") == 200
        for view in ("overview", "nodes?view=map", "node?name=n", "classes", "groups", "stream"):
            assert await status(replica, f"/api/v1/{view}", "scrape") == 403, view
            if view != "stream":
                assert await status(replica, f"/api/v1/{view}", "look") == 200, view
        posts = replica.requests("POST", 201)
        assert await status(replica, "/metrics", "scrape") == 200
        assert replica.requests("POST", 201) == posts, "the answers are remembered"


async def test_metrics_are_read_while_the_api_server_is_away(cluster: Cluster) -> None:
    cluster.server.reviews.add_user("scrape", SCRAPER)
    cluster.server.reviews.allow(SCRAPER, "get", "/metrics")
    config = configuration(own={"server": {"bindAddress": "0.0.0.0", "port": free_port()}})
    async with running_daemon(cluster, config) as replica:
        assert await status(replica, "/metrics", "scrape") == 200
        host, port = cluster.server.host, cluster.server.port
        await cluster.server.stop()
        assert await status(replica, "/metrics", "scrape") == 200
        assert await status(replica, "/metrics", "another") == 503
        assert await status(replica, "/livez") == 200
        await cluster.server.start(host, port)
        cluster.add(make_worker("n"))
        await eventually(lambda: replica.daemon.core.state.node_count == 1)
