"""``make faults``: carry out faults on real processes, and write docs/reliability.md."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from e2e.faults import fencing
from e2e.faults.catalogue import ALL, BY_NAME, Fault
from e2e.faults.running import carry_out
from e2e.faults.scene import scene
from tests.reliability import bugs, outcomes, simulated
from tests.reliability.outcomes import Fencing, Outcome, Outcomes
from tests.reliability.page import PAGE, page

FENCE = "stop-between-check-and-write"
FENCE_ROUNDS = 10


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice([*BY_NAME, FENCE]))
@click.option("--rounds", type=click.IntRange(min=1), help="How often each; default: as it says.")
@click.option("--keep", is_flag=True, help="Keep the logs of all processes.")
@click.option("--dry", is_flag=True, help="Show what came of it, and leave the page as it is.")
def main(names: Sequence[str], rounds: int | None, keep: bool, dry: bool) -> None:
    """Do everything bad to replicas, API server and etcd; all of it, unless some are named.

    Each row is kept as soon as it is measured, so that a run that was ended may be continued by
    naming the rest.
    """
    directory = Path(tempfile.mkdtemp(prefix="equipoise-faults-"))
    chosen = names or [*BY_NAME, FENCE]
    faults = [BY_NAME[each] for each in chosen if each != FENCE]
    measured = asyncio.run(_measure(faults, rounds, directory, dry))
    if FENCE in chosen:
        (directory / FENCE).mkdir()
        fenced = asyncio.run(_fence(rounds or FENCE_ROUNDS, directory / FENCE))
        click.echo(f"{FENCE}: {fenced}", err=True)
        if not dry:
            keep_fencing(fenced)
    Console(width=160).print(_table(measured))
    if keep:
        click.echo(f"logs: {directory}")
    else:
        shutil.rmtree(directory)
    sys.exit(any(not each.sound or not each.recovery_seconds for each in measured))


async def _measure(
    faults: Sequence[Fault], rounds: int | None, directory: Path, dry: bool
) -> list[Outcome]:
    measured: list[Outcome] = []
    if not faults:
        return []
    async with scene(directory) as stage:
        for fault in faults:
            began = time.monotonic()
            click.echo(f"{fault.name}: {fault.what}", err=True)
            measured.append(await carry_out(stage, fault, rounds))
            click.echo(f"  {time.monotonic() - began:.0f} s {measured[-1].seen}", err=True)
            if not dry:
                keep_row(measured[-1])
    return measured


async def _fence(rounds: int, directory: Path) -> list[Fencing]:
    async with scene(directory) as stage:
        return [
            await fencing.measure(stage, rounds, deadline=True),
            await fencing.measure(stage, max(1, rounds // 5), deadline=False),
        ]


def keep_row(outcome: Outcome) -> None:
    """Put one row in its place in the data and on the page."""
    before = outcomes.load()
    rows = {each.fault: each for each in before.rows} | {outcome.fault: outcome}
    order = [each.name for each in ALL if each.name in rows]
    _save(Outcomes(taken=_taken(), rows=[rows[name] for name in order], fencing=before.fencing))


def keep_fencing(measured: list[Fencing]) -> None:
    """Put it in the data and on the page."""
    before = outcomes.load()
    _save(Outcomes(taken=before.taken, rows=before.rows, fencing=measured))


def _save(measured: Outcomes) -> None:
    outcomes.save(measured)
    PAGE.write_text(page(measured, simulated.load(), bugs.load()))


def _taken() -> str:
    """How busy the machine was: times to recover depend on it."""
    load = os.getloadavg()[0]
    return (
        f"Two replicas, {os.cpu_count()} cores, a lease of 12 s, 20 nodes that 200 pods fill "
        f"completely; load average of the machine {load:.0f}."
    )


def _table(measured: Sequence[Outcome]) -> Table:
    shown = Table(
        "fault", "pods", "in flight", "recovery", "lost", "doubled", "not by the holder",
        "over-committed", "left behind", "seen",
    )  # fmt: skip
    for each in measured:
        counts = (each.lost, each.doubled, each.unentitled, each.overcommitted, each.left_behind)
        recovery = ", ".join(f"{seconds:.1f} s" for seconds in each.recovery_seconds)
        shown.add_row(
            each.fault,
            *map(str, (each.pods, each.in_flight, recovery, *counts)),
            each.seen,
        )
    return shown


if __name__ == "__main__":
    main()
