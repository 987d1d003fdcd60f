"""Runs simulations: ``python -m tests.sim --seed 7`` or ``--seeds 0-999`` (`make sim`).

One seed is replayed with its trace: virtual time, who, what. Many seeds run on all cores; those
that fail are named at once, with the rule they broke, on standard error; ``--output`` is written as
verdicts come, so a run that is ended early keeps them. ``--shrink`` makes a failing seed small.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.sim import planted, scenarios
from tests.sim.drawing import draw
from tests.sim.history import Note, Request, Write
from tests.sim.judging import SEEDS_PER_PROCESS, Verdict, judge, prepare
from tests.sim.plan import Plan, encode, load
from tests.sim.shrinking import shrink

MAX_SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if every seed was well."""
    options = _options().parse_args(arguments)
    if options.planted is not None:
        return planted.main(options.planted)
    if options.shrink:
        return _shrink(_plan(options))
    if options.plan is not None:
        return _show(scenarios.judged(_plan(options)), str(options.plan), quiet=options.quiet)
    if options.seed is not None:
        outcome = scenarios.perform(options.scenario, options.seed)
        return _show(outcome, f"seed {options.seed}", quiet=options.quiet)
    first, last = _range(options.seeds)
    return _run_many(options.scenario, range(first, last + 1), options.processes, options.output)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="replay one seed with its trace")
    chosen.add_argument("--seeds", help="run many, as in 0-999")
    chosen.add_argument("--plan", type=Path, help="replay a plan that was kept")
    chosen.add_argument(
        "--planted", nargs="*", metavar="BUG", help="plant bugs, and say which seed finds each"
    )
    parser.add_argument("--shrink", action="store_true", help="make a plan that fails small")
    parser.add_argument("--scenario", default=scenarios.DEFAULT, choices=scenarios.NAMES)
    parser.add_argument("--quiet", action="store_true", help="no trace, only the verdict")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, help="write the verdicts as JSON lines")
    return parser


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        low, high = int(first), int(last or first)
    except ValueError:
        raise SystemExit(f"--seeds: {text!r} is no range such as 0-999") from None
    if low > high:
        raise SystemExit(f"--seeds: {text!r} is empty")
    return low, high


# One seed


def _plan(options: argparse.Namespace) -> Plan:
    if options.plan is not None:
        return load(options.plan)
    if options.seed is None:
        raise SystemExit("--shrink: say which, by --seed or --plan")
    return draw(options.seed)


def _show(outcome: scenarios.Outcome, what: str, *, quiet: bool) -> int:
    simulation = outcome.simulation
    if not quiet:
        for entry in simulation.history.entries:
            print(_shown(entry))
    print(
        f"{what}: {simulation.now:.1f} s of virtual time,"
        f" {simulation.loop.callbacks} callbacks, history {simulation.history.digest()[:16]}"
    )
    if outcome.fault:
        print(f"FAILED: {outcome.fault}")
    return 1 if outcome.fault else 0


def _shrink(plan: Plan) -> int:
    """Print the trace of the smallest plan that fails, and the plan."""
    smallest = shrink(plan)
    code = _show(scenarios.judged(smallest), f"seed {plan.seed}, shrunk", quiet=False)
    print(encode(smallest).decode())
    return code


def _shown(entry: Request | Write | Note) -> str:
    if isinstance(entry, Write) and entry.table == "pods" and entry.after is not None:
        node = entry.after.body["spec"].get("nodeName", "")
        phase = entry.after.body.get("status", {}).get("phase", "")
        return f"{entry} {phase}{' on ' + node if node else ''}"
    return str(entry)


# Many seeds


def _run_many(scenario: str, seeds: range, processes: int, output: Path | None) -> int:
    began = time.monotonic()
    verdicts: list[Verdict] = []
    with open(output or os.devnull, "w", buffering=1) as file:  # so that verdicts are seen at once
        for verdict in _verdicts(scenario, seeds, processes):
            verdicts.append(verdict)
            record = {name: getattr(verdict, name) for name in Verdict.__slots__}
            file.write(json.dumps(record) + "\n")
            if verdict.fault and sum(1 for each in verdicts if each.fault) <= MAX_SHOWN:
                text = f"seed {verdict.seed}: {_first_line(verdict.fault)}"
                print(text, file=sys.stderr, flush=True)
    return _summary(scenario, verdicts, time.monotonic() - began)


def _verdicts(scenario: str, seeds: range, processes: int) -> Iterator[Verdict]:
    tasks = [(scenario, seed) for seed in seeds]
    if len(tasks) == 1 or (processes == 1 and len(tasks) <= SEEDS_PER_PROCESS):
        prepare()
        yield from map(judge, tasks)
        return
    # Processes are short-lived: forked from one that has imported everything, they begin at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([judge.__module__])
    with context.Pool(processes, prepare, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(judge, tasks, chunksize=1)


def _summary(scenario: str, verdicts: list[Verdict], seconds: float) -> int:
    failed = sorted((each for each in verdicts if each.fault), key=lambda each: each.seed)
    virtual = sum(each.virtual_seconds for each in verdicts)
    cpu = sum(each.cpu_seconds for each in verdicts)
    rate = virtual / cpu if cpu else 0.0
    print(
        f"{len(verdicts)} seeds of {scenario!r}: {len(failed)} failed;"
        f" {virtual:.0f} virtual seconds in {cpu:.1f} s of CPU ({rate:.0f} per second),"
        f" {seconds:.0f} s"
    )
    for text, count in Counter(_first_line(each.fault) for each in failed).most_common(MAX_SHOWN):
        seeds = [each.seed for each in failed if _first_line(each.fault) == text]
        print(f"  {count} x {text}: seeds {', '.join(map(str, seeds[:MAX_SHOWN]))}")
    if failed:
        print(f"replay with: make sim SEED={failed[0].seed}")
    return 1 if failed else 0


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.exit(130)
