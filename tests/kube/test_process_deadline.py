"""A process that is suspended beyond its deadline executes nothing more."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from scheduler.kube.process_deadline import EXIT_CODE
from scheduler.machine import boottime
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the timer is Linux'")

SECONDS = 3.0
"""Until a deadline: a busy machine must reach what comes before it in that time."""

# Does nothing until a file is there, and writes then.
PROGRAM = """
import os, sys, threading
from scheduler.machine import boottime
from scheduler.kube.process_deadline import ProcessDeadline

deadline = ProcessDeadline()
{before}
renewal = threading.Thread(target=deadline.extend, args=(boottime() + {seconds},))
renewal.start()
renewal.join()

def between_check_and_write():
    os.write(1, b"checked, ")
    while not os.path.exists(sys.argv[1]):
        pass
    os.write(1, b"written")

between_check_and_write()
"""


def suspended(
    go_on: Path, seconds: float, *, before: str = "", wrapper: Sequence[str] = ()
) -> tuple[int, str, str]:
    """Stop a program with a deadline in so many seconds, and continue it after that time.

    Its exit code, what it wrote, and what it said about its end.
    """
    program = PROGRAM.format(seconds=seconds, before=before)
    child = subprocess.Popen(
        [*wrapper, sys.executable, "-c", program, go_on],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert child.stdout is not None
        written = child.stdout.read(len("checked, "))
        over = boottime() + min(seconds, SECONDS)
        pid = _only_child(child.pid) if wrapper else child.pid
        os.kill(pid, signal.SIGSTOP)
        go_on.touch()
        while boottime() < over:
            time.sleep(0.01)
        os.kill(pid, signal.SIGCONT)
        rest, said = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    return child.returncode, (written + rest).decode(), said.decode()


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def test_it_ends_before_the_next_instruction_and_says_where_it_was(tmp_path: Path) -> None:
    code, written, said = suspended(tmp_path / "go on", SECONDS)
    assert (code, written) == (EXIT_CODE, "checked, ")
    assert "in between_check_and_write" in said


def test_before_the_deadline_it_goes_on(tmp_path: Path) -> None:
    assert suspended(tmp_path / "go on", 3600.0) == (0, "checked, written", "")


def test_the_latest_deadline_counts(tmp_path: Path) -> None:
    before = "deadline.extend(boottime() + 3600)"
    code, written, _ = suspended(tmp_path / "go on", SECONDS, before=before)
    assert (code, written) == (EXIT_CODE, "checked, ")


def test_a_lifted_deadline_stays_lifted(tmp_path: Path) -> None:
    result = suspended(tmp_path / "go on", SECONDS, before="deadline.lift()")
    assert result == (0, "checked, written", "")


def test_it_ends_as_process_1_of_a_container_too(tmp_path: Path) -> None:
    wrapper = ("unshare", "--pid", "--fork")
    if not shutil.which(wrapper[0]) or subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("no right to make a namespace of processes")
    code, written, _ = suspended(tmp_path / "go on", SECONDS, wrapper=wrapper)
    assert (code, written) == (EXIT_CODE, "checked, ")
