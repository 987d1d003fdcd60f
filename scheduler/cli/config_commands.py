"""`equipoise config`: check a configuration file, print what it amounts to, print the defaults."""

from pathlib import Path

import click

from scheduler.cli.exits import warn
from scheduler.cli.tables import printable_lines
from scheduler.config.loading import Configuration
from scheduler.config.problems import ConfigError

_UNUSABLE = 2

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def config() -> None:
    """Check and print configuration files."""


@config.command()
@click.argument("file", type=_FILE)
def check(file: Path) -> None:
    """Check FILE and list every problem; exits 2 if it cannot be used."""
    loaded = _load(file)
    for warning in loaded.warnings:
        warn(warning)
    for plugin in loaded.found:
        click.echo(f"plugin {plugin.name} ({', '.join(plugin.points)}) from {plugin.origin}")
    names = ", ".join(profile.scheduler_name for profile in loaded.scheduler.profiles)
    click.echo(f"{file}: valid, profiles: {names}, warnings: {len(loaded.warnings)}")


@config.command(name="print")
@click.argument("file", type=_FILE, required=False)
def print_effective(file: Path | None) -> None:
    """Print the effective configuration of FILE, or the defaults, as YAML."""
    loaded = _load(file)
    for warning in loaded.warnings:
        warn(warning)
    click.echo(loaded.to_yaml(), nl=False)


@config.command()
def defaults() -> None:
    """Print the default configuration as YAML."""
    click.echo(_load(None).to_yaml(), nl=False)


def _load(file: Path | None) -> Configuration:
    from scheduler.assembly import configure, load

    try:
        return load(file) if file else configure([])
    except ConfigError as fault:
        click.echo(f"{file or 'defaults'}: not usable, problems: {len(fault.problems)}", err=True)
        click.echo(printable_lines(str(fault)), err=True)
        raise click.exceptions.Exit(_UNUSABLE) from fault
