"""``make flakes``: all tests again and again, in random order, on a machine that is busy.

A test that fails once in a while depends on what it should not: the order of tests, who wins a
race, or what else the machine does. Each round has a seed, and a round that failed tells how to
have the same order again. Every core is kept busy by a process that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVERYTHING = ("tests", "e2e")
BURN = "while True: pass"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit 1 if any round failed."""
    wishes = _parser().parse_args(arguments)
    failed = 0
    with burning(wishes.load):
        for number in range(1, wishes.rounds + 1):
            seed = wishes.seed if wishes.seed is not None else random.randrange(10**6)
            failed += not passes(number, seed, wishes)
    print(f"{wishes.rounds - failed} of {wishes.rounds} rounds passed")
    return int(failed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make flakes", description=__doc__)
    cores = os.cpu_count() or 1
    parser.add_argument("--rounds", type=int, default=10, help="how often (default: 10)")
    parser.add_argument(
        "--load", type=int, default=cores, help=f"busy processes beside (default: {cores})"
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="processes that share the tests (default: 2)"
    )
    parser.add_argument("--seed", type=int, help="the order of a round that failed")
    parser.add_argument("--logs", type=Path, default=Path("flakes"), help="where logs go")
    parser.add_argument("pytest", nargs="*", help="paths and options of pytest (default: all)")
    return parser


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Keep so many cores busy during the block."""
    busy = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def passes(number: int, seed: int, wishes: argparse.Namespace) -> bool:
    """Run one round, say how it went, and keep its log."""
    wishes.logs.mkdir(parents=True, exist_ok=True)
    log: Path = wishes.logs / f"round-{number}-seed-{seed}.log"
    order = ("--random-order", f"--random-order-seed={seed}", "-p", "no:cacheprovider")
    shared = ("-n", str(wishes.workers), "--dist", "worksteal")
    wanted = wishes.pytest or EVERYTHING
    began = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *shared, *order, *wanted],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = log.read_text(errors="replace").splitlines()
    faults = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    summary = lines[-1] if lines else "no output"
    print(f"round {number}, seed {seed}, {time.monotonic() - began:.0f} s: {summary}", flush=True)
    for fault in faults:
        print(f"  {fault}", flush=True)
    if done.returncode:
        print(f"  log: {log}; again: make flakes ARGS='--rounds 1 --seed {seed}'", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
