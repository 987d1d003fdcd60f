"""``make bench``: Equipoise beside kube-scheduler and the limit, on a real API server."""

import math
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType

import click

from bench.cluster.contestants import CONTESTANTS, KUBE_SCHEDULER
from bench.cluster.ledger import code_version, commit, open_ledger
from bench.cluster.machine import Machine
from bench.cluster.plan import Case, NoRoom, Wishes, make_plan
from bench.cluster.report import Report
from bench.cluster.running import hold
from bench.cluster.workloads import ALIASES, LARGE, SMALL, WORKLOADS
from e2e.harness.processes import StartError

SIZES = (SMALL, LARGE)
RESUME = "The same command goes on from here, as long as the code stays as it is."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--workload",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice([*WORKLOADS, *ALIASES]),
    help=f"What to schedule; may be repeated. All by default: {', '.join(ALIASES)}.",
)
@click.option(
    "--nodes",
    multiple=True,
    default=SIZES,
    show_default=True,
    type=click.IntRange(min=3),
    help="How many nodes; may be repeated.",
)
@click.option("--pods", "measured", type=click.IntRange(min=2), help="How many pods to time.")
@click.option("--unfit", type=click.IntRange(min=1), help="How many pods flood the queue.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each contestant has a turn.")
@click.option(
    "--kube/--no-kube",
    default=True,
    show_default=True,
    help="Whether kube-scheduler takes part; without it, Equipoise is compared with the limit.",
)
@click.option("--full", is_flag=True, help="Upstream's counts and three rounds of everything.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    help="Begin no turn after this; 0: no limit. Default: 55, and no limit with --full.",
)
@click.option("--fresh", is_flag=True, help="Forget what was measured before.")
@click.option(
    "--docs/--no-docs", default=None, help="Write docs/benchmarks.md; default: after a whole run."
)
@click.option(
    "--apf/--no-apf", default=True, show_default=True, help="API Priority and Fairness, for all."
)
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text")
def main(
    names: Sequence[str],
    nodes: Sequence[int],
    measured: int | None,
    unfit: int | None,
    rounds: int | None,
    kube: bool,
    full: bool,
    minutes: float | None,
    fresh: bool,
    docs: bool | None,
    apf: bool,
    output: str,
) -> None:
    """Measure Equipoise, kube-scheduler and the limit in turn, on one cluster, with equal pods.

    What is finished is written down: an interrupted run is resumed by the same command.
    """
    contestants = [each for each in CONTESTANTS if kube or each is not KUBE_SCHEDULER]
    wishes = Wishes(full, measured, unfit, rounds, tuple(contestants))
    chosen = [ALIASES.get(name, name) for name in names] or list(WORKLOADS)
    try:
        cases = make_plan(chosen, nodes, wishes)
    except NoRoom as error:
        raise click.UsageError(str(error)) from error
    report, in_time = _bench(cases, apf, fresh, _deadline(minutes, full))
    click.echo(report.as_json() if output == "json" else report.as_text())
    changed = code_version() != report.code
    if changed:
        click.echo("the code was changed meanwhile: these figures are of no one version", err=True)
    whole = set(chosen) == set(WORKLOADS) and set(nodes) == set(SIZES) and wishes == Wishes(full)
    if docs or (docs is None and in_time and whole and not changed):
        report.write_into()
    if report.failures:
        raise click.ClickException(f"{len(report.failures)} workloads failed. {RESUME}")


def _bench(
    cases: Sequence[Case], fairness: bool, fresh: bool, deadline: float
) -> tuple[Report, bool]:
    """Hold what is outstanding and report all that is known; and whether time sufficed."""
    signal.signal(signal.SIGTERM, _interrupt)
    machine, code = Machine.this(), code_version()
    run = datetime.now(UTC).isoformat()
    day, head = run.partition("T")[0], commit()
    origin = f"{day}, commit {head}" if head else day
    ledger = open_ledger(run, cores=machine.cores, fairness=fairness, fresh=fresh)
    try:
        held = hold(cases, ledger, fairness=fairness, deadline=deadline)
    except (StartError, FileNotFoundError) as error:
        raise click.ClickException(f"{error}\n{RESUME}") from error
    except KeyboardInterrupt as interrupt:
        raise click.ClickException(f"interrupted. {RESUME}") from interrupt
    turns = [turn for case in cases for turn in case.turns()]
    if not held.in_time:
        left = sum(ledger.get(turn) is None for turn in turns)
        click.echo(f"time is up, {left} of {len(turns)} turns are left. {RESUME}", err=True)
    results = [result for case in cases if (result := case.result(ledger))]
    report = Report(machine, code, origin, fairness, ledger.runs(turns), results, held.failures)
    return report, held.in_time


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End cleanly as after Ctrl-C, however often the signal arrives."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _deadline(minutes: float | None, full: bool) -> float:
    """When no further turn may begin."""
    limit = (0 if full else 55) if minutes is None else minutes
    return time.monotonic() + limit * 60 if limit else math.inf


if __name__ == "__main__":
    main()
