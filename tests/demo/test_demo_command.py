"""``equipoise demo``, as its users see it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import stat
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from e2e.harness.ports import free_port
from tests.demo.support import (
    Terminal,
    environment,
    finished,
    outcome,
    ready,
    started,
)
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
    assert "Then 5 more pods got exclusive CPUs in 2 NUMA cells, 0 rejected" in out
    # Two boards of one node: a half, two quarters by claims, and one by an extended resource.
    assert "Then 4 more pods got 4 parts of 2 boards" in out


@pytest.mark.parametrize("kubeconfig", ["that-is-not-there", "with-a-login"])
async def test_the_kubeconfig_of_the_user_plays_no_part(tmp_path: Path, kubeconfig: str) -> None:
    """It may be that of a playground that has ended, or begin with a login."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}
    (tmp_path / "with-a-login").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "own",
                "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
                "clusters": [{"name": "own", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "own", "user": {"exec": plugin}}],
            }
        )
    )
    env = {**environment(tmp_path), "KUBECONFIG": str(tmp_path / kubeconfig)}
    code, out, err = await outcome("demo", "--once", "--nodes", "5", env=env)
    assert (code, err) == (0, "")
    assert SUMMARY.search(out)


async def test_an_interrupt_ends_the_demo_well_without_a_terminal(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("demo", "--nodes", "10", "--port", str(port))
    async with started(*arguments, env=environment(tmp_path)) as process:
        await ready(port)
        process.send_signal(signal.SIGINT)
        code, out, err = await finished(process)
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("Stopped.")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
async def test_the_screen_is_used_by_keys(tmp_path: Path, columns: int, lines: int) -> None:
    terminal = Terminal(columns, lines)
    home = {k: v for k, v in environment(tmp_path).items() if k != "COLUMNS"}
    env = {**home, "TERM": "xterm-256color"}
    arguments = ("demo", "--nodes", "10", "--port", "0", "--api-port", "0")
    try:
        async with started(*arguments, env=env, terminal=terminal.theirs, cwd=tmp_path) as process:
            await terminal.shows("export KUBECONFIG=", "EQUIPOISE_SERVER=http://127.0.0.1:")
            await terminal.shows("Latest decisions", "fast", "quit")
            assert not terminal.restored()
            terminal.press("c3")
            await terminal.shows("no churn", "giant", "Insufficient cpu")
            # All at once, as fast typists do: Enter is about the rows that the filter leaves.
            terminal.press("/giant\r\r")
            await terminal.shows("explain demo/giant-0000", "NodeResourcesFit", "back")
            terminal.press("\x1b")
            await terminal.shows("quit")
            terminal.press("2\x1b")
            await terminal.shows("edge-000")
            terminal.press("?")
            await terminal.shows("Keys", "any key")
            terminal.press(" ")
            terminal.press("q")
            code, _, err = await finished(process)
            await terminal.shows("\x1b[?1049l", "Stopped.")
        assert (code, err) == (0, "")
        assert terminal.restored()
        assert os.listdir(tmp_path) == []
    finally:
        terminal.close()


async def test_an_interrupt_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    terminal = Terminal(80, 24)
    env = {**environment(tmp_path), "TERM": "xterm-256color"}
    arguments = ("demo", "--nodes", "5", "--port", "0", "--api-port", "0")
    try:
        async with started(*arguments, env=env, terminal=terminal.theirs, cwd=tmp_path) as process:
            await terminal.shows("Latest decisions")
            process.send_signal(signal.SIGINT)
            code, _, err = await finished(process)
            await terminal.shows("Stopped.")
        assert (code, err) == (0, "")
        assert terminal.restored()
    finally:
        terminal.close()


async def test_two_playgrounds_live_side_by_side_and_leave_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with (
        started("demo", "--nodes", "5", env=env, cwd=tmp_path) as first,
        started("demo", "--nodes", "5", env=env, cwd=tmp_path) as second,
    ):
        texts = [await greeting(each) for each in (first, second)]
        assert any("in use" in text for text in texts)
        exports = [text.splitlines()[-1] for text in texts]
        assert len(set(exports)) == 2
        for line in exports:
            file, server = re.findall(r"=(\S+)", line)
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
            api = contents(file)["clusters"][0]["cluster"]["server"]
            await ready(int(server.rsplit(":", 1)[1]))
            async with aiohttp.ClientSession() as session, session.get(f"{api}/version") as answer:
                assert answer.status == 200
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            assert (await finished(process))[0] == 0
    assert os.listdir(tmp_path) == []


def contents(kubeconfig: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(Path(kubeconfig).read_text())
    return document


async def greeting(process: Process) -> str:
    """What is printed up to the line with which the playground is used."""
    assert process.stdout is not None
    text = ""
    async with asyncio.timeout(PATIENCE):
        while "KUBECONFIG" not in text:
            line = (await process.stdout.readline()).decode()
            assert line, f"it has ended: {(await process.communicate())[1].decode()}"
            text += line
    return text


async def test_ports_that_were_asked_for_are_not_called_a_substitute(tmp_path: Path) -> None:
    arguments = ("demo", "--nodes", "5", "--port", "0", "--api-port", "0")
    async with started(*arguments, env=environment(tmp_path), cwd=tmp_path) as process:
        assert "in use" not in await greeting(process)
        process.send_signal(signal.SIGTERM)
        assert (await finished(process))[0] == 0


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
