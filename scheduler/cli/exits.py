"""Exit codes that scripts rely on, and how commands end with them."""

from __future__ import annotations

from typing import NoReturn

import click

ERROR = 1
USAGE = 2
UNSCHEDULABLE = 3
UNREACHABLE = 4


def fail(message: str, code: int = ERROR) -> NoReturn:
    """Say what is wrong on standard error and end."""
    click.echo(f"equipoise: {message}", err=True)
    raise click.exceptions.Exit(code)
