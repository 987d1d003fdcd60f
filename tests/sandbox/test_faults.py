"""The knobs with which tests break the embedded server."""

import asyncio

import aiohttp
import pytest

from sandbox.apiserver import ApiServer
from tests.apicontract.client import Client, a_binding, a_lease, a_pod, leases_in, names, pods_in

PODS = pods_in("default")
LEASES = leases_in("default")


async def test_the_next_requests_fail_and_then_no_more(server: ApiServer, client: Client) -> None:
    server.faults.fail("POST", "/leases$", times=2, status=429, headers={"Retry-After": "7"})
    for _ in range(2):
        async with (
            aiohttp.ClientSession() as session,
            session.post(server.url + LEASES) as response,
        ):
            assert response.status == 429
            assert response.headers["Retry-After"] == "7"
            assert (await response.json())["reason"] == "TooManyRequests"
    (await client.create(LEASES, a_lease("a"))).ok(201)


async def test_a_fault_can_be_ended_before_it_is_used_up(server: ApiServer, client: Client) -> None:
    rule = server.faults.fail("POST", "/leases$", times=9, status=503)
    assert (await client.create(LEASES, a_lease("a"))).status == 503
    rule.end()
    (await client.create(LEASES, a_lease("a"))).ok(201)


async def test_other_requests_are_spared(server: ApiServer, client: Client) -> None:
    server.faults.fail("POST", "/leases$", status=503)
    (await client.get(LEASES)).ok()
    (await client.create(PODS, a_pod("p"))).ok(201)
    assert (await client.create(LEASES, a_lease("a"))).status == 503


async def test_a_dropped_binding_may_have_happened(server: ApiServer, client: Client) -> None:
    for name in ("done", "undone"):
        (await client.create(PODS, a_pod(name))).ok(201)
    server.faults.drop("POST", "/done/binding$")
    server.faults.drop("POST", "/undone/binding$", processed=False)
    for name in ("done", "undone"):
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.create(f"{PODS}/{name}/binding", a_binding(name))
    assert (await client.get(f"{PODS}/done")).ok()["spec"]["nodeName"] == "contract-node"
    assert "nodeName" not in (await client.get(f"{PODS}/undone")).ok()["spec"]


async def test_held_requests_wait_for_their_release(server: ApiServer, client: Client) -> None:
    (await client.create(PODS, a_pod("p"))).ok(201)
    with server.faults.hold("POST", "/binding$") as held:
        binding = asyncio.create_task(client.create(f"{PODS}/p/binding", a_binding("p")))
        await held.reached()
        assert "nodeName" not in (await client.get(f"{PODS}/p")).ok()["spec"]
        held.release()
        (await binding).ok(201)
    assert (await client.get(f"{PODS}/p")).ok()["spec"]["nodeName"] == "contract-node"


async def test_delayed_requests_are_overtaken(server: ApiServer, client: Client) -> None:
    server.faults.delay("PUT", "/slow$", 1.0)
    slow = asyncio.create_task(client.replace(f"{LEASES}/slow", a_lease("slow")))
    fast = (await client.replace(f"{LEASES}/fast", a_lease("fast"))).ok(201)
    late = (await slow).ok(201)
    assert int(fast["metadata"]["resourceVersion"]) < int(late["metadata"]["resourceVersion"])


async def test_watches_are_cut(server: ApiServer, client: Client) -> None:
    async with client.watch(LEASES) as leases, client.watch(PODS) as pods:
        assert server.faults.cut_watches("/leases") == 1
        with pytest.raises(aiohttp.ClientError):
            await leases.ended()
        (await client.create(PODS, a_pod("p"))).ok(201)
        assert (await pods.next())[0] == "ADDED"


async def test_watches_are_ended(server: ApiServer, client: Client) -> None:
    async with client.watch(LEASES) as watch:
        assert server.faults.end_watches() == 1
        assert await watch.ended()
    assert server.faults.watches == 0


async def test_silent_watches_catch_up(server: ApiServer, client: Client) -> None:
    async with client.watch(LEASES) as watch:
        server.faults.silence_watches()
        (await client.create(LEASES, a_lease("a"))).ok(201)
        unheard = asyncio.create_task(watch.next())
        # A talking server would have sent the first event before it answers the second write.
        (await client.create(LEASES, a_lease("b"))).ok(201)
        assert not unheard.done()
        server.faults.resume_watches()
        heard = [await unheard, await watch.next()]
    assert [lease["metadata"]["name"] for _, lease in heard] == ["a", "b"]


async def test_compaction_makes_versions_too_old(server: ApiServer, client: Client) -> None:
    for name in "abc":
        (await client.create(LEASES, a_lease(name))).ok(201)
    page = (await client.get(LEASES, limit="1")).ok()["metadata"]
    (await client.create(LEASES, a_lease("bb"))).ok(201)
    server.faults.compact()
    async with client.watch(LEASES, resourceVersion=page["resourceVersion"]) as watch:
        kind, status = await watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    rest = await client.get(LEASES, limit="9", **{"continue": page["continue"]})
    rest.refused(410, "Expired")
    # The refusal offers to go on inconsistently, with what there is now.
    onward = rest.body["metadata"]["continue"]
    remaining = (await client.get(LEASES, limit="9", **{"continue": onward})).ok()
    assert names(remaining) == ["b", "bb", "c"]
    exact = {"resourceVersion": page["resourceVersion"], "resourceVersionMatch": "Exact"}
    (await client.get(LEASES, **exact)).refused(410, "Expired")


async def test_a_watch_that_falls_behind_the_history_is_closed() -> None:
    async with ApiServer(history=2) as server:
        registry, leases = server.registry, server.registry.builtin("leases", "coordination.k8s.io")
        async with (
            aiohttp.ClientSession(server.url) as session,
            session.get(LEASES, params={"watch": "true"}) as response,
        ):
            server.faults.silence_watches()
            for name in "abcdefgh":
                registry.create(leases, "default", a_lease(name))
            server.faults.resume_watches()
            assert await response.content.readline() == b""


async def test_a_binding_may_be_answered_and_not_done(server: ApiServer, client: Client) -> None:
    (await client.create(PODS, a_pod("p"))).ok(201)
    server.faults.pretend("POST", "/binding$", times=1)
    (await client.create(f"{PODS}/p/binding", a_binding("p"))).ok(201)
    assert "nodeName" not in (await client.get(f"{PODS}/p")).ok()["spec"]
    (await client.create(f"{PODS}/p/binding", a_binding("p"))).ok(201)
    assert (await client.get(f"{PODS}/p")).ok()["spec"]["nodeName"] == "contract-node"


async def test_a_binding_may_be_done_and_answered_otherwise(
    server: ApiServer, client: Client
) -> None:
    (await client.create(PODS, a_pod("p"))).ok(201)
    server.faults.fail("POST", "/binding$", status=504, processed=True)
    assert (await client.create(f"{PODS}/p/binding", a_binding("p"))).status == 504
    assert (await client.get(f"{PODS}/p")).ok()["spec"]["nodeName"] == "contract-node"


async def test_open_watches_are_told_that_they_are_too_old(
    server: ApiServer, client: Client
) -> None:
    async with client.watch(LEASES) as watch:
        assert server.faults.expire_watches("/leases") == 1
        kind, status = await watch.next()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert await watch.ended()


async def test_events_are_repeated(server: ApiServer, client: Client) -> None:
    server.faults.repeat_events("/leases$", times=1)
    async with client.watch(LEASES) as watch:
        (await client.create(LEASES, a_lease("a"))).ok(201)
        twice = [await watch.next(), await watch.next()]
        assert twice[0] == twice[1]
        (await client.create(LEASES, a_lease("b"))).ok(201)
        assert (await watch.next())[1]["metadata"]["name"] == "b"
        (await client.create(LEASES, a_lease("c"))).ok(201)
        assert (await watch.next())[1]["metadata"]["name"] == "c"


async def test_late_watches_are_overtaken(server: ApiServer, client: Client) -> None:
    async with client.watch(LEASES) as late, client.watch(PODS) as prompt:
        server.faults.delay_watches("/leases$", 1.0, times=1)
        (await client.create(LEASES, a_lease("a"))).ok(201)
        (await client.create(PODS, a_pod("p"))).ok(201)
        unheard = asyncio.create_task(late.next())
        assert (await prompt.next())[1]["metadata"]["name"] == "p"
        assert not unheard.done()
        assert (await unheard)[1]["metadata"]["name"] == "a"


async def test_bookmarks_are_lost() -> None:
    async with ApiServer(bookmark_seconds=0.05) as server:
        server.faults.lose_bookmarks()
        async with (
            aiohttp.ClientSession(server.url) as session,
            session.get(
                LEASES,
                params={"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "1"},
            ) as response,
        ):
            assert await response.content.read() == b""
