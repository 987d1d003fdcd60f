"""Webhooks that answer with anything: bombs, drips, floods. Others hardly notice."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from scheduler.config.schema import Webhook
from scheduler.config.webhooks import CallTarget, endpoint_of
from scheduler.observe.metrics import Metrics
from scheduler.webhooks import extender_protocol as wire
from scheduler.webhooks.answers import EXPLAINING, Failed
from scheduler.webhooks.asking import Asking
from scheduler.webhooks.caller import BreakerState, Caller, CallSlots, Overloaded
from scheduler.webhooks.originals import Originals
from scheduler.webhooks.protocol import (
    MAX_REASON_LENGTH,
    MAX_REASONS,
    MAX_STRINGS,
    read_answer,
)
from scheduler.webhooks.transport import ANSWER_BYTES, MAX_MESSAGE, CallFailed
from scheduler.webhooks.views import Views
from tests.builders import Json, make_pod
from tests.patience import PATIENCE
from tests.raw_servers import listening
from tests.webhooks.support import RemoteStage, WebhookServer, documents, until, webhook
from tests.webhooks.test_calls import Calls

Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]
BOMB = gzip.compress(b"x" * 50_000_000)


class RawServer:
    """Answers every request with the same bytes, and counts how many of them were taken."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.url = ""
        self.heads: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            await self.talk(writer)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def raw_calls(talk: Talk, **fields: object) -> AsyncIterator[tuple[RawServer, Caller]]:
    server = RawServer(talk)
    async with listening(server.handle) as port:
        url = f"http://127.0.0.1:{port}"
        given = {"breaker_failures": 1000, "timeout": PATIENCE, "retries": 0, **fields}
        caller = Caller(CallTarget(name="W", url=url, **given), Metrics())  # type: ignore[arg-type]
        try:
            yield server, caller
        finally:
            await caller.close()


async def failure(caller: Caller) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await caller.call("filter", "filter", lambda: b"{}", lambda body: body, namespace="a")
    return caught.value


def says(*pieces: bytes) -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return talk


def forever(beginning: bytes, more: bytes, pause: float = 0.0) -> Talk:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not writer.is_closing():
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause)

    return talk


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_a_compressed_answer_is_refused_and_not_unpacked() -> None:
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB)
    async with raw_calls(says(head + BOMB)) as (server, caller):
        failed = await failure(caller)
    assert failed.result == "invalid"
    assert "compressed (gzip)" in str(failed)
    assert b"accept-encoding: identity" in server.heads[0].lower()
    assert len(server.heads) == 1


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(forever(CHUNKED, b"1\r\nx\r\n", 0.01), id="drip"),
        pytest.param(forever(OK, b"X", 0.01), id="a head that drips"),
        pytest.param(says(OK + b"Content-Length: 5\r\n\r\nx"), id="less than announced"),
    ],
)
async def test_an_exchange_ends_in_time(talk: Talk) -> None:
    async with raw_calls(talk, timeout=0.3) as (_, caller):
        failed = await failure(caller)
    assert failed.result == "timeout"
    assert len(str(failed)) <= MAX_MESSAGE + 1


@pytest.mark.parametrize(
    ("talk", "result"),
    [
        pytest.param(forever(OK, b"X: y\r\n" * 100), "broken", id="endless header"),
        pytest.param(says(CHUNKED + b"zz\r\n"), "broken", id="malformed chunk size"),
        pytest.param(
            forever(CHUNKED, b"10000\r\n%s\r\n" % (b"x" * 65536)),
            "response_too_large",
            id="body without end",
        ),
        pytest.param(
            forever(
                b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"10000\r\n%s\r\n" % (b"x" * 65536),
            ),
            "server_error",
            id="error page without end",
        ),
    ],
)
async def test_an_exchange_ends_within_bounds(talk: Talk, result: str) -> None:
    async with raw_calls(talk) as (_, caller):
        failed = await failure(caller)
    assert failed.result == result
    assert len(str(failed)) <= MAX_MESSAGE + 1


async def test_an_answer_is_bounded_by_its_question_whatever_the_settings_allow() -> None:
    length = ANSWER_BYTES + 16 * 2 + 1
    whole = OK + b"Content-Length: %d\r\n\r\n" % length + b" " * length
    async with raw_calls(says(whole), max_response_bytes=2**30) as (_, caller):
        assert (await failure(caller)).result == "response_too_large"


def test_what_is_kept_of_an_answer_is_cut_to_what_is_shown() -> None:
    reasons = ",".join(['"' + "x" * 10_000 + '"'] * 50)
    for point in ("preFilter", "permit", "preEnqueue", "filter", "postFilter"):
        answer = read_answer(point, f'{{"reasons": [{reasons}]}}'.encode())
        assert len(answer.reasons) == MAX_REASONS
        assert max(map(len, answer.reasons)) <= MAX_REASON_LENGTH


@pytest.mark.parametrize("read", [wire.read_filter, wire.read_priorities, wire.read_preemption])
def test_extenders_answers_have_no_more_strings_than_the_question_explains(
    read: Callable[..., object],
) -> None:
    with pytest.raises(ValueError, match="more strings than"):
        read(b'["x",' * (MAX_STRINGS + 33), items=1)


def test_priorities_in_any_case_and_order_are_the_same() -> None:
    assert wire.read_priorities(b'[{"Host": "a", "Score": 3}]') == {"a": 3}
    assert wire.read_priorities(b'[{"score": 3, "HOST": "a", "More": 1}]') == {"a": 3}


async def test_a_pod_is_not_held_for_ever_by_a_time_beyond_all_times() -> None:
    async with WebhookServer() as server:
        server.answers["pre-enqueue"] = {"code": "Pending", "retryAfterSeconds": 1e300}
        hook = msgspec.convert({**webhook(server, "preEnqueue"), "timeout": 60.0}, Webhook)
        caller = Caller(endpoint_of(hook), Metrics())
        async with RemoteStage(documents(webhook(server, "preEnqueue"))) as stage:
            views = Views(hook, Originals((), nodes=False), stage.core.state)
            pod = make_pod("p").info()
            asked = await Asking(hook, "equipoise", caller, views).ask("preEnqueue", pod)
        await caller.close()
    assert isinstance(asked, Failed)
    assert "retryAfterSeconds: must be between 0 and 86400, not 1e+300" in asked.message


# One author's pods


async def test_refusals_of_one_authors_pods_do_not_open_the_breaker_for_others() -> None:
    async with WebhookServer() as server, Calls(server, breaker_failures=2) as calls:
        server.status = 422
        for _ in range(10):
            assert (await calls.failure(namespace="mallory")).result == "refused"
        assert calls.sample("equipoise_webhook_breaker_state") == BreakerState.CLOSED
        server.status = 200
        assert await calls.call(namespace="alice")


async def test_answers_without_sense_do_not_open_the_breaker_for_others() -> None:
    def read(answer: bytes) -> bytes:
        raise ValueError("scores['x']: is not one of the nodes in question")

    async with WebhookServer() as server, Calls(server, breaker_failures=1) as calls:
        for _ in range(10):
            assert (await calls.failure(namespace="mallory", read=read)).result == "invalid"
        assert await calls.call(namespace="alice")


async def test_failures_of_the_webhook_itself_open_the_breaker_for_all() -> None:
    async with WebhookServer() as server, Calls(server, breaker_failures=2) as calls:
        server.status = 500
        await calls.failure(namespace="mallory")
        await calls.failure(namespace="bob")
        assert (await calls.failure(namespace="alice")).result == "breaker_open"
        assert calls.sample("equipoise_webhook_breaker_state") == BreakerState.OPEN


async def test_a_refusal_shows_that_the_webhook_is_there() -> None:
    async with (
        WebhookServer() as server,
        Calls(server, breaker_failures=1, breaker_open_for=1.0) as calls,
    ):
        server.status = 500
        await calls.failure(namespace="alice")
        calls.clock.advance(2)
        server.status = 422
        assert (await calls.failure(namespace="mallory")).result == "refused"
        assert calls.sample("equipoise_webhook_breaker_state") == BreakerState.CLOSED


# Turns


async def test_an_author_with_a_thousand_pods_waits_in_turn_with_others() -> None:
    async with WebhookServer() as server, Calls(server, concurrency=3) as calls:
        order: list[str] = []

        def noted(namespace: str) -> Callable[[bytes], bytes]:
            def read(answer: bytes) -> bytes:
                order.append(namespace)
                return answer

            return read

        server.open.clear()
        tasks = [
            asyncio.create_task(calls.call(namespace="mallory", read=noted("mallory")))
            for _ in range(100)
        ]
        await until(lambda: server.present == 3)
        tasks += [
            asyncio.create_task(calls.call(namespace=name, read=noted(name)))
            for name in ("alice", "bob", "carol")
        ]
        await until(lambda: server.present == 4)
        server.open.set()
        await asyncio.gather(*tasks)
        assert server.most <= 4
        assert {"alice", "bob", "carol"} <= set(order[:12])


async def test_hanging_calls_of_one_namespace_leave_room_for_others() -> None:
    async with WebhookServer() as server, Calls(server, concurrency=4) as calls:
        release = asyncio.Event()

        async def hang(body: Json) -> Json:
            if body.get("hang"):
                await release.wait()
            return {}

        server.answers["filter"] = hang
        hanging = [
            asyncio.create_task(calls.call(body=b'{"hang": true}', namespace="mallory"))
            for _ in range(20)
        ]
        await until(lambda: server.present == 4)
        for _ in range(10):
            assert await calls.call(namespace="alice")
        release.set()
        await asyncio.gather(*hanging)


async def test_slots_are_given_back_whatever_is_cancelled() -> None:
    slots = CallSlots(2, 100)
    for _ in range(2):
        await slots.acquire("a")
    waiting = [asyncio.create_task(slots.acquire("a")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    slots.release("a")  # to the second
    waiting[1].cancel()  # who just got it
    await asyncio.gather(*waiting[:2], return_exceptions=True)
    await asyncio.wait_for(waiting[2], PATIENCE)
    slots.release("a")
    slots.release("a")
    await asyncio.gather(*waiting[3:])
    slots.release("a")
    slots.release("a")
    for _ in range(2):
        await asyncio.wait_for(slots.acquire("a"), PATIENCE)


async def test_too_many_waiting_calls_of_one_namespace_leave_room_for_others_to_wait() -> None:
    slots = CallSlots(1, 3)
    await slots.acquire("a")
    waiting = [asyncio.create_task(slots.acquire("a")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await slots.acquire("a")
    await slots.acquire("b")  # from the third that is there for others
    waiting.append(asyncio.create_task(slots.acquire("c")))
    await asyncio.sleep(0)
    assert not waiting[-1].done()
    for owner in ("a", "b", "a", "a", "c", "a"):
        slots.release(owner)
        await asyncio.sleep(0)
        if all(task.done() for task in waiting):
            break
    await asyncio.gather(*waiting)


async def test_all_explanations_together_have_the_share_of_one_namespace() -> None:
    async with WebhookServer() as server, Calls(server, concurrency=3) as calls:
        server.open.clear()
        EXPLAINING.set(True)
        asked = [asyncio.create_task(calls.call(namespace=f"ns-{i}")) for i in range(10)]
        await until(lambda: server.present == 3)
        EXPLAINING.set(False)
        asked.append(asyncio.create_task(calls.call(namespace="alice")))
        await until(lambda: server.present == 4)
        server.open.set()
        await asyncio.gather(*asked)
        assert server.most == 4
