"""How commands show what they found: tables for people, JSON and YAML for programs.

On a terminal tables have colour (unless NO_COLOR is set) and adapt to its width; in a pipe they
are aligned plain text, one line per row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduler.cli.tables import Table, layout, printable

if TYPE_CHECKING:  # rich takes longer to load than all the rest of a quick command
    from rich.console import Console
    from rich.text import Text

TABLE = "table"
WIDE = "wide"
JSON = "json"
YAML = "yaml"

GOOD = "green"
BAD = "red"
WARN = "yellow"
DIM = "dim"

Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(*formats: str) -> Callable[[Command], Command]:
    """The ``-o`` option; the first format is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print.",
    )


def for_programs(output: str) -> bool:
    """Whether a format is to be read by programs: print the value, not a table."""
    return output in (JSON, YAML)


def emit(value: Any, output: str) -> None:
    """Print a value as JSON or YAML, members in their own order."""
    if output == JSON:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def show(table: Table) -> None:
    """Print a table in the format for a terminal or a file."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    room = console.width if console.is_terminal else None
    for line in layout(table, room):
        text = Text.assemble(*line)
        text.rstrip()
        _print(console, text, soft_wrap=True)


def say(text: str, style: str = "") -> None:
    """Print a line that is not part of a table."""
    from rich.console import Console
    from rich.text import Text

    _print(Console(highlight=False), Text(printable(text), style))


def note(text: str) -> None:
    """Print a note that is not part of the answer, on standard error."""
    click.echo(f"note: {text}", err=True)


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print(console: Console, text: Text, soft_wrap: bool = False) -> None:
    if console.is_terminal:
        # A line of a table that is still too long is the terminal's to wrap, so it can be copied.
        console.print(text, soft_wrap=soft_wrap)
    else:
        click.echo(text.plain)
