"""The command that runs simulations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sim import __main__ as command
from tests.sim.judging import Verdict

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


def test_a_run_that_is_ended_keeps_its_verdicts_and_has_named_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "verdicts"
    kept: list[dict[str, Any]] = []

    def verdicts(*_: object) -> Iterator[Verdict]:
        yield Verdict(5, "fits: default/p: too much\nwhere", 60.0, 0.5, 5000, "d")
        kept.extend(map(json.loads, written.read_text().splitlines()))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_verdicts", verdicts)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--seeds", "5-6", "--output", str(written)])
    assert [(each["seed"], each["digest"]) for each in kept] == [(5, "d")]
    assert capsys.readouterr().err == "seed 5: fits: default/p: too much\n"
