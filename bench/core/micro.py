"""``make bench-micro``: what the core costs without an API server, beside a fixed NumPy loop.

Every scenario runs in a process of its own: it makes a cluster, feeds it to the whole core (queue,
filters, scores, booking, binding) and has pods placed, with an outlet that answers at once. Times
are CPU times of the one thread there is, so other work on the machine lengthens them little; the
calibration loop beside each figure shows how much it lengthens them, and lets machines be compared.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import subprocess
import sys
import time

import msgspec
import numpy as np

from bench.core.scenarios import SCENARIOS, Figures, Scale
from bench.core.worlds import ZONES

CALIBRATION_ROUNDS = 1_000
CALIBRATION_ROWS = 5_000

COLUMNS = (
    ("decisions/s", 12),
    ("CPU ms", 9),
    ("with bind", 10),
    ("hit rate", 9),
    ("calibration", 12),
    ("ratio", 7),
    ("placed", 7),
    ("peak MiB", 9),
)


class Measured(msgspec.Struct):
    """Figures of a scenario, and how fast the machine was."""

    figures: Figures
    calibration_ms: float


def calibrate(rows: int = CALIBRATION_ROWS, rounds: int = CALIBRATION_ROUNDS) -> float:
    """CPU milliseconds of a fixed piece of work on columns of this length: the median round."""
    ids = np.arange(rows) % ZONES
    column = np.arange(rows, dtype=np.int64)
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        sums = np.bincount(ids, weights=column, minlength=ZONES)
        passing = np.flatnonzero(sums[ids] > column)
        scores = np.where(column[passing] % 3 == 0, column[passing] * 100 // rows, 0)
        scores.max(initial=0)
        times.append((time.thread_time() - started) * 1000)
    return statistics.median(times)


def measure(name: str, scale: Scale, profile_lines: int = 0) -> Measured:
    """Run one scenario here; with a number of lines, print as many of its hot functions."""
    calibration = calibrate()
    if not profile_lines:
        return Measured(SCENARIOS[name].run(scale), calibration)
    profile = cProfile.Profile()
    figures = profile.runcall(SCENARIOS[name].run, scale)
    pstats.Stats(profile).sort_stats("tottime").print_stats(profile_lines)
    return Measured(figures, calibration)


def measure_apart(name: str, scale: Scale) -> Measured:
    """Run one scenario in a process of its own; raises ``CalledProcessError`` if it fails."""
    sizes = (f"--nodes={scale.nodes}", f"--running={scale.running}", f"--pods={scale.pods}")
    command = [sys.executable, "-m", "bench.core.micro", "--worker", f"--only={name}", *sizes]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(output, type=Measured)


def row(name: str, measured: Measured) -> str:
    """One line of the table; what does not apply stays empty."""
    figures, unit = measured.figures, measured.calibration_ms
    cells = (
        _shown(figures.decisions_per_second, ".0f"),
        _shown(figures.cpu_ms, ".3f"),
        _shown(figures.whole_ms, ".3f"),
        _shown(figures.hit_rate, ".2%"),
        _shown(unit, ".4f"),
        _shown(figures.cpu_ms and figures.cpu_ms / unit, ".1f"),
        str(figures.placed or ""),
        _shown(figures.peak_mib, ".0f"),
    )
    widths = (width for _, width in COLUMNS)
    line = f"{name:34}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)
    )
    others = ", ".join(f"{key} {value:.4g}" for key, value in figures.values.items())
    return f"{line}  {others}".rstrip()


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def verdict(name: str, figures: Figures) -> str:
    """Whether the target of a scenario is met, in words; empty if it has none."""
    scenario = SCENARIOS[name]
    if not scenario.target:
        return ""
    return f"{'met   ' if scenario.met(figures) else 'missed'}  {name}: {scenario.target}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-micro", description=__doc__)
    parser.add_argument("--nodes", type=int, default=Scale.nodes)
    parser.add_argument("--running", type=int, default=Scale.running, help="pods on the nodes")
    parser.add_argument("--pods", type=int, default=Scale.pods, help="pods to place")
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="only this scenario")
    parser.add_argument("--check", action="store_true", help="say which targets are met")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="print N hot functions")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = Scale(options.nodes, options.running, options.pods)
    names = options.only or list(SCENARIOS)
    if options.worker:
        sys.stdout.buffer.write(msgspec.json.encode(measure(names[0], scale)))
        return
    print(f"{scale.nodes} nodes, {scale.running} running pods, CPU milliseconds for each pod")
    print(f"{'':34}" + "".join(f"{title:>{width}}" for title, width in COLUMNS))
    verdicts = []
    for name in names:
        profiled = options.profile
        measured = measure(name, scale, profiled) if profiled else measure_apart(name, scale)
        print(row(name, measured), flush=True)
        verdicts.append(verdict(name, measured.figures))
    if options.check:
        print("", *filter(None, verdicts), sep="\n")


if __name__ == "__main__":
    main()
