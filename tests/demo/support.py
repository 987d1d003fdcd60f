"""The program as its users start it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.patience import PATIENCE

DEADLINE_SECONDS = PATIENCE
POLL_SECONDS = 0.05
ROOT = Path(__file__).parents[2]


def environment(home: Path) -> dict[str, str]:
    """A home without a kubeconfig, and no cluster around us."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "COLUMNS": "300"}


@asynccontextmanager
async def started(
    *arguments: str, env: Mapping[str, str], stdout: int = PIPE
) -> AsyncIterator[Process]:
    """A process of the program; it is killed if the test leaves it running."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scheduler",
        *arguments,
        env=env,
        cwd=ROOT,
        stdout=stdout,
        stderr=PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def finished(process: Process) -> tuple[int, str, str]:
    """Exit code and output."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (out or b"").decode(), err.decode()


async def outcome(*arguments: str, env: Mapping[str, str]) -> tuple[int, str, str]:
    """Run to the end."""
    async with started(*arguments, env=env) as process:
        return await finished(process)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def ready(port: int) -> None:
    """Return when the daemon behind the port says that it is ready."""
    url = f"http://127.0.0.1:{port}/readyz"
    async with asyncio.timeout(DEADLINE_SECONDS), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass  # it does not listen yet
            await asyncio.sleep(POLL_SECONDS)
