"""Calls: TLS both ways, rotated files, tokens, limits, retries, slots and the breaker."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from scheduler.config.webhooks import CallTarget
from scheduler.observe.metrics import Metrics
from scheduler.webhooks.caller import BreakerState, Caller
from scheduler.webhooks.transport import CallFailed, Transport
from tests.pipeline.support import FakeClock
from tests.webhooks.support import WebhookServer, until


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


class Calls:
    """A caller and its metrics."""

    def __init__(self, server: WebhookServer, **fields: Any) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        given = {"breaker_failures": 1000, "timeout": 30.0, **fields}
        endpoint = CallTarget(name="W", url=server.url, **given)
        self.caller = Caller(endpoint, self.metrics, clock=self.clock, sleep=no_sleep)

    async def __aenter__(self) -> Calls:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.caller.close()

    async def call(self, body: bytes = b"{}", **more: Any) -> bytes:
        read: Callable[[bytes], bytes] = more.pop("read", lambda answer: answer)
        given = {"namespace": "default", **more}
        return await self.caller.call("filter", "filter", lambda: body, read, **given)

    async def failure(self, **more: Any) -> CallFailed:
        with pytest.raises(CallFailed) as caught:
            await self.call(**more)
        return caught.value

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, {"webhook": "W", **labels}) or 0.0


def server_tls(authority: trustme.CA, clients: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(context)
    return context


async def test_the_certificate_is_checked_against_the_given_authority(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    good, bad = tmp_path / "good", tmp_path / "bad"
    authority.cert_pem.write_to_path(good)
    other.cert_pem.write_to_path(bad)
    async with WebhookServer(server_tls(authority)) as server:
        async with Calls(server, ca_file=str(good)) as calls:
            assert await calls.call()
        async with Calls(server, ca_data=authority.cert_pem.bytes().decode()) as calls:
            assert await calls.call()
        async with Calls(server, ca_file=str(bad)) as calls:
            failure = await calls.failure()
            assert failure.result == "unreachable"
            assert failure.unsent
        async with Calls(server, insecure=True) as calls:
            assert await calls.call()


async def test_a_client_certificate_that_is_replaced_is_taken_up(tmp_path: Path) -> None:
    authority, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    ca, cert, key = tmp_path / "ca", tmp_path / "cert", tmp_path / "key"
    authority.cert_pem.write_to_path(ca)

    def issue(clients: trustme.CA) -> None:
        issued = clients.issue_cert("us@example.com")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)

    async with WebhookServer(server_tls(authority, new)) as server:
        files = {"ca_file": str(ca), "cert_file": str(cert), "key_file": str(key)}
        async with Calls(server, **files) as calls:
            assert (await calls.failure()).result == "credentials"
            issue(old)
            assert (await calls.failure()).result in {"broken", "unreachable"}
            issue(new)
            assert await calls.call()


async def test_a_token_is_sent_and_read_again_when_it_is_replaced(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with WebhookServer() as server, Calls(server, token_file=str(token)) as calls:
        assert (await calls.failure()).result == "credentials"
        token.write_text("first\n")
        await calls.call()
        token.write_text("second, longer")
        await calls.call()
        assert [h["Authorization"] for h in server.headers] == [
            "Bearer first",
            "Bearer second, longer",
        ]


async def test_payloads_are_bounded_both_ways() -> None:
    async with (
        WebhookServer() as server,
        Calls(server, max_request_bytes=100, max_response_bytes=100) as calls,
    ):
        failure = await calls.failure(body=b" " * 101)
        assert failure.result == "request_too_large"
        assert server.asked == []
        server.answers["filter"] = b" " * 101
        assert (await calls.failure()).result == "response_too_large"
        server.answers["filter"] = b" " * 100
        assert await calls.call(body=b"{}") == b" " * 100


async def test_nobody_is_redirected() -> None:
    async with WebhookServer() as server, Calls(server) as calls:

        async def elsewhere(request: Any) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": "http://example.com"})

        server.answers["filter"] = elsewhere
        failure = await calls.failure()
        assert failure.result == "refused"
        assert "HTTP status 307" in str(failure)


async def test_a_slow_answer_is_not_waited_for() -> None:
    async with WebhookServer() as server, Calls(server, timeout=0.05) as calls:
        server.open.clear()
        failure = await calls.failure()
        assert failure.result == "timeout"
        assert str(failure) == "no answer within 0.05 s"


async def test_a_webhook_that_is_not_there_is_unreachable() -> None:
    server = WebhookServer()
    await server.start()
    await server.stop()
    async with Calls(server) as calls:
        failure = await calls.failure()
        assert (failure.result, failure.unsent) == ("unreachable", True)


async def test_an_answer_that_makes_no_sense_is_a_failure() -> None:
    def read(answer: bytes) -> bytes:
        raise ValueError("scores['x']: is not one of the nodes in question")

    async with WebhookServer() as server, Calls(server) as calls:
        failure = await calls.failure(read=read)
        assert failure.result == "invalid"
        assert "scores['x']" in str(failure)


async def test_a_failure_is_repeated_so_often_and_counted() -> None:
    async with WebhookServer() as server, Calls(server, retries=2) as calls:
        server.status = 503
        assert (await calls.failure()).result == "server_error"
        assert len(server.asked) == 3
        assert calls.sample("equipoise_webhook_retries_total") == 2
        count = "equipoise_webhook_duration_seconds_count"
        assert calls.sample(count, point="filter", result="server_error") == 1


async def test_what_may_change_something_is_not_sent_twice() -> None:
    async with WebhookServer() as server, Calls(server, retries=2) as calls:
        server.status = 503
        await calls.failure(repeatable=False)
        assert len(server.asked) == 1


async def test_a_refusal_is_not_repeated() -> None:
    async with WebhookServer() as server, Calls(server, retries=2) as calls:
        server.status = 400
        assert (await calls.failure()).result == "refused"
        assert len(server.asked) == 1


async def test_no_more_calls_are_under_way_than_allowed() -> None:
    async with WebhookServer() as server, Calls(server, concurrency=3) as calls:
        server.open.clear()
        tasks = [asyncio.create_task(calls.call()) for _ in range(10)]
        await until(lambda: server.present == 3)
        assert calls.sample("equipoise_webhook_in_flight") == 3
        server.open.set()
        await asyncio.gather(*tasks)
        assert (server.most, len(server.asked)) == (3, 10)
        assert calls.sample("equipoise_webhook_in_flight") == 0


async def test_too_many_waiting_calls_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.webhooks.caller.MAX_WAITING", 2)
    async with WebhookServer() as server, Calls(server, concurrency=1) as calls:
        server.open.clear()
        tasks = [asyncio.create_task(calls.call()) for _ in range(3)]
        await until(lambda: server.present == 1)
        assert (await calls.failure()).result == "overloaded"
        server.open.set()
        await asyncio.gather(*tasks)


async def test_after_too_many_failures_nothing_is_sent_until_a_try_succeeds() -> None:
    async with (
        WebhookServer() as server,
        Calls(server, breaker_failures=2, breaker_open_for=10.0) as calls,
    ):
        state = "equipoise_webhook_breaker_state"
        server.status = 500
        await calls.failure()
        await calls.failure()
        assert calls.sample(state) == BreakerState.OPEN
        assert (await calls.failure()).result == "breaker_open"
        assert len(server.asked) == 2
        calls.clock.advance(11)
        assert (await calls.failure()).result == "server_error"
        assert calls.sample(state) == BreakerState.OPEN
        calls.clock.advance(11)
        server.status = 200
        server.open.clear()
        probe = asyncio.create_task(calls.call())
        await until(lambda: server.present == 1)
        assert calls.sample(state) == BreakerState.HALF_OPEN
        assert (await calls.failure()).result == "breaker_open"
        server.open.set()
        await probe
        assert calls.sample(state) == BreakerState.CLOSED
        await calls.call()


async def test_a_try_that_is_cancelled_lets_another_try() -> None:
    async with (
        WebhookServer() as server,
        Calls(server, breaker_failures=1, breaker_open_for=1.0) as calls,
    ):
        server.status = 500
        await calls.failure()
        calls.clock.advance(2)
        server.status = 200
        server.open.clear()
        probe = asyncio.create_task(calls.call())
        await until(lambda: server.present == 1)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        server.open.set()
        await calls.call()


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_webhook_killed_in_the_middle_of_a_call_is_a_failure(repeatable: bool) -> None:
    async with WebhookServer() as server, Calls(server, retries=1) as calls:
        server.open.clear()
        call = asyncio.create_task(calls.failure(repeatable=repeatable))
        await until(lambda: server.present == 1)
        await server.kill()
        failure = await call
        assert failure.result == ("unreachable" if repeatable else "broken")


async def test_a_token_that_no_header_can_hold_is_a_failure_like_others(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\ntwo\n")
    async with WebhookServer() as server, Calls(server, token_file=str(file)) as calls:
        failure = await calls.failure()
        assert failure.result == "credentials"
        assert "two" not in str(failure)


async def test_no_connection_in_time_means_that_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(transport: Transport, url: str, body: bytes) -> bytes:
        raise aiohttp.ConnectionTimeoutError("Connection timeout to host")

    monkeypatch.setattr(Transport, "_exchange", never)
    async with WebhookServer() as server, Calls(server) as calls:
        failure = await calls.failure()
        assert (failure.result, failure.unsent) == ("unreachable", True)
