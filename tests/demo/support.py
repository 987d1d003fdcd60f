"""The program as its users start it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import sys
import termios
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.patience import PATIENCE

DEADLINE_SECONDS = PATIENCE
POLL_SECONDS = 0.05
_SCROLLED = 1 << 20
ROOT = Path(__file__).parents[2]


def environment(home: Path) -> dict[str, str]:
    """A home without a kubeconfig, and no cluster around us."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "COLUMNS": "300"}


@asynccontextmanager
async def started(
    *arguments: str,
    env: Mapping[str, str],
    terminal: int | None = None,
    cwd: Path = ROOT,
) -> AsyncIterator[Process]:
    """A process of the program; it is killed if the test leaves it running."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scheduler",
        *arguments,
        env={**env, "PYTHONPATH": str(ROOT)},
        cwd=cwd,
        stdout=PIPE if terminal is None else terminal,
        stderr=PIPE,
        stdin=asyncio.subprocess.DEVNULL if terminal is None else terminal,
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


class Terminal:
    """A terminal of some size; what programs print on it, read at once, and keys to press."""

    def __init__(self, columns: int, lines: int) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.settings = termios.tcgetattr(self.theirs)
        self._printed = b""
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.theirs)

    def forget(self) -> None:
        """Only what is printed from now on is looked at."""
        self._printed = b""

    def press(self, keys: str) -> None:
        """Press keys, and forget what was printed before."""
        self.forget()
        os.write(self._ours, keys.encode())

    async def shows(self, *texts: str) -> str:
        """Return when all the texts have been printed since the last keys: all that was."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not all(text.encode() in self._printed for text in texts):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{texts} not in {self._printed[-9000:]!r}") from None
        return self._printed.decode(errors="replace")

    def restored(self) -> bool:
        """Whether its settings are what they were."""
        return termios.tcgetattr(self.theirs) == self.settings

    def _read(self) -> None:
        self._printed = (self._printed + os.read(self._ours, 65536))[-_SCROLLED:]
        self._news.set()


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
