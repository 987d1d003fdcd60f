"""Prints how the modes compare over seeds."""

from __future__ import annotations

import argparse
import logging
import time
from statistics import fmean

from scheduler.observe.logs import setup
from tests.numa.churn.run import Mode, Report, run
from tests.numa.churn.scenarios import hostile, mixed, shifting, table

_MAKERS = {"mixed": mixed, "table": table, "hostile": hostile, "shifting": shifting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--scenario", choices=sorted(_MAKERS), default="mixed")
    parser.add_argument("--modes", nargs="*", choices=[m.name.lower() for m in Mode], default=None)
    parser.add_argument("--journal", action="store_true", help="tell what led to an error")
    options = parser.parse_args()
    setup("console", level=logging.CRITICAL)
    make = _MAKERS[options.scenario]
    modes = [Mode[name.upper()] for name in options.modes or ()] or list(Mode)
    print(_HEAD)
    found: dict[Mode, list[Report]] = {mode: [] for mode in modes}
    for seed in range(options.first, options.first + options.seeds):
        for mode in modes:
            started = time.process_time()
            report = run(make(seed), mode)
            found[mode].append(report)
            print(_line(str(seed), [report]), f"{time.process_time() - started:6.1f}s", flush=True)
            for sample in report.samples if mode is Mode.CACHE else ():
                print(f"      {sample}")
            for line in report.journal if options.journal else ():
                print(f"         {line}")
    for mode in modes:
        print(_line("all", found[mode]))


_HEAD = (
    f"{'seed':>5} {'mode':<12} {'errors':>6} {'foreign':>7} {'mean':>6} {'final':>6} "
    f"{'p50':>6} {'p99':>6} {'never':>5} {'left':>5} {'took':>7}"
)


def _line(label: str, reports: list[Report]) -> str:
    first = reports[0]
    return (
        f"{label:>5} {first.mode.value:<12} {sum(r.errors for r in reports):>6} "
        f"{sum(r.foreign_errors for r in reports):>7} "
        f"{fmean(r.mean_use for r in reports):>6.3f} {fmean(r.final_use for r in reports):>6.3f} "
        f"{fmean(r.p50 for r in reports):>6.2f} {fmean(r.p99 for r in reports):>6.2f} "
        f"{sum(r.never_ran for r in reports):>5} {sum(r.left for r in reports):>5}"
    )


if __name__ == "__main__":
    main()
