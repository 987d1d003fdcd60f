"""How commands show what they found: tables for people, JSON and YAML for programs.

On a terminal tables have colour (unless NO_COLOR is set) and adapt to its width; in a pipe they
are aligned plain text, one line per row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduler.cli.states import BAD, DIM, GOOD, WARN
from scheduler.cli.tables import Table, layout, printable

if TYPE_CHECKING:  # rich takes longer to load than all the rest of a quick command
    from rich.console import Console
    from rich.text import Text

_CONTROLS = re.compile("[\x7f-\x9f]")

TABLE = "table"
WIDE = "wide"
JSON = "json"
YAML = "yaml"

__all__ = [
    "BAD",
    "DIM",
    "GOOD",
    "JSON",
    "TABLE",
    "WARN",
    "WIDE",
    "YAML",
    "as_json",
    "counted",
    "emit",
    "for_programs",
    "heading",
    "note",
    "output_option",
    "paragraph",
    "say",
    "show",
    "some",
    "verbatim",
]

Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(*formats: str) -> Callable[[Command], Command]:
    """The ``-o`` option; the first format is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


def for_programs(output: str) -> bool:
    """Whether a format is to be read by programs: print the value, not a table."""
    return output in (JSON, YAML)


def emit(value: Any, output: str) -> None:
    """Print a value as JSON or YAML, members in their own order."""
    if output == JSON:
        click.echo(as_json(value, indent=2))
    else:
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON whose texts have no control characters, those beyond ASCII included."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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


def verbatim(text: str) -> None:
    """Print a line to be copied: a terminal may wrap it, but no space is put in."""
    from rich.console import Console
    from rich.text import Text

    _print(Console(highlight=False), Text(printable(text)), soft_wrap=True)


def heading(text: str) -> None:
    """Print the title of a part, after a blank line."""
    say("")
    say(text, "bold")


def paragraph(text: str, style: str = "", first: str = "", rest: str = "") -> None:
    """Print prose: on a terminal wrapped behind ``first`` and ``rest``, in a pipe as one line."""
    import textwrap

    from rich.console import Console
    from rich.text import Text

    console, text = Console(highlight=False), printable(text)
    lines = [first + text]
    if console.is_terminal and console.width > len(rest) + _NARROWEST:
        lines = textwrap.wrap(
            text,
            console.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            break_long_words=False,
        )
    for line in lines:
        _print(console, Text(line, style), soft_wrap=True)


_NARROWEST = 20


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of several names, and how many more there are."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def note(text: str) -> None:
    """Print a note that is not part of the answer, on standard error."""
    click.echo(f"note: {printable(text)}", err=True)


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print(console: Console, text: Text, soft_wrap: bool = False) -> None:
    if console.is_terminal:
        # A line of a table that is still too long is the terminal's to wrap, so it can be copied.
        console.print(text, soft_wrap=soft_wrap)
    else:
        click.echo(text.plain)
