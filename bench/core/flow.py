"""``make bench-flow``: what placing a backlog at once costs and gains, beside a fixed NumPy loop.

Speed: backlogs on large clusters through the whole core; posing the problem (with all that is not
known of classes yet), solving it in the solver's process, reading and verifying what it says. Times
are CPU times of both processes, which work in turns, so on a quiet machine they are wall times; the
calibration loop beside them lets machines be compared.

Quality: 600 nodes, 6,000 pods, several seeds, compared with the normal cycle on the same backlog;
and 200 nodes with GPUs for pods that ask for more of them than there are.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.core import gang_backlogs, gpu_backlogs
from bench.core.backlogs import BATCH, CPU_MEMORY, Case, Outcome, make, run
from bench.core.micro import calibrate
from tests.builders import Json

SPEED = (
    (Case(nodes=5_000, pods=10_000, classes=100, load=0.9, hot=True), 1.0),
    (Case(nodes=12_500, pods=20_000, classes=20, load=0.9, hot=True), 2.0),
)
"""Cases, and the seconds in which they are to be posed, solved, read and verified."""

CPU_MEMORY_SPEED = (
    (Case(nodes=5_000, pods=5_000, classes=10, load=0.5, hot=True), 1.0),
    (Case(nodes=5_000, pods=5_000, classes=100, load=0.5, hot=True), 2.0),
)
"""The same for the cost model `CpuMemory`."""

LOADS = (0.7, 0.97)
HOT_GAIN = 0.10


class Quality(NamedTuple):
    """Both ways, a mean over seeds."""

    name: str
    one_by_one: Outcome
    at_once: Outcome


def speed(case: Case, seconds: float, config: Json = BATCH) -> bool:
    """Measure one case and print it; whether it is fast enough."""
    unit = calibrate()
    outcome = run(make(case), config)
    report = outcome.reports[0]
    parts = {
        "pose": report.pose_seconds,
        "to the solver and back": report.solve_seconds,
        "draw, solve and read": report.solver_cpu_seconds,
        "verify": report.verify_seconds,
    }
    total = sum(parts.values())
    print(
        f"{case.pods} pods of {case.classes} classes on {case.nodes} nodes, {report.model}: "
        f"{report.result}, {report.arcs} arcs, {report.rounds} rounds, "
        f"{report.placed} placed, {report.refused} refused, {outcome.overcommitted} over-committed"
    )
    print("  " + ", ".join(f"{name} {value:.3f} s" for name, value in parts.items()))
    print(
        f"  trying both ways {report.compare_seconds:.3f} s more, "
        f"reserving and the beginning of bindings {report.take_seconds:.3f} s; "
        f"calibration {unit:.4f} ms, ratio {total * 1000 / unit:.0f}"
    )
    met = total < seconds and not outcome.overcommitted
    print(f"  {'met   ' if met else 'missed'}  {total:.2f} s of {seconds:g} s")
    return met


def quality(hot: bool, load: float, seeds: int, nodes: int, pods: int) -> Quality:
    """Compare both ways on backlogs of several seeds."""
    ones, others = [], []
    for seed in range(seeds):
        backlog = make(Case(nodes, pods, classes=50, load=load, hot=hot, seed=seed))
        ones.append(run(backlog))
        others.append(run(backlog, BATCH))
    name = f"{'hot' if hot else 'std'} {load:.0%}"
    return Quality(name, _mean(ones), _mean(others))


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    def mean(figure: Callable[[Outcome], float]) -> float:
        return statistics.fmean(map(figure, outcomes))

    return Outcome(
        placed=round(mean(lambda o: o.placed)),
        cpu=mean(lambda o: o.cpu),
        affinity=mean(lambda o: o.affinity),
        spread=mean(lambda o: o.spread),
        overcommitted=sum(o.overcommitted for o in outcomes),
        seconds=mean(lambda o: o.seconds),
    )


def verdict(case: Quality) -> bool:
    """Print one case; whether placing at once is as good in all that counts, and better if hot."""
    one, other = case.one_by_one, case.at_once
    hot = case.name == "hot 97%"
    gain = other.affinity - one.affinity
    met = (
        other.placed >= one.placed
        and gain >= (HOT_GAIN if hot else 0.0)
        and not other.overcommitted
    )
    print(
        f"{'met   ' if met else 'missed'}  {case.name}: placed {one.placed} -> {other.placed}, "
        f"CPU {one.cpu:.1%} -> {other.cpu:.1%}, preferred weight {one.affinity:.1%} -> "
        f"{other.affinity:.1%}, spread {one.spread:.3f} -> {other.spread:.3f}, "
        f"{one.seconds:.2f} s -> {other.seconds:.2f} s, {other.overcommitted} over-committed"
    )
    return met


def models(hot: bool, seeds: int, nodes: int, pods: int) -> bool:
    """Compare cost models on full clusters; whether `Scores` is as good in what counts."""
    cases = [Case(nodes, pods, classes=50, load=0.97, hot=hot, seed=s) for s in range(seeds)]
    backlogs = [make(case) for case in cases]
    found = {}
    for name, config in (("one by one", ()), ("Scores", (BATCH,)), ("CpuMemory", (CPU_MEMORY,))):
        outcomes = [run(backlog, *config) for backlog in backlogs]
        solver = [sum(r.solver_cpu_seconds for r in outcome.reports) for outcome in outcomes]
        mean = found[name] = _mean(outcomes)
        print(
            f"  {'hot' if hot else 'std'} 97%, {name}: placed {mean.placed}, CPU {mean.cpu:.1%}, "
            f"preferred weight {mean.affinity:.1%}, spread {mean.spread:.3f}, "
            f"{mean.seconds:.2f} s and {statistics.fmean(solver):.2f} s of the solver, "
            f"{mean.overcommitted} over-committed"
        )
    scores, other = found["Scores"], found["CpuMemory"]
    met = scores.affinity > other.affinity and scores.placed >= 0.995 * other.placed
    met = met and not other.overcommitted
    print(f"{'met   ' if met else 'missed'}  Scores is the better default")
    return met


def gangs(seeds: int) -> bool:
    """Compare both ways on gangs that do not all fit; whether as many are placed whole."""
    ones = [gang_backlogs.place(seed, batch=False) for seed in range(seeds)]
    others = [gang_backlogs.place(seed, batch=True) for seed in range(seeds)]
    before, after = (statistics.fmean(p.complete for p in way) for way in (ones, others))
    used, more = (statistics.fmean(p.cpu for p in way) for way in (ones, others))
    broken = sum(placed.broken for placed in others)
    met = after >= before and not broken
    print(
        f"{'met   ' if met else 'missed'}  50 gangs, 130 %: complete {before:.1f} -> {after:.1f}, "
        f"free CPUs used {used:.1%} -> {more:.1%}, {broken} incomplete"
    )
    return met


def gpus(case: str, seeds: int) -> bool:
    """Compare both ways on a crowded cluster of GPU nodes; whether no GPU more is idle at once."""
    ones = [gpu_backlogs.place(seed, case, batch=False) for seed in range(seeds)]
    others = [gpu_backlogs.place(seed, case, batch=True) for seed in range(seeds)]
    met = all(
        other.gpus >= one.gpus and other.pods >= one.pods
        for one, other in zip(ones, others, strict=True)
    )
    before, after = (statistics.fmean(p.gpus for p in way) for way in (ones, others))
    pods, more = (statistics.fmean(p.pods for p in way) for way in (ones, others))
    print(
        f"{'met   ' if met else 'missed'}  {case}: GPUs in use {before:.1%} -> {after:.1%}, "
        f"pods placed {pods:.0f} -> {more:.0f}, "
        f"{sum(p.solved for p in others)} of {seeds} backlogs at once"
    )
    return met


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-flow", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=600, help="of the quality cases")
    parser.add_argument("--pods", type=int, default=6_000, help="of the quality cases")
    parser.add_argument("--only", choices=("speed", "quality", "models"))
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    arguments = parser.parse_args()
    met = []
    if arguments.only in (None, "speed"):
        met += [speed(*each) for each in SPEED]
        met += [speed(*each, CPU_MEMORY) for each in CPU_MEMORY_SPEED]
    if arguments.only in (None, "quality"):
        for hot in (False, True):
            for load in LOADS:
                sizes = arguments.seeds, arguments.nodes, arguments.pods
                met.append(verdict(quality(hot, load, *sizes)))
        met.append(gangs(arguments.seeds))
        met += [gpus(case, arguments.seeds) for case in gpu_backlogs.CASES]
    if arguments.only in (None, "models"):
        sizes = arguments.seeds, arguments.nodes, arguments.pods
        met += [models(hot, *sizes) for hot in (False, True)]
    if arguments.check and not all(met):
        sys.exit(1)


if __name__ == "__main__":
    main()
