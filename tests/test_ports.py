"""Ports that tests give to programs: no two tests get the same at a time."""

from __future__ import annotations

import os
import subprocess
import sys

from e2e.harness import ports

HOLDER = """
import sys
from e2e.harness import ports
print(ports._reserve(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_a_port_that_another_run_was_given_is_given_to_nobody_until_that_ends() -> None:
    port = 1 << 16 | os.getpid()  # none that others are given
    command = [sys.executable, "-c", HOLDER, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not ports._reserve(port)
    assert ports._reserve(port)
    assert not ports._reserve(port), "within a process as well"


def test_ports_are_distinct_and_of_those_that_nothing_takes_by_itself() -> None:
    given = ports.free_ports(20)
    assert len(set(given)) == 20
    assert set(given) <= set(ports.PORTS)
