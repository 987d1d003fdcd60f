"""``python -m tests.fuzz``: hostile input for every parser and for the ingest path.

Every input is made from a seed and a number, so a finding can be made again anywhere. Findings are
written as small JSON files; ``--replay`` checks such files again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

from tests.fuzz.running import Finding, Report, replayed, run
from tests.fuzz.shrinking import signature
from tests.fuzz.targets import TARGETS

EXIT_FOUND = 1
PROGRESS_SECONDS = 30.0


def main() -> int:
    """Fuzz, or check kept inputs again; 1 if anything was found."""
    options = _options()
    if options.list:
        for name, make in TARGETS.items():
            print(f"{name:<12} {make.what}")
        return 0
    if options.replay:
        return _replay([Path(each) for each in options.replay])
    names = options.targets or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        print(f"no such target: {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return 2
    return _fuzz(names, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="what to fuzz; all by default")
    parser.add_argument("--inputs", type=int, default=0, help="inputs of all targets together")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long, at most")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all inputs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--findings", default="build/fuzz", help="where findings are written")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="check findings again")
    parser.add_argument("--list", action="store_true", help="show all targets")
    options = parser.parse_args()
    if not options.inputs and not options.minutes:
        options.minutes = 1.0
    return options


def _fuzz(names: list[str], options: argparse.Namespace) -> int:
    print(f"seed {options.seed}, {options.jobs} processes, targets: {', '.join(names)}", flush=True)
    totals = {name: Report(name) for name in names}
    known: set[tuple[str, str]] = set()
    shown = time.monotonic()
    for report in run(names, options.seed, options.inputs, options.minutes, options.jobs):
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{sum(each.inputs for each in totals.values())} inputs", flush=True)
        total = totals[report.target]
        total.inputs += report.inputs
        total.cpu_seconds += report.cpu_seconds
        for finding in report.findings:
            mark = (finding.target, signature(finding.found))
            if mark not in known:
                known.add(mark)
                total.findings.append(finding)
                _write(Path(options.findings), finding)
    _show(totals)
    return EXIT_FOUND if known else 0


def _write(directory: Path, finding: Finding) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    mark = hashlib.sha256(signature(finding.found).encode()).hexdigest()[:10]
    path = directory / f"{finding.target}-{mark}.json"
    document = {
        "target": finding.target,
        "found": finding.found,
        "seed": finding.seed,
        "number": finding.number,
        "input": finding.given,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{finding.target} {finding.number}: {finding.found}\n  {path}", flush=True)


def _show(totals: dict[str, Report]) -> None:
    print(f"\n{'TARGET':<12} {'INPUTS':>9} {'PER CPU s':>9} {'FINDINGS':>8}")
    for name, total in totals.items():
        rate = total.inputs / total.cpu_seconds if total.cpu_seconds else 0.0
        print(f"{name:<12} {total.inputs:>9} {rate:>9.0f} {len(total.findings):>8}")
    inputs = sum(total.inputs for total in totals.values())
    print(f"{'all':<12} {inputs:>9}")


def _replay(paths: list[Path]) -> int:
    bad = 0
    for path in paths:
        kept = json.loads(path.read_text())
        found = replayed(kept["target"], kept["input"])
        print(f"{path}: {'; '.join(found) if found else 'handled well'}")
        bad += bool(found)
    return EXIT_FOUND if bad else 0


if __name__ == "__main__":
    sys.exit(main())
