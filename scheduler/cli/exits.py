"""Exit codes that scripts rely on, and how commands end with them."""

from __future__ import annotations

from typing import NoReturn

import click

from scheduler.cli.tables import printable, printable_lines

ERROR = 1
USAGE = 2
UNSCHEDULABLE = 3
UNREACHABLE = 4


def fail(message: str, code: int = ERROR) -> NoReturn:
    """Say what is wrong on standard error and end."""
    click.echo(f"equipoise: {printable_lines(message)}", err=True)
    raise click.exceptions.Exit(code)


def warn(message: object) -> None:
    """Say on standard error what to look at."""
    click.echo(f"warning: {printable(str(message))}", err=True)
