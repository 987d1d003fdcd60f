"""The command that runs simulations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_many_seeds_run_in_several_processes() -> None:
    done = sim("--scenario", "storm", "--seeds", "2-3", "--processes", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("2 seeds of 'storm': 0 failed;")


def test_a_range_that_is_none_is_refused() -> None:
    done = sim("--seeds", "9-1")
    assert (done.returncode, done.stderr) == (1, "--seeds: '9-1' is empty\n")
