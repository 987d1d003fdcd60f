"""``make soak``: half an hour of churn on real processes; exits 1 if anything has grown."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import click

from e2e.soak.running import Soaked, soak

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
BEGIN, END = "<!-- soak: make soak ARGS=--write -->", "<!-- end of soak -->"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=float, default=30.0, show_default=True, help="How long.")
@click.option("--write", is_flag=True, help="Write the table into docs/memory.md.")
@click.option("--samples", type=click.Path(path_type=Path), help="Write all samples, as JSON.")
def main(minutes: float, write: bool, samples: Path | None) -> None:
    """Have pods, gangs, nodes and services come and go, and see whether anything grows."""
    with tempfile.TemporaryDirectory(prefix="equipoise-soak-") as directory:
        tell = lambda text: click.echo(text, err=True)  # noqa: E731  one line, used once
        done = asyncio.run(soak(Path(directory), 60 * minutes, tell))
    if samples is not None:
        samples.write_text(json.dumps(done.samples))
    click.echo(table(done))
    if write:
        PAGE.write_text(with_table(PAGE.read_text(), done))
    for each in done.grown:
        click.echo(f"GROWN: {each}", err=True)
    sys.exit(bool(done.grown))


def table(done: Soaked) -> str:
    """All series that are not empty, as Markdown."""
    head = (
        f"{done.seconds / 60:.0f} minutes, {done.rounds:,} rounds, {done.placed:,} pods placed and "
        f"deleted, {len(done.samples)} samples."
    )
    rows = [
        f"| {each.name} | {each.second:,.0f} | {each.last:,.0f} | {each.allowed:,.0f} |"
        for each in done.trends
        if each.second or each.last
    ]
    titles = "| | second quarter | last quarter | growth allowed |"
    return "\n".join([head, "", titles, "|---|---|---|---|", *rows])


def with_table(page: str, done: Soaked) -> str:
    """The page with what came of this run."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{table(done)}\n\n{END}{after}"


if __name__ == "__main__":
    main()
