"""``python -m tests.cli.reports FILE CONFIG``: all reports about one cluster, as a user gets them.

With HURRIED in the environment every look at a clock finds that a second has passed.
"""

from __future__ import annotations

import itertools
import os
import sys
import time

if "HURRIED" in os.environ:  # before any module takes a clock by its name
    seconds = itertools.count(time.monotonic())
    time.perf_counter = time.monotonic = lambda: float(next(seconds))

from click.testing import CliRunner

from scheduler.cli.main import cli

QUESTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("--all", "-o", "json"),
    ("--evict",),
    ("--evict", "-o", "json"),
    ("--batch",),
    ("--batch", "-o", "json"),
    ("--compare", "CONFIG"),
    ("--compare", "CONFIG", "--evict", "-o", "json"),
    ("--more", "pod/apart-0", "-o", "json"),
    ("--more", "deployment/shop/web", "--missing-nodes"),
    ("--add-nodes", "2", "like", "gpu-00", "--drain", "gpu-01", "--replicas", "job/shop/sum=9"),
)
"""What `simulate` is asked; CONFIG stands for a configuration."""


def answers(file: str, config: str) -> list[str]:
    """What the program prints for each question, errors included."""
    said = []
    for question in QUESTIONS:
        arguments = [config if each == "CONFIG" else each for each in question]
        result = CliRunner().invoke(cli, ["simulate", "-f", file, *arguments])
        said.append(f"== {' '.join(question)}: {result.exit_code}\n{result.output}")
    return said


if __name__ == "__main__":
    print("\n".join(answers(*sys.argv[1:3])))
