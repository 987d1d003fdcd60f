"""A shell into which commands are typed one after the other, each with a deadline of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.harness.patience import PATIENCE
from e2e.harness.processes import POLL_SECONDS

STACK_SECONDS = 30.0


class CommandFailed(AssertionError):
    """A command failed or hung; the message has the command and all that it printed."""


class Shell:
    """One ``sh`` in a process group of its own; a context manager that ends what it has started.

    Commands share variables and jobs in the background, as those that a reader types do.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], seconds: float = PATIENCE
    ) -> None:
        self._seconds = seconds
        self._transcript = directory / "transcript"
        self._status = directory / "status"
        # A Python program that is aborted says where it was.
        variables = {**environment, "PYTHONFAULTHANDLER": "1"}
        with self._transcript.open("wb") as output:
            self._child = subprocess.Popen(
                ["sh"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=directory,
                process_group=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._signal(signal.SIGKILL)
        self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()

    def type(self, command: str) -> str:
        """Type a command and wait until it has ended well; returns what it printed.

        Raises ``CommandFailed`` if it ends otherwise, or not in time: it is then aborted, so that
        what it printed ends with where its Python programs were.
        """
        self._status.unlink(missing_ok=True)
        begin = self._transcript.stat().st_size
        assert self._child.stdin is not None
        new = f"{self._status}.new"
        report = f'echo $? >"{new}"; mv "{new}" "{self._status}"'
        self._child.stdin.write(f"{command}\n{report}\n".encode())
        self._child.stdin.flush()
        if not self._ends():
            self._abort()
            raise self._failure(command, f"hung for {self._seconds:g} s", begin)
        status = self._status.read_text().strip() if self._status.exists() else "the shell's end"
        if status != "0":
            raise self._failure(command, f"ended with {status}", begin)
        return self._printed(begin)

    def _ends(self) -> bool:
        deadline = time.monotonic() + self._seconds
        while not self._status.exists() and self._child.poll() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS / 2)
        return True

    def _printed(self, begin: int) -> str:
        return self._transcript.read_bytes()[begin:].decode(errors="replace")

    def _failure(self, command: str, what: str, begin: int) -> CommandFailed:
        before = self._transcript.read_bytes()[:begin].decode(errors="replace")
        return CommandFailed(
            f"$ {command}\n{what}; it printed:\n{self._printed(begin)}\n"
            f"--- printed before:\n{before[-4000:]}"
        )

    def _abort(self) -> None:
        """Have all programs end, and give them time to say where they were."""
        deadline = time.monotonic() + STACK_SECONDS
        alive = self._signal(signal.SIGABRT)
        while alive and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            self._child.poll()
            alive = self._signal(0)

    def _signal(self, which: int) -> bool:
        """Signal all programs; False if there are none any more."""
        try:
            os.killpg(self._child.pid, which)
        except ProcessLookupError:
            return False
        return True
