"""Faults on real processes: no pod is lost, bound twice, or bound by who does not hold the lease.

`make faults` carries out all of them, more often, and writes docs/reliability.md.
"""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from e2e.faults import fencing
from e2e.faults.catalogue import ALL, Fault
from e2e.faults.running import carry_out
from e2e.faults.scene import scene
from e2e.faults.wire import wire
from tests.kube.support import eventually


@pytest.mark.parametrize("fault", [each for each in ALL if each.quick], ids=lambda each: each.name)
async def test_fault(fault: Fault, tmp_path: Path) -> None:
    async with scene(tmp_path) as stage:
        outcome = await carry_out(stage, fault, 1)
    assert outcome.sound, outcome.seen
    assert outcome.recovery_seconds, "every pod has a node"


async def test_a_leader_that_was_stopped_between_check_and_write_writes_nothing(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as stage:
        with_timer = await fencing.measure(stage, 1, deadline=True)
        without = await fencing.measure(stage, 1, deadline=False)
    assert (with_timer.ended_by_timer, with_timer.sent, with_timer.late) == (1, 0, 0)
    assert without.sent == 1, "the test stops the process where it matters"


async def test_what_was_sent_during_a_partition_is_not_delivered_when_connections_are_cut() -> None:
    """On an old connection or a new one: a network does not keep bytes for so long."""
    arrived: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            arrived.append(head.split()[1])
            if arrived[-1] == b"/last":
                done.set()

    authority = trustme.CA()
    context, trust = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(trust)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]

    async with server, wire(f"https://127.0.0.1:{port}", trust) as line:
        host, _, number = line.url.removeprefix("http://").partition(":")
        writers = []

        async def send(path: str) -> None:
            _, writer = await asyncio.open_connection(host, int(number))
            writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            writers.append(writer)

        await send("/first")
        await eventually(lambda: bool(arrived))
        line.partition()
        writers[0].write(b"GET /held HTTP/1.1\r\n\r\n")
        await send("/new")
        await eventually(lambda: line.opening == 1)
        line.heal(cut=True)
        await send("/last")
        await done.wait()
        for each in writers:
            each.close()
    assert arrived == [b"/first", b"/last"]
