"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

AT_MOST = 5000
"""What an endpoint gives at once."""

Command = TypeVar("Command", bound=Callable[..., Any])


def limit_option(default: int, what: str) -> Callable[[Command], Command]:
    """The ``--limit`` option."""
    return click.option(
        "--limit",
        type=click.IntRange(1, AT_MOST),
        default=default,
        show_default=True,
        help=f"How many {what} to show.",
    )
