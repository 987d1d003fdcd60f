"""Bindings and patches: what each answer means, how often it is tried, and how all of it stops."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from scheduler.kube.client import STRATEGIC_MERGE_PATCH, KubeClient
from scheduler.kube.errors import (
    Ambiguous,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
    WritesStopped,
)
from scheduler.kube.writes import ApiWriter, Binding
from tests.patience import PATIENCE

from .support import ManualClock, ScriptedClient

OK: dict[str, object] = {}
LOST = Ambiguous("reset")
DOWN = Unreachable("refused")


def found(node: str = "", uid: str = "u", *, deleting: bool = False) -> dict[str, object]:
    """The pod as a read shows it."""
    meta = {"uid": uid, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}}


def writer(client: KubeClient, clock: ManualClock, attempts: int = 3) -> ApiWriter:
    return ApiWriter(
        client,
        attempts=attempts,
        deadline=60.0,
        clock=clock,
        rng=lambda: 0.5,
        sleep=clock.sleep,
    )


@pytest.mark.parametrize(
    ("answers", "result", "requests"),
    [
        pytest.param([OK], Binding.BOUND, "B", id="bound"),
        pytest.param([NotFound(404)], Binding.GONE, "B", id="pod deleted before"),
        pytest.param([Forbidden(403)], Binding.REFUSED, "B", id="no right to bind"),
        pytest.param([Invalid(422)], Binding.REFUSED, "B", id="binding makes no sense"),
        pytest.param([DOWN, OK], Binding.BOUND, "BB", id="not sent, then bound"),
        pytest.param([DOWN, DOWN, DOWN], Binding.FAILED, "BBB", id="never sent"),
        pytest.param([TooManyRequests(429), OK], Binding.BOUND, "BB", id="throttled, then bound"),
        pytest.param([LOST, found("n")], Binding.BOUND, "BR", id="answer lost, was bound"),
        pytest.param([LOST, found(), OK], Binding.BOUND, "BRB", id="request lost, bound by retry"),
        pytest.param(
            [LOST, found("m")], Binding.ELSEWHERE, "BR", id="answer lost, bound by another"
        ),
        pytest.param([LOST, NotFound(404)], Binding.GONE, "BR", id="answer lost, pod gone"),
        pytest.param([LOST, found("n", "v")], Binding.GONE, "BR", id="answer lost, other uid"),
        pytest.param(
            [LOST, found(deleting=True)], Binding.GONE, "BR", id="answer lost, pod is being deleted"
        ),
        pytest.param(
            [LOST, DOWN, Conflict(409), found("n")],
            Binding.BOUND,
            "BRBR",
            id="answer lost, read failed, conflict with our own binding",
        ),
        pytest.param(
            [LOST, DOWN, DOWN, DOWN],
            Binding.UNKNOWN,
            "BRBB",
            id="answer lost and the server does not come back",
        ),
        pytest.param(
            [LOST, Forbidden(403)], Binding.UNKNOWN, "BR", id="answer lost, not allowed to read"
        ),
        pytest.param(
            [LOST, found(), DOWN, DOWN], Binding.FAILED, "BRBB", id="request lost, then no server"
        ),
        pytest.param([LOST, []], Binding.UNKNOWN, "BR" * 3, id="answer lost, pod unreadable"),
        pytest.param([ServerError(500), found("n")], Binding.BOUND, "BR", id="500, but bound"),
        pytest.param([ServerError(503), found(), OK], Binding.BOUND, "BRB", id="503, then bound"),
        pytest.param([Conflict(409), found("n")], Binding.BOUND, "BR", id="conflict, on our node"),
        pytest.param([Conflict(409), found("m")], Binding.ELSEWHERE, "BR", id="conflict"),
        pytest.param([Conflict(409), found("", "v")], Binding.GONE, "BR", id="conflict of uid"),
        pytest.param([Conflict(409), found()], Binding.FAILED, "BR", id="conflict, still unbound"),
        pytest.param(
            [Conflict(409), DOWN, Conflict(409), found("m")],
            Binding.ELSEWHERE,
            "BRBR",
            id="conflict, read failed, conflict again",
        ),
    ],
)
async def test_bind(answers: list[object], result: Binding, requests: str) -> None:
    if answers == [LOST, []]:
        answers = answers * 3
    client = ScriptedClient(*answers)
    outcome = await writer(client, ManualClock()).bind("a", "x", "u", "n")
    assert outcome.result is result
    assert outcome.bound is (result is Binding.BOUND)
    made = "".join("B" if call.path.endswith("/binding") else "R" for call in client.calls)
    assert made == requests


async def test_a_binding_carries_the_uid_and_has_a_time_limit() -> None:
    client = ScriptedClient(OK)
    await writer(client, ManualClock()).bind("a", "x", "u", "n")
    [call] = client.calls
    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/a/pods/x/binding")
    assert call.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "a", "name": "x", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    assert 0 < call.timeout <= 30


async def test_the_node_where_the_pod_is_bound_is_told() -> None:
    client = ScriptedClient(Conflict(409), found("m"))
    outcome = await writer(client, ManualClock()).bind("a", "x", "u", "n")
    assert outcome.node == "m"


async def test_retry_after_is_honoured_and_else_delays_double() -> None:
    clock = ManualClock()
    client = ScriptedClient(TooManyRequests(429, retry_after=7.0), DOWN, DOWN, OK)
    await writer(client, clock, attempts=10).bind("a", "x", "u", "n")
    assert clock.slept == [7.0, 0.2, 0.4]


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    clock = ManualClock()
    client = ScriptedClient(TooManyRequests(429, retry_after=3600.0))
    outcome = await writer(client, clock).bind("a", "x", "u", "n")
    assert outcome.result is Binding.FAILED
    assert clock.slept == []


async def test_a_status_patch_is_strategic_guarded_by_uid_and_retried() -> None:
    client = ScriptedClient(LOST, ServerError(500), OK)
    patch = {"status": {"nominatedNodeName": "n"}}
    await writer(client, ManualClock()).patch_pod_status("a", "x", patch, uid="u")
    assert [call.method for call in client.calls] == ["PATCH"] * 3
    call = client.calls[-1]
    assert call.path == "/api/v1/namespaces/a/pods/x/status"
    assert call.content_type == STRATEGIC_MERGE_PATCH
    assert call.body == {"status": {"nominatedNodeName": "n"}, "metadata": {"uid": "u"}}


@pytest.mark.parametrize("error", [NotFound(404), Conflict(409), Invalid(422)])
async def test_a_refused_patch_is_the_callers_to_handle(error: KubeError) -> None:
    client = ScriptedClient(error)
    with pytest.raises(type(error)):
        await writer(client, ManualClock()).patch_pod_status("a", "x", {})


async def test_a_patch_is_given_up_after_its_attempts() -> None:
    client = ScriptedClient(DOWN, DOWN, DOWN)
    with pytest.raises(Unreachable):
        await writer(client, ManualClock()).patch_pod_status("a", "x", {})


class HangingClient(ScriptedClient):
    """Never answers; counts who waits."""

    waiting = 0
    most = 0

    async def request(self, *args: object, **kwargs: object) -> bytes:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1
        raise AssertionError("nobody sets the event")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_pod_that_never_stops_changing_is_given_up() -> None:
    waiting = {"metadata": {"uid": "u", "resourceVersion": "2"}, "spec": {}}
    client = ScriptedClient(*[Conflict(409, "Conflict"), waiting] * 20)
    with pytest.raises(Conflict):
        await ApiWriter(client, attempts=3).patch_pod_status("a", "x", {}, "u", waiting_at="1")
    assert [call.method for call in client.calls] == ["PATCH", "GET"] * 3


async def test_stop_ends_writes_in_flight_and_refuses_later_ones() -> None:
    client = HangingClient()
    writes = ApiWriter(client, concurrency=2)
    calls = [
        asyncio.create_task(writes.bind("a", "x", "u", "n")),
        asyncio.create_task(writes.patch_pod_status("a", "x", {})),
        asyncio.create_task(writes.bind("a", "waits for a slot", "u", "n")),
        asyncio.create_task(writes.send("POST", "/events", {})),
    ]
    await settle()
    assert client.waiting == 3
    writes.stop()
    writes.stop()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ends] == [WritesStopped] * 4
    assert client.waiting == 0
    with pytest.raises(WritesStopped):
        await writes.bind("a", "x", "u", "n")


async def test_stop_ends_the_wait_for_a_retry() -> None:
    client = ScriptedClient(TooManyRequests(429, retry_after=20.0))
    writes = ApiWriter(client)
    call = asyncio.create_task(writes.bind("a", "x", "u", "n"))
    await settle()
    writes.stop()
    with pytest.raises(WritesStopped):
        await call


async def test_a_cancelled_caller_is_cancelled_and_not_told_of_a_stop() -> None:
    writes = ApiWriter(HangingClient())
    call = asyncio.create_task(writes.bind("a", "x", "u", "n"))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_no_more_writes_than_slots_are_in_flight() -> None:
    client = HangingClient()
    writes = ApiWriter(client, concurrency=3)
    calls = [asyncio.create_task(writes.bind("a", str(i), "u", "n")) for i in range(10)]
    await settle()
    assert client.most == 3
    writes.stop()
    await asyncio.gather(*calls, return_exceptions=True)


class Hanging(ScriptedClient):
    """Answers nothing about one namespace; remembers whom it served."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self._path = f"/namespaces/{namespace}/"
        self.served: list[str] = []

    async def request(self, method: str, path: str, **_: object) -> bytes:
        if self._path in path:
            await asyncio.Event().wait()
        self.served.append(path)
        return b"{}"


async def test_a_namespace_whose_requests_hang_keeps_nobody_else_waiting() -> None:
    client = Hanging("bad")
    writes = ApiWriter(client, concurrency=8)
    stuck = [
        asyncio.create_task(call)
        for i in range(50)
        for call in (
            writes.bind("bad", str(i), "u", "n"),
            writes.patch_pod_status("bad", str(i), {}),
            writes.send("POST", "/namespaces/bad/events", {}, namespace="bad", patient=True),
        )
    ]
    await settle()
    others = (
        writes.bind("good", "x", "u", "n"),
        writes.patch_pod_status("good", "x", {}),
        writes.send("POST", "/namespaces/good/events", {}, namespace="good", patient=True),
    )
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*others)
    assert len(client.served) == 3
    writes.stop()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_binding_that_waits_to_be_tried_again_holds_no_slot() -> None:
    """One slot, and a namespace whose bindings all fail: each pause lets another use it."""
    asleep, wake = 0, asyncio.Event()

    async def sleep(seconds: float) -> None:
        nonlocal asleep
        asleep += 1
        await wake.wait()

    client = ScriptedClient(*[DOWN] * 20, *[OK] * 20)
    writes = ApiWriter(client, concurrency=1, sleep=sleep)
    calls = [asyncio.create_task(writes.bind("a", str(i), "u", "n")) for i in range(20)]
    await settle()
    assert asleep == 20, "all have been tried once"
    wake.set()
    assert all(outcome.bound for outcome in await asyncio.gather(*calls))


@pytest.mark.parametrize(
    ("answers", "result", "requests"),
    [
        pytest.param([], Binding.STALE, "", id="no longer right at its first turn"),
        pytest.param([DOWN], Binding.STALE, "B", id="no longer right when it is tried again"),
        pytest.param([LOST, DOWN, found("n")], Binding.BOUND, "BRR", id="was bound after all"),
        pytest.param([LOST, DOWN, found()], Binding.STALE, "BRR", id="was not bound"),
        pytest.param([LOST, DOWN, DOWN, DOWN], Binding.UNKNOWN, "BRRR", id="cannot be told"),
    ],
)
async def test_a_decision_that_no_longer_holds_is_not_sent(
    answers: list[object], result: Binding, requests: str
) -> None:
    client = ScriptedClient(*answers)

    def stale() -> str:
        return "the node is gone" if len(client.calls) >= min(len(answers), 1) else ""

    outcome = await writer(client, ManualClock()).bind("a", "x", "u", "n", stale)
    assert outcome.result is result
    made = "".join("B" if call.path.endswith("/binding") else "R" for call in client.calls)
    assert made == requests


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        pytest.param([found("n")], Binding.BOUND, id="bound"),
        pytest.param([found()], Binding.FAILED, id="not bound"),
        pytest.param([found("m")], Binding.ELSEWHERE, id="bound by others"),
        pytest.param([NotFound(404)], Binding.GONE, id="gone"),
        pytest.param([DOWN, LOST, ServerError(500), found("n")], Binding.BOUND, id="told at last"),
    ],
)
async def test_an_unknown_outcome_is_read_until_it_is_known(
    answers: list[object], result: Binding
) -> None:
    clock = ManualClock()
    client = ScriptedClient(*answers)
    outcome = await writer(client, clock).settle("a", "x", "u", "n")
    assert outcome.result is result
    assert [call.method for call in client.calls] == ["GET"] * len(answers)
    assert clock.slept == [2.5, 5.0, 10.0, 10.0][: len(answers)]


class Refusing(ScriptedClient):
    """Refuses everything, each time with an error of its own."""

    refused: "weakref.ref[KubeError]"

    async def request(self, *_: object, **__: object) -> bytes:
        raise self._error()

    def _error(self) -> KubeError:
        error = Invalid(422)
        self.refused = weakref.ref(error)
        return error


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda w: w.patch_pod_status("a", "x", {}), id="a patch"),
        pytest.param(lambda w: w.exchange("PUT", "/x"), id="an exchange"),
        pytest.param(lambda w: w.send("POST", "/x", {}, patient=True), id="a request"),
        pytest.param(lambda w: w.bind("a", "x", "u", "n"), id="a binding"),
    ],
)
async def test_a_refused_write_leaves_nothing_to_the_collector(
    write: Callable[[ApiWriter], Awaitable[object]],
) -> None:
    client = Refusing()
    collecting = gc.isenabled()
    gc.disable()
    try:
        with suppress(Invalid):
            await write(writer(client, ManualClock()))
        assert client.refused() is None
    finally:
        if collecting:
            gc.enable()
