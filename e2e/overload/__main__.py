"""``make overload``: all scenes, and a table; exits 1 if a target is missed."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from e2e.overload.scenes import ALL, BY_NAME, Result, run

PAGE = Path(__file__).parents[2] / "docs" / "adversity.md"
BEGIN, END = "<!-- overload: make overload ARGS=--write -->", "<!-- end of overload -->"
TITLE = "| scene | loop lag p99 | `/livez` p99, slowest | peak | seen |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(BY_NAME)))
@click.option("--write", is_flag=True, help="Write the rows into docs/adversity.md.")
def main(names: Sequence[str], write: bool) -> None:
    """Ask more of the program than a cluster should; all scenes unless some are named."""
    results = []
    for scene in [BY_NAME[name] for name in names] or ALL:
        click.echo(f"{scene.name}: {scene.what}", err=True)
        results.append(asyncio.run(run(scene)))
        click.echo(row(results[-1]), err=True)
    click.echo("\n".join([TITLE, "|---|---|---|---|---|", *map(row, results)]))
    if write:
        PAGE.write_text(with_rows(PAGE.read_text(), results))
    for each in results:
        for fault in each.faults:
            click.echo(f"MISSED in {each.scene.name}: {fault}", err=True)
    sys.exit(any(each.faults for each in results))


def row(result: Result) -> str:
    """A row of the table."""
    livez = f"{1000 * result.livez_p99:.0f} ms, {1000 * result.livez:.0f} ms"
    lag, peak = f"{1000 * result.lag_p99:.0f} ms", f"{result.peak_mib:.0f} MiB"
    return f"| {result.scene.what} | {lag} | {livez} | {peak} | {result.seen} |"


def with_rows(page: str, results: Sequence[Result]) -> str:
    """The page with these rows in place of those of the same scenes."""
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks {BEGIN} or {END}")
    rows = {line.split(" | ")[0]: line for line in table.splitlines() if line.startswith("| ")}
    rows |= {row(each).split(" | ")[0]: row(each) for each in results}
    kept = [line for scene in ALL if (line := rows.get(f"| {scene.what}"))]
    return "\n".join([before + BEGIN, "", TITLE, "|---|---|---|---|---|", *kept, "", end + after])


if __name__ == "__main__":
    main()
