"""Life and settings of the embedded server itself."""

import ssl

import aiohttp
import trustme

from sandbox.apiserver import ApiServer
from tests.apicontract.client import (
    ApiEndpoint,
    Client,
    a_lease,
    a_pod,
    connect,
    leases_in,
    pods_in,
)


async def test_a_restart_keeps_port_and_content(server: ApiServer, client: Client) -> None:
    (await client.create(leases_in("default"), a_lease("a"))).ok(201)
    port = server.port
    await server.stop()
    await server.start(port=port)
    assert (await client.get(f"{leases_in('default')}/a")).ok()["metadata"]["name"] == "a"


async def test_stopping_ends_open_and_silent_watches(server: ApiServer, client: Client) -> None:
    async with client.watch(leases_in("default")), client.watch(pods_in("default")):
        server.faults.silence_watches()
        await server.stop()
    assert server.faults.watches == 0


async def test_a_token_is_asked_for() -> None:
    async with ApiServer(token="secret") as server:
        config = server.kubeconfig()
        token = config["users"][0]["user"]["token"]
        assert config["clusters"][0]["cluster"]["server"] == server.url
        async with connect(ApiEndpoint(server.url)) as stranger:
            (await stranger.get("/api/v1/nodes")).refused(401, "Unauthorized")
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(ApiEndpoint(server.url, headers=headers)) as friend:
            (await friend.get("/api/v1/nodes")).ok()


async def test_tls() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with (
        ApiServer(tls=context) as server,
        connect(ApiEndpoint(server.url, trusting)) as client,
    ):
        assert server.url.startswith("https://")
        (await client.get("/api/v1/nodes")).ok()


async def test_malformed_objects_pass_without_validation() -> None:
    async with ApiServer(validate=False) as server, connect(ApiEndpoint(server.url)) as client:
        pod = a_pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "lots"}}}])
        created = (await client.create(pods_in("default"), pod)).ok(201)
        assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "lots"}
        assert created["status"]["phase"] == "Pending"
        (await client.create(pods_in("default"), {"metadata": {"name": "q"}})).ok(201)


async def test_a_dry_run_stores_nothing(server: ApiServer) -> None:
    revision = server.registry.store.revision
    async with (
        aiohttp.ClientSession(server.url) as session,
        session.delete("/api/v1/namespaces/kube-node-lease", params={"dryRun": "All"}) as response,
    ):
        assert response.status == 200
    assert server.registry.store.revision == revision


async def test_logs_are_refused_with_a_reason(server: ApiServer) -> None:
    async with (
        aiohttp.ClientSession(server.url) as session,
        session.get("/api/v1/namespaces/default/pods/p/log") as response,
    ):
        assert response.status == 501
        assert "runs no containers" in (await response.json())["message"]
