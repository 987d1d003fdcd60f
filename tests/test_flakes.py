"""Rounds of tests in random order: what is said of those that pass and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flakes import main

PAIR = """
seen = []

def test_first() -> None:
    seen.append(1)

def test_second() -> None:
    assert seen
"""


def test_a_test_that_depends_on_another_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_pair.py").write_text(PAIR)
    common = [
        "--load",
        "1",
        "--workers",
        "0",
        "--logs",
        str(tmp_path),
        str(tmp_path / "test_pair.py"),
    ]
    outcomes = {main(["--rounds", "1", "--seed", str(seed), *common]) for seed in range(1, 5)}
    said = capsys.readouterr().out
    assert outcomes == {0, 1}
    assert "1 of 1 rounds passed" in said
    assert "test_pair.py::test_second" in said
    assert "0 of 1 rounds passed" in said
    assert "make flakes ARGS='--rounds 1 --seed " in said
