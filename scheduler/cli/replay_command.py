"""``equipoise replay``: decide again what was recorded, and say where that differs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from scheduler.cli.exits import ERROR, USAGE, fail
from scheduler.cli.output import JSON, TABLE, YAML, output_option

if TYPE_CHECKING:
    from scheduler.cli.plays_report import Plays
    from scheduler.config.loading import Configuration
    from scheduler.replaying.driving import Window


def moment(value: str) -> float:
    """A time with its date, in seconds since 1970; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        text = f"{value!r} is no time, such as 2026-11-17T16:30:00Z"
        raise click.BadParameter(text) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Use this configuration instead of the recorded one.",
)
@click.option("--from", "begin", type=moment, metavar="TIME", help="Compare from this time on.")
@click.option("--to", "end", type=moment, metavar="TIME", help="Stop at this time.")
@output_option(TABLE, JSON, YAML)
def replay(
    directory: Path,
    config_file: Path | None,
    begin: float | None,
    end: float | None,
    output: str,
) -> None:
    """Replay a recording (run --record) and compare the decisions.

    With the recorded configuration every decision must be identical; a difference is an error (exit
    code 1). With another configuration, it shows which decisions differ, and the result for the
    pods if that configuration had been used all along.
    """
    from scheduler.cli import replay_report
    from scheduler.config.problems import ConfigError
    from scheduler.recording.reader import UnreadableRecording
    from scheduler.replaying.driving import Window, follow

    window = Window(begin or 0.0, float("inf") if end is None else end)
    if window.begin >= window.end:
        raise click.UsageError("--from is not before --to")
    config = _configuration(config_file)
    try:
        followed = follow(directory, config, window, exact=config is None)
        if config is None:
            replay_report.show_followed(followed, output)
        else:
            plays = _plays(directory, config, window, str(config_file))
            replay_report.show_other(followed, plays, output)
    except UnreadableRecording as fault:
        fail(str(fault), USAGE)
    except ConfigError as fault:
        fail(f"the recorded configuration: {fault}", USAGE)
    if config is None and followed.comparison.different:
        raise click.exceptions.Exit(ERROR)


def _plays(directory: Path, config: Configuration, window: Window, name: str) -> Plays:
    """The recording played with its own configuration, and with the other one."""
    from scheduler.cli.plays_report import Plays
    from scheduler.recording.reader import segments
    from scheduler.replaying.driving import recorded_configuration
    from scheduler.replaying.simulating import simulate

    own = recorded_configuration(segments(directory)[-1].header)
    first, second = (simulate(directory, each, window.end) for each in (own, config))
    return Plays("recorded", first, name, second)


def _configuration(file: Path | None) -> Configuration | None:
    if file is None:
        return None
    from scheduler.assembly import load
    from scheduler.config.problems import ConfigError

    try:
        return load(file)
    except OSError as fault:
        _unusable(file, str(fault.strerror))
    except ConfigError as fault:
        _unusable(file, str(fault))


def _unusable(file: Path, why: str) -> NoReturn:
    fail(f"{file}: {why}", USAGE)
