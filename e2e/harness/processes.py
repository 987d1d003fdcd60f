"""Child processes with a log file each: started, checked for life, stopped by their own handle."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from ssl import CERT_NONE, SSLContext, create_default_context
from typing import TypeVar

from e2e.harness.patience import PATIENCE
from e2e.harness.ports import free_ports

START_ATTEMPTS = 3
STOP_GRACE_SECONDS = 120.0
POLL_SECONDS = 0.1
REQUEST_SECONDS = 30.0
TAIL_LINES = 40

T = TypeVar("T")


class StartError(Exception):
    """A process did not become ready; the message ends with the tail of its log."""


class PortTakenError(StartError):
    """A process ended because another one listens on its port."""


def start_on_free_ports(count: int, start: Callable[..., T]) -> T:
    """Call ``start(*ports)``, with other ports again if one was taken meanwhile."""
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            return start(*free_ports(count))
        except PortTakenError:
            if attempt == START_ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


class Process:
    """One running child in a process group of its own, with its output appended to one log file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = log.stem
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | (environment or {}),
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Its process id, also that of its group."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        return self._child.poll()

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of the log, under a heading, for messages about what went wrong."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"--- {self.log}", *text])

    def send(self, which: signal.Signals) -> None:
        """Signal the whole group; nothing happens if it has already ended."""
        if self.exit_code is None:
            os.killpg(self._child.pid, which)

    def wait(self, timeout: float = STOP_GRACE_SECONDS) -> int:
        """Block until the process ends and return its exit code; else ``TimeoutExpired``."""
        return self._child.wait(timeout)

    def stop(self) -> None:
        """Ask with SIGTERM, insist with SIGKILL; returns when the process is gone."""
        self.send(signal.SIGTERM)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it without notice; returns when the process is gone."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait_ready(
        self,
        ready: Callable[[], bool],
        timeout: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Poll ``ready``; on an early exit, a timeout or Ctrl-C, stop the process and raise.

        The message of a ``StartError`` ends with the tail of the log.
        """
        try:
            deadline = clock() + timeout
            while not ready():
                if self.exit_code is not None:
                    tail = self.tail()
                    taken = "address already in use" in tail.lower()
                    kind = PortTakenError if taken else StartError
                    raise kind(f"{self.name} ended with {self.exit_code}\n{tail}")
                if clock() > deadline:
                    raise StartError(f"{self.name} not ready within {timeout:g} s\n{self.tail()}")
                time.sleep(POLL_SECONDS)
        except BaseException:
            self.stop()
            raise


def unverified() -> SSLContext:
    """A client's side of TLS that trusts any certificate, as probes do."""
    context = create_default_context()
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


def answers_ok(url: str, context: SSLContext | None = None) -> bool:
    """Whether a GET of ``url`` is answered with 200 right now."""
    try:
        with urllib.request.urlopen(url, timeout=REQUEST_SECONDS, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
