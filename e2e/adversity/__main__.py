"""``make adversity``: every attack against the real daemon, and a table of what came of it."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from e2e.adversity.attacks import ALL, BY_NAME, Finding, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(BY_NAME)))
@click.option("--keep", is_flag=True, help="Keep the logs of all processes.")
def main(names: Sequence[str], keep: bool) -> None:
    """Attack two replicas of the daemon on a real API server; all attacks unless some are named."""
    directory = Path(tempfile.mkdtemp(prefix="equipoise-adversity-"))
    findings = []
    for attack in [BY_NAME[name] for name in names] or ALL:
        click.echo(f"{attack.name}: {attack.what}", err=True)
        (directory / attack.name).mkdir()
        findings.append(asyncio.run(run(attack, directory / attack.name)))
    Console(width=160).print(table(findings))
    if keep:
        click.echo(f"logs: {directory}")
    else:
        shutil.rmtree(directory)
    sys.exit(any(finding.faults for finding in findings))


def table(findings: Sequence[Finding]) -> Table:
    """What came of each attack."""
    shown = Table(
        "row", "attack", "slowest /livez", "others before", "others during", "peak MiB", "seen"
    )
    for each in findings:
        shown.add_row(
            each.attack.row,
            each.attack.what,
            f"{each.livez_seconds * 1000:.0f} ms",
            f"{each.others_before:.2f} s",
            f"{each.others_during:.2f} s",
            f"{each.peak_mib:.0f}",
            "; ".join([*each.notes, *(f"FAULT: {fault}" for fault in each.faults)]),
        )
    return shown


if __name__ == "__main__":
    main()
