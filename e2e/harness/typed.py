"""``equipoise`` as a page's reader types it, on a machine where port 10259 may be taken.

``equipoise run`` returns once the daemon is ready, and leaves it running with its process id and
address in ``$TYPED``, for the commands that follow; ``--follow`` ends with the first line. Other
commands are passed on, with the address of whom they ask.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from e2e.harness.processes import Process, answers_ok, start_on_free_ports

READY_SECONDS = 60.0
DOCUMENTED = "127.0.0.1:10259"


def main() -> int:
    """Exit as the command would."""
    arguments, state = sys.argv[1:], Path(os.environ["TYPED"])
    command = [sys.executable, "-m", "scheduler", *arguments]
    if arguments[:1] == ["run"]:
        return _run(command, state)
    environment = {**os.environ, "EQUIPOISE_SERVER": _server(state)}
    if "--follow" in arguments:
        return _first_line(command, environment)
    return subprocess.run(command, env=environment, check=False).returncode


def _run(command: list[str], state: Path) -> int:
    def start(port: int) -> Process:
        where = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        process = Process([*command, *where], state.with_suffix(".log"))
        url = f"http://127.0.0.1:{port}"
        process.wait_ready(lambda: answers_ok(f"{url}/readyz"), READY_SECONDS)
        state.write_text(json.dumps({"pid": process.pid, "url": url}))
        return process

    return start_on_free_ports(1, start).exit_code or 0


def _server(state: Path) -> str:
    """The replica in place of what the page calls port 10259; without a word of it, the daemon."""
    named = os.environ.get("EQUIPOISE_SERVER")
    if named is not None:
        return named.replace(DOCUMENTED, os.environ["REPLICA"])
    return str(json.loads(state.read_text())["url"]) if state.exists() else ""


def _first_line(command: list[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGINT)
    return 0 if line else child.returncode or 1


def stop(state: Path) -> None:
    """End the daemon that ``equipoise run`` left running, if there is one."""
    if state.exists():
        os.killpg(json.loads(state.read_text())["pid"], signal.SIGTERM)
        state.unlink()


if __name__ == "__main__":
    sys.exit(main())
