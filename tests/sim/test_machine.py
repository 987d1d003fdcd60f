"""The machine of the simulation: its loop, its network, its hosts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.slices import checkpoint, in_slices
from tests.sim.hosts import HOST, THREAD, Host, Thread
from tests.sim.loop import DeadlockError, LivelockError, TooManySteps
from tests.sim.network import HIGH_WATER
from tests.sim.simulation import Simulation


class Talk(asyncio.Protocol):
    """Notes what it hears."""

    def __init__(self, simulation: Simulation) -> None:
        self.heard = b""
        self.pieces: list[tuple[float, bytes]] = []
        self.lost: list[Exception | None] = []
        self.writing = True
        self.transport: asyncio.Transport | None = None
        self._simulation = simulation

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.pieces.append((self._simulation.now, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.writing = False

    def resume_writing(self) -> None:
        self.writing = True

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


class Line:
    """A connection from host ``c`` to host ``s``."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.client_host = simulation.host("c")
        self.server_host = simulation.host("s")
        self.accepted: list[Talk] = []
        self.client = Talk(simulation)

    async def open(self) -> None:
        loop = self.simulation.loop

        def accept() -> Talk:
            self.accepted.append(Talk(self.simulation))
            return self.accepted[-1]

        await self.server_host.task(loop.create_server(accept, "s", 1))
        await self.client_host.task(self.connect())
        await asyncio.sleep(1.0)

    async def connect(self) -> None:
        await self.simulation.loop.create_connection(lambda: self.client, "s", 1)

    @property
    def server(self) -> Talk:
        return self.accepted[-1]


def run(work: Any, **options: Any) -> Any:
    """Run a function of a simulation that returns a coroutine."""
    simulation = Simulation(1, **options)
    result = simulation.run(work(simulation))
    assert simulation.faults == []
    return result


# The loop


def test_time_jumps_and_nothing_waits() -> None:
    async def work(simulation: Simulation) -> float:
        await asyncio.sleep(86_400.0)
        return simulation.now

    assert run(work) == 86_400.0


def test_what_waits_for_ever_is_a_deadlock() -> None:
    async def work(simulation: Simulation) -> None:
        await simulation.loop.create_future()

    with pytest.raises(DeadlockError):
        run(work)


def test_callbacks_without_end_at_one_instant_are_a_livelock() -> None:
    async def work(simulation: Simulation) -> None:
        while True:  # noqa: ASYNC110  because it is the fault
            await asyncio.sleep(0)

    with pytest.raises(LivelockError):
        run(work)


def test_a_seed_is_bounded_in_steps() -> None:
    async def work(simulation: Simulation) -> None:
        while True:  # noqa: ASYNC110  because it never ends
            await asyncio.sleep(1.0)

    with pytest.raises(TooManySteps):
        run(work, max_callbacks=1000)


def order_of(seed: int) -> list[int]:
    """In which order eight tasks run that are ready at once."""
    ran: list[int] = []

    async def note(number: int) -> None:
        ran.append(number)

    async def work() -> None:
        await asyncio.gather(*(note(number) for number in range(8)))

    Simulation(seed).run(work())
    return ran


def test_tasks_run_in_the_order_of_the_seed() -> None:
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5


def test_callbacks_of_one_host_stay_in_order() -> None:
    ran: list[int] = []

    async def work(simulation: Simulation) -> None:
        for number in range(50):
            simulation.loop.call_soon(ran.append, number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run(work)
    assert ran == list(range(50))


def test_sleep_zero_lets_all_others_run() -> None:
    async def work(simulation: Simulation) -> None:
        ran: list[int] = []

        async def note(number: int) -> None:
            ran.append(number)

        tasks = [asyncio.create_task(note(number)) for number in range(8)]
        await asyncio.sleep(0)
        assert sorted(ran) == list(range(8))
        await asyncio.gather(*tasks)

    run(work)


def test_work_for_threads_is_done_at_once() -> None:
    async def work(simulation: Simulation) -> int:
        nothing: dict[str, int] = {}
        with pytest.raises(KeyError):
            await asyncio.to_thread(nothing.__getitem__, "x")
        return await asyncio.to_thread(sum, (1, 2))

    assert run(work) == 3


# Hosts


async def _beats(host: Host, simulation: Simulation, seconds: float) -> list[float]:
    """When a task of a host that sleeps a second each time wakes, in true time."""
    woken: list[float] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(1.0)
            woken.append(simulation.now)

    host.task(beat())
    await asyncio.sleep(seconds)
    return woken


def test_the_timers_of_a_host_follow_its_clock() -> None:
    async def work(simulation: Simulation) -> list[float]:
        host = simulation.host("h")
        host.drift(2.0)
        return await _beats(host, simulation, 2.2)

    assert run(work) == [0.5, 1.0, 1.5, 2.0]


def test_a_clock_that_changes_its_rate_dates_its_timers_again() -> None:
    async def work(simulation: Simulation) -> float:
        host = simulation.host("h")

        async def sleep() -> float:
            await asyncio.sleep(10.0)
            return simulation.now

        waking = host.task(sleep())
        await asyncio.sleep(5.0)
        host.drift(0.5)
        simulation.loop.clocks_changed(host)
        woken = await waking
        assert host.monotonic() == 10.0
        return float(woken)

    assert run(work) == 15.0


def test_only_the_clock_of_the_fence_counts_suspension() -> None:
    async def work(simulation: Simulation) -> None:
        host = simulation.host("h")
        await asyncio.sleep(5.0)
        host.suspend(3.0)
        assert (host.monotonic(), host.boottime()) == (2.0, 5.0)
        host.step(-3600.0)
        assert host.wall() == simulation.host("other").wall() - 3600.0

    run(work)


def test_a_paused_host_does_what_came_due_when_it_goes_on() -> None:
    async def work(simulation: Simulation) -> list[float]:
        host = simulation.host("h")
        simulation.later(1.5, lambda: setattr(host, "state", "paused"))

        def go_on() -> None:
            host.state = "running"
            simulation.loop.resume(host)

        simulation.later(10.25, go_on)
        return await _beats(host, simulation, 12.0)

    assert run(work) == [1.0, 10.25, 11.25]


@pytest.mark.parametrize("thread", ["scheduling", "heartbeat"])
def test_a_thread_that_stalls_leaves_the_other_at_work(thread: Thread) -> None:
    async def work(simulation: Simulation) -> list[list[float]]:
        host = simulation.host("h")

        async def beats_in(which: Thread) -> list[float]:
            THREAD.set(which)
            return await _beats(host, simulation, 5.5)

        simulation.later(1.5, lambda: host.stalled.update({thread: []}))
        simulation.later(4.25, lambda: simulation.loop.resume_thread(host, thread))
        both: tuple[Thread, ...] = ("scheduling", "heartbeat")
        return await asyncio.gather(*(asyncio.create_task(beats_in(each)) for each in both))

    stalled, other = run(work)[:: 1 if thread == "scheduling" else -1]
    assert stalled == [1.0, 4.25, 5.25]
    assert other == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_dead_host_does_nothing_not_even_clean_up() -> None:
    cleaned: list[str] = []

    async def work(simulation: Simulation) -> None:
        host = simulation.host("h")

        async def careful() -> None:
            try:
                await asyncio.sleep(2.0)
            finally:
                cleaned.append("up")

        host.task(careful())
        await asyncio.sleep(1.0)
        host.state = "dead"
        await asyncio.sleep(5.0)
        assert cleaned == []

    run(work)


def test_a_host_does_not_wait_for_slices_of_work_on_a_dead_one() -> None:
    done: list[str] = []

    def long() -> None:
        for _ in range(1_000):
            checkpoint()
        host = HOST.get()
        done.append(host.name if host else "")

    async def work(simulation: Simulation) -> None:
        dying, other = simulation.host("h"), simulation.host("o")
        for _ in range(3):  # one works, two wait for their turn
            dying.task(in_slices(long))
        await asyncio.sleep(0)
        dying.state = "dead"
        other.task(in_slices(long))
        await asyncio.sleep(1.0)

    run(work)
    assert done == ["o"]


# Connections


def _on_line(work: Any, **options: Any) -> Any:
    async def with_line(simulation: Simulation) -> Any:
        line = Line(simulation)
        await line.open()
        return await work(line)

    return run(with_line, **options)


def test_bytes_arrive_in_order_whatever_the_latency() -> None:
    async def work(line: Line) -> None:
        said = b""
        for number in range(200):
            piece = b"%d," % number
            said += piece
            line.client.say(piece)
            if number % 7 == 0:
                await asyncio.sleep(0.0005)
        await asyncio.sleep(1.0)
        assert line.server.heard == said
        assert len(line.server.pieces) > 200  # some were divided

    _on_line(work)


def test_a_slow_reader_pauses_the_writer() -> None:
    async def work(line: Line) -> None:
        assert line.server.transport is not None
        line.server.transport.pause_reading()
        line.client.say(b"x" * (HIGH_WATER + 1))
        await asyncio.sleep(1.0)
        assert not line.client.writing
        assert line.server.heard == b""
        line.server.transport.resume_reading()
        await asyncio.sleep(1.0)
        assert line.client.writing
        assert len(line.server.heard) == HIGH_WATER + 1

    _on_line(work)


@pytest.mark.parametrize("after", [0, 1, 5, 9])
def test_a_connection_is_cut_at_any_byte(after: int) -> None:
    async def work(line: Line) -> None:
        line.simulation.network.cut("c", "s", after=after, direction="to")
        line.client.say(b"0123456789")
        await asyncio.sleep(1.0)
        assert line.server.heard == b"0123456789"[:after]
        for end in (line.client, line.server):
            (error,) = end.lost
            assert isinstance(error, ConnectionResetError)
        assert line.simulation.network.open == 0

    _on_line(work)


def test_bytes_from_the_server_are_counted_apart() -> None:
    async def work(line: Line) -> None:
        line.simulation.network.cut("c", "s", after=3, direction="from")
        line.client.say(b"a long question")
        await asyncio.sleep(1.0)
        assert line.server.heard == b"a long question"
        line.server.say(b"answer")
        await asyncio.sleep(1.0)
        assert line.client.heard == b"ans"

    _on_line(work)


def test_a_partition_holds_bytes_until_it_has_healed() -> None:
    async def work(line: Line) -> None:
        network = line.simulation.network
        network.partition("c", "s")
        line.client.say(b"hello")
        await asyncio.sleep(60.0)
        assert line.server.heard == b""
        network.heal("c", "s")
        await asyncio.sleep(1.0)
        assert line.server.heard == b"hello"
        assert line.client.lost == []

    _on_line(work)


def test_a_one_way_partition_lets_the_other_way_through() -> None:
    async def work(line: Line) -> None:
        line.simulation.network.partition("c", "s", one_way=True)
        line.client.say(b"hello")
        line.server.say(b"you")
        await asyncio.sleep(1.0)
        assert (line.client.heard, line.server.heard) == (b"you", b"")

    _on_line(work)


def test_a_half_open_connection_carries_nothing_and_says_nothing() -> None:
    async def work(line: Line) -> None:
        assert line.simulation.network.half_open("c", "s") == 1
        line.client.say(b"hello")
        await asyncio.sleep(600.0)
        assert (line.server.heard, line.client.lost) == (b"", [])
        await line.client_host.task(line.connect())
        line.client.say(b"again")
        await asyncio.sleep(1.0)
        assert line.accepted[-1].heard == b"again"

    _on_line(work)


def test_delays_and_throttles() -> None:
    async def work(line: Line) -> None:
        network = line.simulation.network
        network.delay("c", "s", 2.0)
        began = line.simulation.now
        line.client.say(b"hello")
        await asyncio.sleep(3.0)
        assert line.server.pieces[0][0] - began > 2.0
        network.heal("c", "s")
        network.throttle("c", "s", 1000.0)
        began = line.simulation.now
        line.client.say(b"x" * 3000)
        await asyncio.sleep(10.0)
        assert 3.0 < line.server.pieces[-1][0] - began < 3.1

    _on_line(work)


def test_what_a_slow_way_holds_arrives_when_it_is_slow_no_more() -> None:
    async def work(line: Line) -> None:
        network = line.simulation.network
        network.throttle("c", "s", 100.0)
        for _ in range(3):
            line.client.say(b"x" * 10_000)
        network.throttle("c", "s", 200.0)
        await asyncio.sleep(2.0)
        assert line.server.heard == b""
        network.heal("c", "other")
        await asyncio.sleep(1.0)
        assert line.server.heard == b""
        network.heal("c", "s")
        line.client.say(b"last")
        await asyncio.sleep(1.0)
        assert line.server.heard == b"x" * 30_000 + b"last"

    _on_line(work)


def test_refused_connections_and_ports_where_nobody_listens() -> None:
    async def work(line: Line) -> None:
        line.simulation.network.refuse("c", "*")
        with pytest.raises(ConnectionRefusedError):
            await line.client_host.task(line.connect())
        line.simulation.network.heal()
        with pytest.raises(ConnectionRefusedError):
            await line.simulation.loop.create_connection(lambda: line.client, "s", 2)

    _on_line(work)


def test_connections_of_a_killed_process_are_closed_after_what_it_wrote() -> None:
    async def work(line: Line) -> None:
        line.client.say(b"last words")
        line.client_host.state = "dead"
        line.simulation.bury(line.client_host, silently=False)
        await asyncio.sleep(1.0)
        assert (line.server.heard, line.server.lost) == (b"last words", [None])
        assert line.client.lost == []

    _on_line(work)


def test_what_is_sent_to_a_killed_process_resets_the_connection() -> None:
    async def work(line: Line) -> None:
        line.server_host.state = "dead"
        line.client.say(b"hello")
        line.simulation.bury(line.server_host, silently=False)
        await asyncio.sleep(1.0)
        assert len(line.client.lost) == 1
        with pytest.raises(ConnectionRefusedError):
            await line.client_host.task(line.connect())

    _on_line(work)


def test_nobody_hears_of_the_end_of_a_machine() -> None:
    async def work(line: Line) -> None:
        line.client_host.state = "dead"
        line.simulation.bury(line.client_host, silently=True)
        line.server.say(b"hello?")
        await asyncio.sleep(600.0)
        assert line.server.lost == []

    _on_line(work)


def test_a_polite_end_tells_the_other_end() -> None:
    async def work(line: Line) -> None:
        assert line.client.transport is not None
        line.client.say(b"bye")
        line.client.transport.close()
        line.client.say(b"ignored")
        await asyncio.sleep(1.0)
        assert line.server.heard == b"bye"
        assert (line.client.lost, line.server.lost) == ([None], [None])
        assert line.simulation.network.open == 0

    _on_line(work)


def test_connecting_waits_for_the_end_of_a_partition() -> None:
    async def work(line: Line) -> float:
        network, loop = line.simulation.network, line.simulation.loop
        network.partition("c", "s")
        began = loop.now
        line.simulation.later(2.0, lambda: network.heal("c", "s"))
        await line.client_host.task(line.connect())
        return loop.now - began

    assert 3.0 < _on_line(work) < 3.1  # packets go out after 0, 1 and 3 s
