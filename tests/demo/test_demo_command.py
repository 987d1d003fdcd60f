"""``equipoise demo``, as its users see it."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.demo.support import environment, finished, free_port, outcome, ready, started
from tests.patience import PATIENCE

SUMMARY = re.compile(
    r"(?P<bound>\d+) of (?P<total>\d+) pods bound on (?P<nodes>\d+) nodes "
    r"in \d+\.\d\d s \(\d+ pods/s\), (?P<pending>\d+) pending"
)


async def test_once_prints_a_summary_and_ends_well(tmp_path: Path) -> None:
    code, out, err = await outcome("demo", "--once", "--nodes", "20", env=environment(tmp_path))
    assert (code, err) == (0, "")
    summary = SUMMARY.search(out)
    assert summary is not None, out
    bound, total, pending = (int(summary[name]) for name in ("bound", "total", "pending"))
    assert bound > 50
    assert pending > 0
    assert bound + pending == total
    assert "Insufficient cpu" in out
    assert "didn't match Pod's node affinity/selector" in out
    assert "example.com/approval" in out
    # A fifth pod of six CPUs would fit the node with two cells, but neither of them.
    assert "Then 5 pods more got CPUs of their own in 2 NUMA cells, 0 refused" in out


async def test_an_interrupt_ends_the_demo_well_without_a_terminal(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("demo", "--nodes", "10", "--port", str(port))
    async with started(*arguments, env=environment(tmp_path)) as process:
        await ready(port)
        process.send_signal(signal.SIGINT)
        code, out, err = await finished(process)
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("Stopped.")


async def test_the_demo_shows_its_screen_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    terminal = {**environment(tmp_path), "TERM": "xterm-256color", "LINES": "60"}
    try:
        async with started("demo", "--nodes", "10", env=terminal, stdout=theirs) as process:
            os.close(theirs)
            async with asyncio.timeout(PATIENCE):
                shown = b""
                while b"Latest decisions" not in shown or b"fast-0" not in shown:
                    shown += await asyncio.to_thread(os.read, ours, 65536)
            process.send_signal(signal.SIGINT)
            reading = asyncio.create_task(asyncio.to_thread(_drain, ours))
            code, _, err = await finished(process)
            await reading
    finally:
        os.close(ours)
    assert (code, err) == (0, "")


def _drain(descriptor: int) -> None:
    """Read what still comes; a process that cannot write cannot end."""
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:
        pass  # the other end is closed


async def test_a_configuration_that_will_not_do_is_refused(tmp_path: Path) -> None:
    code, _, err = await outcome(
        "demo", "--once", "--config", str(tmp_path / "absent.yaml"), env=environment(tmp_path)
    )
    assert code == 2
    assert "absent.yaml" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("mode", [("--once",), ()], ids=["once", "live"])
async def test_a_port_that_is_taken_is_an_error_in_one_line(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = await outcome("demo", *mode, "--port", port, env=environment(tmp_path))
    assert code == 1
    assert port in err
    assert err.count("\n") == 1


async def test_an_interrupt_ends_a_single_run_too(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("demo", "--once", "--nodes", "1000", "--port", str(port))
    async with started(*arguments, env=environment(tmp_path)) as process:
        await ready(port)
        process.send_signal(signal.SIGINT)
        code, _, err = await finished(process)
    assert (code, err) == (0, "")
