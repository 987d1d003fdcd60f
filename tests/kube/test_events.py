"""Events: created, repeated as series, truncated, dropped when there are too many."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler import slices
from scheduler.kube.client import MERGE_PATCH
from scheduler.kube.errors import Ambiguous, Conflict, Forbidden, NotFound, TooManyRequests
from scheduler.kube.events import CAPACITY, EventRecorder, RegardingReference, truncate
from scheduler.kube.writes import PATIENT_LEAST, ApiWriter
from scheduler.observe.metrics import Metrics
from scheduler.slices import in_slices
from tests.patience import PATIENCE

from .support import Call, ManualClock, ScriptedClient, eventually, sample

POD = RegardingReference("Pod", "x", "a", "uid-x")
OK: dict[str, object] = {}


class Bench:
    """A recorder on a manual clock, and what it sent."""

    def __init__(self, *answers: object, capacity: int = CAPACITY) -> None:
        self.client = ScriptedClient(*answers)
        self.metrics = Metrics()
        self.clock = ManualClock()
        self.recorder = EventRecorder(
            ApiWriter(self.client),
            self.metrics,
            "equipoise",
            "equipoise-0",
            capacity=capacity,
            clock=self.clock,
            wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.clock.now),
            rng=lambda: 0.5,
            sleep=self._sleep,
        )
        self.naps: list[float] = []

    async def _sleep(self, seconds: float) -> None:
        if seconds == 60.0:  # the sweeper: tests sweep for themselves
            await asyncio.Event().wait()
        self.naps.append(seconds)

    def record(self, note: str = "no room", regarding: RegardingReference = POD) -> None:
        self.recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", note)

    async def send(self) -> list[Call]:
        """Let the workers drain the queue; the requests they made."""
        before = len(self.client.calls)
        with self.working():
            await eventually(lambda: not self.recorder._queue.unfinished)
        await asyncio.sleep(0)  # for the workers to end
        await asyncio.sleep(0)
        return self.client.calls[before:]

    @contextmanager
    def working(self) -> Iterator[None]:
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
        finally:
            task.cancel()

    @property
    def dropped(self) -> float:
        return sample(self.metrics, "equipoise_events_dropped_total")


class HoldingClient(ScriptedClient):
    """Never ends a binding; answers events when the test lets it, and counts those that wait."""

    def __init__(self) -> None:
        super().__init__(*[OK] * 1000)
        self.answer = asyncio.Event()
        self.waiting = 0
        self.most = 0

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if path.endswith("/binding"):
            await asyncio.Event().wait()
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.answer.wait()
        self.waiting -= 1
        return await super().request(method, path, **options)


async def test_an_event_is_created_with_all_that_the_api_asks_for() -> None:
    bench = Bench(OK)
    bench.record("0/3 nodes are available: 3 Insufficient cpu.")
    [call] = await bench.send()
    assert (call.method, call.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/a/events")
    assert call.body.pop("metadata")["name"].startswith("x.")
    assert call.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T00:16:40.000000Z",
        "reportingController": "equipoise",
        "reportingInstance": "equipoise-0",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "a",
            "name": "x",
            "uid": "uid-x",
        },
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "0/3 nodes are available: 3 Insufficient cpu.",
    }


async def test_an_event_about_a_cluster_scoped_object_goes_to_the_default_namespace() -> None:
    bench = Bench(OK)
    bench.record(regarding=RegardingReference("Node", "n"))
    [call] = await bench.send()
    assert call.path == "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_the_first_repetition_is_written_and_further_ones_are_counted() -> None:
    bench = Bench(OK, OK)
    bench.record()
    [created] = await bench.send()
    bench.clock.now += 10
    bench.record()
    [patched] = await bench.send()
    assert (patched.method, patched.content_type) == ("PATCH", MERGE_PATCH)
    assert patched.path == f"{created.path}/{created.body['metadata']['name']}"
    assert patched.body == {
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:16:50.000000Z"}
    }
    for _ in range(5):
        bench.record()
    assert await bench.send() == []


async def test_the_final_count_is_written_when_the_series_has_ended() -> None:
    bench = Bench(OK, OK, OK, OK)
    bench.record()
    bench.record("another")
    await bench.send()
    bench.record()
    await bench.send()
    for _ in range(5):
        bench.record()
    bench.clock.now += 360
    bench.recorder.sweep()
    assert await bench.send() == []
    bench.clock.now += 1
    bench.recorder.sweep()
    [call] = await bench.send()
    assert call.body["series"]["count"] == 7
    assert bench.recorder._series == {}


async def test_a_sweep_of_many_series_gives_the_loop_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    bench = Bench()
    for number in range(10):
        bench.record(f"note {number}")
    bench.clock.now += 361
    sweeping = asyncio.create_task(in_slices(bench.recorder.sweep))
    left = []
    while not sweeping.done():
        await asyncio.sleep(0)
        left.append(len(bench.recorder._series))
        if len(left) == 3:
            bench.record("note 8")  # anew, so it is not the series that has ended
    assert left[:3] == [10, 9, 8]
    assert [key.note for key in bench.recorder._series] == ["note 8"]


async def test_a_series_that_goes_on_is_refreshed_every_half_hour() -> None:
    bench = Bench(OK, OK, OK)
    bench.record()
    await bench.send()
    bench.record()
    await bench.send()
    sent: list[Call] = []
    for _ in range(7):
        bench.clock.now += 300
        bench.record()
        bench.recorder.sweep()
        sent += await bench.send()
    assert [call.body["series"]["count"] for call in sent] == [9]


async def test_after_six_quiet_minutes_an_equal_event_is_a_new_one() -> None:
    bench = Bench(OK, OK)
    bench.record()
    [first] = await bench.send()
    bench.clock.now += 361
    bench.record()
    [second] = await bench.send()
    assert second.method == "POST"
    assert second.body["metadata"]["name"] != first.body["metadata"]["name"]


async def test_events_that_differ_in_anything_are_different_even_at_the_same_instant() -> None:
    bench = Bench(OK, OK, OK)
    bench.record("one")
    bench.record("two")
    bench.record("one", RegardingReference("Pod", "x", "a", "another uid"))
    calls = await bench.send()
    assert [call.method for call in calls] == ["POST"] * 3
    assert len({call.body["metadata"]["name"] for call in calls}) == 3


async def test_repetitions_before_the_first_write_go_with_it() -> None:
    bench = Bench(OK)
    for _ in range(3):
        bench.record()
    [call] = await bench.send()
    assert call.method == "POST"
    assert call.body["series"]["count"] == 3


async def test_an_event_that_the_server_forgot_is_made_again() -> None:
    bench = Bench(OK, NotFound(404), OK)
    bench.record()
    await bench.send()
    bench.record()
    calls = await bench.send()
    assert [call.method for call in calls] == ["PATCH", "POST"]
    assert calls[1].body["series"]["count"] == 2


async def test_an_event_whose_answer_was_lost_is_not_made_twice() -> None:
    bench = Bench(Ambiguous("reset"), Conflict(409, "AlreadyExists"))
    bench.record()
    calls = await bench.send()
    assert [call.body["metadata"]["name"] for call in calls] == [
        calls[0].body["metadata"]["name"]
    ] * 2
    assert bench.dropped == 0


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    bench = Bench(TooManyRequests(429, retry_after=9.0), OK)
    bench.record()
    await bench.send()
    assert bench.naps == [9.0]


async def test_what_is_refused_is_dropped_counted_and_begun_anew_next_time() -> None:
    bench = Bench(Forbidden(403), OK)
    bench.record()
    await bench.send()
    assert bench.dropped == 1
    bench.record()
    [call] = await bench.send()
    assert call.method == "POST"


async def test_a_server_that_stays_away_costs_four_tries() -> None:
    bench = Bench(*[Ambiguous("reset")] * 4)
    bench.record()
    assert len(await bench.send()) == 4
    assert bench.dropped == 1


async def test_overflow_is_dropped_and_counted() -> None:
    bench = Bench(OK, OK, capacity=2)
    for name in ("one", "two", "three", "four"):
        bench.record(name)
    assert bench.dropped == 2
    calls = await bench.send()
    assert [call.body["note"] for call in calls] == ["one", "two"]


async def test_a_flood_of_warnings_leaves_room_for_what_went_well() -> None:
    bench = Bench(OK, OK, OK, OK, capacity=4)
    for name in ("one", "two", "three", "four", "five"):
        bench.record(name)
    for name in ("bound", "also bound"):
        bench.recorder.record(POD, "Normal", "Scheduled", "Binding", name)
    assert bench.dropped == 3
    calls = await bench.send()
    assert [call.body["note"] for call in calls] == ["one", "two", "three", "bound"]


async def test_remembered_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.kube.events.MAX_SERIES", 3)
    bench = Bench()
    for name in range(10):
        bench.record(str(name))
    assert len(bench.recorder._series) == 3


async def test_flush_writes_final_counts() -> None:
    bench = Bench(OK, OK, OK)
    bench.record()
    await bench.send()
    bench.record()
    await bench.send()
    bench.record()
    with bench.working():
        assert await bench.recorder.flush(PATIENCE)
    assert bench.client.calls[-1].body["series"]["count"] == 3


async def test_flush_gives_up_at_its_deadline() -> None:
    bench = Bench()
    bench.record()
    assert not await bench.recorder.flush(0.01)


async def test_flush_drops_what_does_not_fit() -> None:
    bench = Bench(OK, OK, OK, OK, capacity=1)
    for note in ("one", "two", "one", "two"):
        bench.record(note)
        await bench.send()
    bench.record("one")
    bench.record("two")
    assert not await bench.recorder.flush(0.01)
    assert bench.dropped == 1


async def test_a_repetition_during_the_first_write_is_written_after_it() -> None:
    """Two at once would both create the event, and the second count would be lost."""
    client = HoldingClient()
    recorder = EventRecorder(ApiWriter(client), Metrics(), "equipoise", "equipoise-0")
    sending = asyncio.create_task(recorder.run())
    recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
    await eventually(lambda: client.waiting == 1)
    recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
    client.answer.set()
    assert await recorder.flush(PATIENCE)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert [call.method for call in client.calls] == ["POST", "PATCH"]
    assert client.calls[1].body["series"]["count"] == 2
    assert client.most == 1


async def test_an_unexpected_fault_costs_one_event() -> None:
    bench = Bench(ValueError("surprise"), OK)
    bench.record("one")
    bench.record("two")
    calls = await bench.send()
    assert [call.body["note"] for call in calls] == ["one", "two"]
    assert bench.dropped == 1


@pytest.mark.parametrize(
    ("bindings", "events", "in_flight"),
    [
        pytest.param(0, 40, 16, id="no bindings, many events"),
        pytest.param(50, 40, 14, id="events take what bindings leave"),
        pytest.param(100, 40, PATIENT_LEAST, id="more bindings than slots"),
        pytest.param(100, 90, 16, id="the queue fills up"),
    ],
)
async def test_bindings_go_first_until_events_pile_up(
    bindings: int, events: int, in_flight: int
) -> None:
    client = HoldingClient()
    writer = ApiWriter(client, concurrency=64)
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(writer.bind("a", f"x{n}", "u", "n")) for n in range(bindings)
    ]
    await asyncio.sleep(0)
    recorder = EventRecorder(writer, Metrics(), "equipoise", "equipoise-0", capacity=100)
    for number in range(events):
        recorder.record(POD, "Normal", "Scheduled", "Binding", str(number))
    tasks.append(asyncio.create_task(recorder.run()))
    await eventually(lambda: client.waiting == in_flight)
    client.answer.set()
    assert await recorder.flush(PATIENCE), "even with all slots taken every event goes out"
    assert len(client.calls) == events
    assert client.most == in_flight
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_names_of_long_objects_stay_valid() -> None:
    bench = Bench(OK)
    bench.record(regarding=RegardingReference("Pod", "x" * 235 + "-" + "y" * 17, "a"))
    [call] = await bench.send()
    name = call.body["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name


@pytest.mark.parametrize(
    ("note", "cut"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
        ("x" + "é" * 600, "x" + "é" * 509 + " ..."),
        ("half a pair \ud800", "half a pair ?"),
    ],
    ids=["fits", "one too long", "counted in bytes", "cut between characters", "not a character"],
)
def test_notes_are_cut_to_what_the_server_accepts(note: str, cut: str) -> None:
    assert truncate(note) == cut
    assert len(truncate(note).encode()) <= 1024
