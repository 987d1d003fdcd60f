"""``equipoise`` as a page's reader types it, on a machine where port 10259 may be taken.

``equipoise run`` returns once the daemon leads, and leaves it running with its process id and
address in ``$TYPED``, for the commands that follow. ``--follow`` gets a pod to be decided about,
and Ctrl-C when it has shown it. Other commands are passed on, with the address of whom they ask.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from e2e.harness.objects import pod
from e2e.harness.patience import PATIENCE
from e2e.harness.processes import REQUEST_SECONDS, Process, answers_ok, start_on_free_ports

POLL_SECONDS = 0.1
DOCUMENTED = "https://127.0.0.1:10259"
"""Where pages have the port of a replica forwarded to."""


def main() -> int:
    """Exit as the command would."""
    arguments, state = sys.argv[1:], Path(os.environ["TYPED"])
    command = [sys.executable, "-m", "e2e.harness.patient", *arguments]
    if arguments[:1] == ["run"]:
        return _run(command, state)
    environment = {**os.environ, "EQUIPOISE_SERVER": _server(state)}
    if "--follow" in arguments:
        return _follow(command, environment)
    return subprocess.run(command, env=environment, check=False).returncode


def _run(command: list[str], state: Path) -> int:
    def start(port: int) -> Process:
        where = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        process = Process([*command, *where], log_file(state))
        url = f"http://127.0.0.1:{port}"
        process.wait_ready(lambda: answers_ok(f"{url}/readyz") and _leads(url))
        state.write_text(json.dumps({"pid": process.pid, "url": url}))
        return process

    return start_on_free_ports(1, start).exit_code or 0


def _leads(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/api/v1/queue", timeout=REQUEST_SECONDS) as response:
        answer: dict[str, Any] = json.load(response)
        return bool(answer["replica"]["leading"])


def _server(state: Path) -> str:
    """The daemon; or, in place of what the page calls port 10259, the pod that was forwarded."""
    named = os.environ.get("EQUIPOISE_SERVER")
    if named is not None:
        return named.replace(DOCUMENTED, _forwarded())
    return str(json.loads(state.read_text())["url"]) if state.exists() else ""


def _forwarded() -> str:
    """Wait for the ``kubectl port-forward`` that a page leaves in the background."""
    file = Path(os.environ["FORWARDED"])
    deadline = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("no port was forwarded")
        time.sleep(POLL_SECONDS)
    return file.read_text()


def _follow(command: list[str], environment: dict[str, str]) -> int:
    """Have it show a decision that is made while it follows."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        shown, wanted = b"", b""
        while not wanted or wanted not in shown:
            if child.poll() is not None:
                break
            ready, _, _ = select.select([child.stdout], [], [], POLL_SECONDS)
            piece = (child.stdout.read() or b"") if ready else b""
            sys.stdout.write(piece.decode())
            sys.stdout.flush()
            shown += piece
            wanted = wanted or _submit(f"followed-{child.pid}")
        child.send_signal(signal.SIGINT)
    return child.returncode or int(wanted not in shown)


def _submit(name: str) -> bytes:
    """Create a pod for the scheduler; returns what will be shown of it."""
    subprocess.run(
        ["kubectl", "create", "--filename=-"],
        input=json.dumps(pod(name)),
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return f"default/{name}".encode()


def log_file(state: Path) -> Path:
    """Where a daemon that was typed logs."""
    return state.with_suffix(".log")


def stop(state: Path) -> None:
    """End the daemon that ``equipoise run`` left running, if there is one; returns when it has."""
    if not state.exists():
        return
    pid = json.loads(state.read_text())["pid"]
    state.unlink()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.killpg(pid, signal.SIGTERM)
        ended, _, _ = select.select([handle], [], [], PATIENCE)
        if not ended:
            os.killpg(pid, signal.SIGKILL)
            raise TimeoutError(f"{log_file(state).read_text()[-4000:]}\nit did not stop")
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
