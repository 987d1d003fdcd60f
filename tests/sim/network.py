"""Connections in memory between named hosts: latency from the seed, flow control, and faults.

A connection is two pipes. Bytes arrive in order, each piece some time after it was written; now and
then a piece is divided at any byte. As with TCP, bytes that meet a partition arrive after it has
healed, a connection whose other side is gone is reset by what is sent on it, and nobody notices a
silent end. Names in rules may be ``*``.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Literal, cast

from tests.sim.hosts import HOST, PEER, Host
from tests.sim.loop import VirtualLoop

Direction = Literal["to", "from", "both"]
Factory = Callable[[], asyncio.BaseProtocol]
Witness = Callable[[str, str, bytes], None]

HIGH_WATER = 256 * 1024
"""How many bytes may be under way, in all buffers together, before writing pauses."""
LOW_WATER = 64 * 1024
DIVIDED = 1 / 16
"""The share of pieces that arrive in two parts."""
SYN_SECONDS = 1.0
"""When a connection is tried again whose first packet was lost; then after twice as long."""
FIRST_PORT = 40_000

_FIN = b"FIN"
_RESET = b"RST"


@dataclass(slots=True, eq=False)
class _Rule:
    """Holds between two hosts, for connections opened by the first (or by either)."""

    client: str
    server: str

    def covers(self, client: str, server: str) -> bool:
        return self.client in ("*", client) and self.server in ("*", server)


@dataclass(slots=True, eq=False)
class _Cut(_Rule):
    after: int
    direction: Direction
    times: int


@dataclass(slots=True, eq=False)
class _Slow(_Rule):
    seconds: float
    bytes_per_second: float


class Network:
    """All hosts and connections."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self.latency = (0.0002, 0.002)
        """The shortest and the longest way of a piece, in seconds."""
        self.rng = rng
        self._loop = loop
        self._listening: dict[tuple[str, int], _Listener] = {}
        self._connections: dict[_Connection, None] = {}
        self._partitions: list[tuple[str, str]] = []
        """Pairs of hosts: nothing comes through from the first to the second."""
        self._refusals: list[_Rule] = []
        self.cuts: list[_Cut] = []
        """Of connections that will carry something."""
        self._slow: list[_Slow] = []
        self._ports = FIRST_PORT
        self._witnesses: list[Witness] = []

    def witness(self, witness: Witness) -> None:
        """Tell of every piece that a client writes, as it writes it: client, server, bytes."""
        self._witnesses.append(witness)

    def written(self, client: str, server: str, data: bytes) -> None:
        """A client has written something."""
        for witness in self._witnesses:
            witness(client, server, data)

    # Faults

    def partition(self, one: str, other: str, *, one_way: bool = False) -> None:
        """Let nothing through between two hosts, or nothing from the first to the second."""
        self._partitions.append((one, other))
        if not one_way:
            self._partitions.append((other, one))

    def refuse(self, client: str, server: str) -> None:
        """Refuse new connections."""
        self._refusals.append(_Rule(client, server))

    def delay(self, client: str, server: str, seconds: float) -> None:
        """Let every piece take so much longer, both ways."""
        self._slow.append(_Slow(client, server, seconds, 0.0))

    def throttle(self, client: str, server: str, bytes_per_second: float) -> None:
        """Let no more bytes through, each way of each connection."""
        self._slow.append(_Slow(client, server, 0.0, bytes_per_second))

    def cut(
        self, client: str, server: str, *, after: int, direction: Direction = "both", times: int = 1
    ) -> None:
        """Reset the next connections that carry something, after so many more bytes.

        Bytes are counted ``to`` the server, ``from`` it, or both.
        """
        self.cuts.append(_Cut(client, server, after, direction, times))

    def cut_all(self, client: str, server: str) -> int:
        """Reset all connections between two hosts now; answers how many."""
        found = list(self._between(client, server))
        for connection in found:
            connection.reset()
        return len(found)

    def half_open(self, client: str, server: str) -> int:
        """Open connections stay open, and carry nothing any more; answers how many."""
        found = list(self._between(client, server))
        for connection in found:
            connection.silent = True
        return len(found)

    def heal(self, client: str = "*", server: str = "*") -> None:
        """End partitions, refusals, delays, throttles and cuts to come between two hosts."""

        def kept(rule: _Rule) -> bool:
            return not (client in ("*", rule.client) and server in ("*", rule.server))

        pairs = {(client, server), (server, client)}
        self._partitions = [
            pair for pair in self._partitions if "*" not in (client, server) and pair not in pairs
        ]
        self._refusals = list(filter(kept, self._refusals))
        self.cuts = list(filter(kept, self.cuts))
        self._slow = list(filter(kept, self._slow))
        for connection in self._connections:
            connection.retry()

    def blocked(self, source: str, target: str) -> bool:
        """Whether nothing comes through."""
        return bool(self._partitions) and any(
            one in ("*", source) and other in ("*", target) for one, other in self._partitions
        )

    def forsake(self, host: Host, *, silently: bool) -> None:
        """A process is gone: its system closes its connections, or the machine is gone as well."""
        for address, listener in list(self._listening.items()):
            if listener.host is host:
                del self._listening[address]
        for connection in list(self._connections):
            connection.forsake(host, silently=silently)

    @property
    def open(self) -> int:
        """How many connections there are of which some end is open."""
        return len(self._connections)

    def connections_of(self, host: Host) -> int:
        """How many connections a process has open."""
        return sum(1 for each in self._connections if each.open_at(host))

    def _between(self, client: str, server: str) -> Iterator[_Connection]:
        rule = _Rule(client, server)
        return (each for each in self._connections if rule.covers(each.client, each.server))

    # For the loop

    async def connect(
        self, factory: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A connection to who listens there; raises OSError."""
        here = HOST.get()
        client = here.name if here is not None else ""
        again = SYN_SECONDS
        while self.blocked(client, host) or self.blocked(host, client):
            await asyncio.sleep(again)
            again *= 2
        await asyncio.sleep(2 * self.way(client, host))
        listener = self._listening.get((host, port))
        if listener is None or any(rule.covers(client, host) for rule in self._refusals):
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        self._ports += 1
        connection = _Connection(self, self._loop, client, host, self._ports, port)
        self._connections[connection] = None
        near = _End(connection, factory(), here, asyncio_context())
        far = _End(connection, listener.factory(), listener.host, listener.context(client))
        connection.join(near, far)
        far.open()
        near.opened = True
        near.protocol.connection_made(near)
        return near, near.protocol

    def listen(self, factory: Factory, host: str, port: int) -> asyncio.AbstractServer:
        """Accept connections; raises OSError."""
        here = HOST.get()
        assert here is not None, "servers run on hosts"
        if not port:
            self._ports += 1
            port = self._ports
        if (host, port) in self._listening:
            raise OSError(98, f"{host}:{port} is in use")
        listener = self._listening[host, port] = _Listener(self, factory, host, port, here)
        return listener

    def close(self, listener: _Listener) -> None:
        """No longer listen."""
        if self._listening.get(listener.address) is listener:
            del self._listening[listener.address]

    def way(self, client: str, server: str) -> float:
        """How long a piece takes."""
        shortest, longest = self.latency
        drawn = shortest + (longest - shortest) * self.rng.random()
        if not self._slow:
            return drawn
        return drawn + sum(rule.seconds for rule in self._slow if rule.covers(client, server))

    def slows(self, client: str, server: str) -> bool:
        """Whether something makes pieces take longer than the latency."""
        return any(rule.covers(client, server) for rule in self._slow)

    def rate(self, client: str, server: str) -> float:
        """Bytes per second; 0: no limit."""
        if not self._slow:
            return 0.0
        rates = [r.bytes_per_second for r in self._slow if r.covers(client, server)]
        return min((rate for rate in rates if rate), default=0.0)

    def cutting(self, client: str, server: str, direction: Direction) -> int | None:
        """After how many bytes to cut a connection that carries something now; None: not at all."""
        for rule in self.cuts:
            if rule.direction in ("both", direction) and rule.covers(client, server):
                rule.times -= 1
                if rule.times <= 0:
                    self.cuts.remove(rule)
                return rule.after
        return None

    def drop(self) -> None:
        """Hold nothing any more."""
        self._connections.clear()
        self._listening.clear()

    def forget(self, connection: _Connection) -> None:
        """Both ends are closed."""
        self._connections.pop(connection, None)


def asyncio_context() -> Context:
    """The context of the caller, for what happens later on its behalf."""
    from contextvars import copy_context

    return copy_context()


class _Listener(asyncio.AbstractServer):
    """Who listens at an address."""

    def __init__(
        self, network: Network, factory: Factory, host: str, port: int, here: Host
    ) -> None:
        self.factory = factory
        self.host = here
        self.address = (host, port)
        self._network = network

    @property
    def sockets(self) -> tuple[_Listener, ...]:
        """Itself, for who asks for the address."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        """The address."""
        return self.address

    def context(self, client: str) -> Context:
        """What handles a connection runs on the listener's host, for the client."""
        context = self.host.context()
        context.run(PEER.set, client)
        return context

    def close(self) -> None:
        """No longer listen."""
        self._network.close(self)

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop."""
        return asyncio.get_running_loop()

    def is_serving(self) -> bool:
        """Whether it listens."""
        return True

    async def start_serving(self) -> None:
        """It does already."""

    async def serve_forever(self) -> None:
        """Until cancelled."""
        await asyncio.get_running_loop().create_future()


class _Connection:
    """Two ends and the pipes between them."""

    def __init__(
        self,
        network: Network,
        loop: VirtualLoop,
        client: str,
        server: str,
        client_port: int,
        server_port: int,
    ) -> None:
        self.network = network
        self.loop = loop
        self.client = client
        self.server = server
        self.silent = False
        """Nothing comes through any more, in either direction, and nobody is told."""
        self.addresses = ((client or "outside", client_port), (server, server_port))
        self._left: int | None = None
        """How many bytes may pass before it is cut."""
        self._pipes: tuple[_Pipe, ...] = ()

    def join(self, near: _End, far: _End) -> None:
        there, back = _Pipe(self, near, far, "to"), _Pipe(self, far, near, "from")
        near.attach(there, self.addresses)
        far.attach(back, self.addresses[::-1])
        self._pipes = (there, back)

    def passing(self, size: int, direction: Direction) -> int:
        """How many of these bytes pass: fewer if the connection is cut among them."""
        if self._left is None and self.network.cuts:
            self._left = self.network.cutting(self.client, self.server, direction)
        if self._left is None:
            return size
        passed = min(size, self._left)
        self._left -= passed
        return passed

    @property
    def is_cut(self) -> bool:
        return self._left == 0

    def reset(self) -> None:
        """Break it, at both ends."""
        for pipe in self._pipes:
            pipe.reset()

    def retry(self) -> None:
        """A partition may have healed, or what made it slow may be over."""
        latest = self.loop.now + self.network.latency[1]
        slow = self.network.slows(self.client, self.server)
        for pipe in self._pipes:
            if not slow:
                pipe.hurry(latest)
            pipe.retry()

    def forsake(self, host: Host, *, silently: bool) -> None:
        for pipe in self._pipes:
            if pipe.source.host is host:
                self.silent |= silently
                pipe.source.vanish()

    def open_at(self, host: Host) -> bool:
        return any(pipe.source.host is host and not pipe.source.closed for pipe in self._pipes)

    def ended(self) -> None:
        """One end is closed."""
        if all(pipe.source.closed for pipe in self._pipes):
            self.network.forget(self)


class _Pipe:
    """What is under way from one end to the other."""

    def __init__(
        self, connection: _Connection, source: _End, target: _End, direction: Direction
    ) -> None:
        self.connection = connection
        self.source = source
        self.target = target
        self.direction: Direction = direction
        here, there = connection.client, connection.server
        self._ends = (here, there) if direction == "to" else (there, here)
        self.unread = 0
        """Bytes that were written and that the reader has not taken yet."""
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False

    def send(self, data: bytes) -> None:
        connection = self.connection
        network = connection.network
        if self.direction == "to":
            network.written(*self._ends, data)
        if (passed := connection.passing(len(data), self.direction)) < len(data):
            data = data[:passed]
        self.unread += len(data)
        if len(data) > 1 and network.rng.random() < DIVIDED:
            at = network.rng.randrange(1, len(data))
            self._put(data[:at])
            data = data[at:]
        if data:
            self._put(data)
        if connection.is_cut:
            connection.reset()

    def finish(self) -> None:
        self._put(_FIN)

    def reset(self) -> None:
        """Nothing more arrives after what is under way now but the reset."""
        self._put(_RESET)

    def resumed(self) -> None:
        """The reader reads again."""
        self._arm()

    def hurry(self, latest: float) -> None:
        """What is under way arrives by then, however slow the way was when it was sent."""
        if self._last <= latest:
            return
        self._last = latest
        self._pieces = deque((min(at, latest), piece) for at, piece in self._pieces)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._arm()

    def retry(self) -> None:
        if self._stalled:
            self._stalled = False
            self._arm()

    def target_gone(self) -> None:
        """Its process no longer takes what arrives."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._arm()

    def _put(self, piece: bytes) -> None:
        connection = self.connection
        network, now = connection.network, connection.loop.now
        client, server = connection.client, connection.server
        at = max(self._last, now + network.way(client, server))
        if rate := network.rate(client, server):
            at += len(piece) / rate
        self._last = at
        self._pieces.append((at, piece))
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._pieces and not self._stalled:
            when, head = self._pieces[0]
            target = self.target
            if target.reading or head is _RESET:
                loop = self.connection.loop
                # Where there is no process any more, its system answers, with a reset.
                gone = target.host is not None and target.host.state == "dead"
                context = self.source.context if gone else target.context
                self._timer = loop.call_at_true(max(when, loop.now), self._arrive, context=context)

    def _arrive(self) -> None:
        self._timer = None
        connection, now = self.connection, self.connection.loop.now
        if connection.silent:
            self._pieces.clear()
            return
        if connection.network.blocked(*self._ends):
            self._stalled = True
            return
        while self._pieces and self._pieces[0][0] <= now + 1e-9:
            piece = self._pieces[0][1]
            if not self.target.reading and piece is not _RESET:
                break
            self._pieces.popleft()
            self._hand_over(piece)
        self._arm()

    def _hand_over(self, piece: bytes) -> None:
        if piece is _RESET:
            self._pieces.clear()
            self.target.lose(ConnectionResetError(104, "Connection reset by peer"))
        elif piece is _FIN:
            self.target.end_of_data()
        else:
            self.unread -= len(piece)
            self.target.take(piece)
            self.source.drained()


class _End(asyncio.Transport):
    """The transport at one end, which belongs to a host."""

    def __init__(
        self,
        connection: _Connection,
        protocol: asyncio.BaseProtocol,
        host: Host | None,
        context: Context,
    ) -> None:
        super().__init__()
        self.connection = connection
        self.protocol = protocol
        self.host = host
        self.context = context
        self.opened = False
        self.closed = False
        self.reading = True
        self._closing = False
        self._paused = False
        self._pipe: _Pipe | None = None

    def attach(self, pipe: _Pipe, addresses: tuple[Any, Any]) -> None:
        self._pipe = pipe
        self._extra = {"sockname": addresses[0], "peername": addresses[1]}

    @property
    def pipe(self) -> _Pipe:
        assert self._pipe is not None, "it is joined to another end"
        return self._pipe

    def open(self) -> None:
        """Tell the protocol, on its host."""
        self.connection.loop.call_soon(self._open, context=self.context)

    def _open(self) -> None:
        self.opened = True
        self.protocol.connection_made(self)

    # From the other end

    def take(self, data: bytes) -> None:
        if not self._closing and not self.closed:
            cast("asyncio.Protocol", self.protocol).data_received(data)
        elif self.closed:
            self.pipe.reset()

    def end_of_data(self) -> None:
        if self._closing or self.closed:
            return
        keep_open = cast("asyncio.Protocol", self.protocol).eof_received()
        if not keep_open:
            self.close()

    def lose(self, error: Exception | None) -> None:
        """The connection is gone."""
        if self.closed:
            return
        self._closing = self.closed = True
        self.protocol.connection_lost(error)
        self.connection.ended()

    def vanish(self) -> None:
        """Its process is gone: the protocol hears nothing, the other end that this one closed."""
        if not self.closed:
            self._closing = self.closed = True
            self.reading = True
            self.pipe.finish()
            self._incoming().target_gone()
            self.connection.ended()

    def drained(self) -> None:
        if self._paused and self.pipe.unread <= LOW_WATER and not self.closed:
            self._paused = False
            # On the writer's host, which may be paused.
            self.connection.loop.call_soon(self.protocol.resume_writing, context=self.context)

    # For the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        self.pipe.send(bytes(data))
        if self.pipe.unread > HIGH_WATER and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.pipe.finish()
        self.connection.loop.call_soon(self.lose, None, context=self.context)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self._incoming().resumed()

    def is_reading(self) -> bool:
        return self.reading

    def _incoming(self) -> _Pipe:
        return self.pipe.target.pipe

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits of the module hold."""

    def get_write_buffer_size(self) -> int:
        return self.pipe.unread

    def can_write_eof(self) -> bool:
        return False
