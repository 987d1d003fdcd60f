"""The fence: open for a while after each renewal, and asked before the bytes of a write go out."""

import asyncio
import time

import pytest
from aiohttp import web

from scheduler import machine
from scheduler.kube.connections import ConnectionPool
from scheduler.kube.errors import Unreachable, WritesStopped
from scheduler.kube.fencing import Fence
from scheduler.kube.writes import ApiWriter, Binding
from tests.patience import PATIENCE

from .lease_support import Candidate, LeaseServer
from .support import ManualClock, connected, promptly, serving


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_it_is_open_from_a_renewal_until_its_seconds_are_over() -> None:
    clock, refusals = ManualClock(), []
    fence = Fence(10.0, lambda: refusals.append(clock.now), clock)
    with pytest.raises(WritesStopped):
        fence.check()
    began = clock.now
    clock.now += 4.0
    fence.renewed(began)
    fence.check()
    clock.now = began + 9.999
    fence.check()
    clock.now = began + 10.0
    with pytest.raises(WritesStopped):
        fence.check()
    fence.renewed(clock.now)
    fence.check()
    fence.close()
    with pytest.raises(WritesStopped):
        fence.check()
    assert refusals == [began, began + 10.0, began + 10.0]


def test_its_clock_counts_the_time_of_suspension() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= machine.boottime() <= time.clock_gettime(time.CLOCK_BOOTTIME)


class Recorder:
    """A server that keeps what arrives; `hold` keeps the answers back."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.answering = asyncio.Event()
        self.answering.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/version":
            self.arrived.append(f"{request.method} {request.path}")
            await self.answering.wait()
        return web.json_response({"metadata": {"uid": "u"}, "spec": {}})


async def test_a_closed_fence_stops_requests_that_change_something_and_no_others() -> None:
    server = Recorder()
    async with serving(server.answer) as url, connected(url) as client:
        clock = ManualClock()
        client.fence = Fence(10.0, clock=clock)
        client.fence.renewed(clock.now)
        await client.request("POST", "/a", body={})
        clock.now += 10.0
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(WritesStopped):
                await client.request(method, "/b", body={})
        await client.request("GET", "/c")
        assert server.arrived == ["POST /a", "GET /c"]


async def test_a_write_that_waited_for_a_connection_is_asked_when_its_turn_comes() -> None:
    server = Recorder()
    async with serving(server.answer) as url, connected(url) as client:
        clock = ManualClock()
        client._connections = ConnectionPool(limit=1)
        client.fence = Fence(10.0, clock=clock)
        client.fence.renewed(clock.now)
        server.answering.clear()
        first = asyncio.create_task(client.request("POST", "/first", body={}))
        await promptly(lambda: server.arrived == ["POST /first"])
        second = asyncio.create_task(client.request("POST", "/second", body={}))
        await asyncio.sleep(0)
        clock.now += 10.0  # as if the process had been suspended
        server.answering.set()
        await first
        with pytest.raises(WritesStopped):
            await second
        assert server.arrived == ["POST /first"]


async def test_a_refused_write_ends_all_writing() -> None:
    server = Recorder()
    async with serving(server.answer) as url, connected(url) as client:
        writer = ApiWriter(client, concurrency=4)
        clock = ManualClock()
        client.fence = Fence(10.0, writer.stop, clock)
        client.fence.renewed(clock.now)
        server.answering.clear()
        open_write = asyncio.create_task(writer.bind("a", "open", "u", "n"))
        await promptly(lambda: len(server.arrived) == 1)
        clock.now += 10.0
        late = [writer.bind("a", "late", "u", "n"), writer.send("POST", "/events", {})]
        ends = await asyncio.gather(open_write, *late, return_exceptions=True)
        assert [type(end) for end in ends] == [WritesStopped] * 3
        assert len(server.arrived) == 1
        server.answering.set()


async def test_the_leader_opens_it_and_who_no_longer_leads_finds_it_closed() -> None:
    clock = ManualClock()
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    fence = candidate.fence
    with pytest.raises(WritesStopped):
        fence.check()
    task = await candidate.lead()
    fence.check()
    clock.now += 9.9
    fence.check()
    clock.now += 0.1  # the renew deadline, while the elector has not run
    with pytest.raises(WritesStopped):
        fence.check()
    candidate.paused.set()
    await asyncio.wait_for(task, PATIENCE)
    assert candidate.lost == 1
    with pytest.raises(WritesStopped):
        fence.check()


async def test_a_lease_of_doubt_is_kept_for_as_long_as_a_request_may_take() -> None:
    clock = ManualClock()
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    candidate.elector.release_when_cancelled = False
    await end(task)
    assert server.spec["holderIdentity"] == "me"
    assert server.spec["leaseDurationSeconds"] == 60
    assert candidate.status == 0
    began = clock.now
    other = Candidate(server, clock, "other")
    task = other.start()
    await promptly(other.elector.leading.is_set)
    assert clock.now - began >= 60
    await end(task)


async def test_a_lease_of_doubt_that_cannot_be_written_does_not_hinder_the_end() -> None:
    clock = ManualClock()
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    candidate.elector.release_when_cancelled = False
    server.broken = Unreachable("down")
    await end(task)
    assert server.spec["leaseDurationSeconds"] == 15
    with pytest.raises(WritesStopped):
        candidate.fence.check()


async def test_a_binding_that_waited_for_a_connection_is_checked_when_its_turn_comes() -> None:
    server = Recorder()
    async with serving(server.answer) as url, connected(url) as client:
        client._connections = ConnectionPool(limit=1)
        server.answering.clear()
        first = asyncio.create_task(client.request("POST", "/first", body={}))
        await promptly(lambda: server.arrived == ["POST /first"])
        reason = ""
        writer = ApiWriter(client)
        binding = asyncio.create_task(writer.bind("a", "x", "u", "n", lambda: reason))
        for _ in range(20):  # it waits for the connection
            await asyncio.sleep(0)
        reason = "the node is gone"
        server.answering.set()
        await first
        outcome = await binding
        assert (outcome.result, outcome.message) == (Binding.STALE, "the node is gone")
        assert server.arrived == ["POST /first"]
        await client.request("GET", "/next")  # the connection is as good as before
        assert server.arrived == ["POST /first", "GET /next"]
