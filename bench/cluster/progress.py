"""What a person sees while the bench runs: bars on a terminal, a line per step elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

REFRESHES_PER_SECOND = 2


class Screen(Protocol):
    """Where progress is shown."""

    def step(self, text: str) -> None:
        """Something has begun or ended that is not a turn."""
        ...

    def turn(self, title: str, pods: int) -> None:
        """A turn begins, in which so many pods will be bound."""
        ...

    def bound(self) -> None:
        """One pod more is bound."""
        ...

    def done(self, result: str) -> None:
        """The turn is over."""
        ...


class Lines:
    """A line for each step."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._done = 0
        self._title = ""

    def step(self, text: str) -> None:
        click.echo(text, err=True)

    def turn(self, title: str, pods: int) -> None:
        self._title = title

    def bound(self) -> None:
        pass

    def done(self, result: str) -> None:
        self._done += 1
        click.echo(f"[{self._done}/{self._turns}] {self._title}: {result}", err=True)


class Bars:
    """One bar for all turns and one for the pods of this turn; steps scroll by above them."""

    def __init__(self, progress: Progress, turns: int) -> None:
        self._progress = progress
        self._all = progress.add_task("all turns", total=turns)
        self._this = progress.add_task("starting", total=None)
        self._title = ""

    def step(self, text: str) -> None:
        self._progress.update(self._this, description=text)

    def turn(self, title: str, pods: int) -> None:
        self._title = title
        self._progress.reset(self._this, total=pods, description=title)

    def bound(self) -> None:
        self._progress.advance(self._this)

    def done(self, result: str) -> None:
        self._progress.advance(self._all)
        self._progress.console.print(f"{self._title}: {result}", highlight=False)


@contextmanager
def screen(turns: int) -> Iterator[Screen]:
    """Bars if standard error is a terminal, else lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines(turns)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    # Drawn seldom: the cores belong to those who are measured.
    with Progress(
        *columns, console=console, transient=True, refresh_per_second=REFRESHES_PER_SECOND
    ) as progress:
        yield Bars(progress, turns)
