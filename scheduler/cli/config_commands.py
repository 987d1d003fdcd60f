"""`equipoise config`: check a configuration file, print what it amounts to, print the defaults."""

from pathlib import Path

import click

from scheduler.config.loading import Configuration, from_dicts, load
from scheduler.config.plugins import Available
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
        click.echo(f"warning: {warning}", err=True)
    names = ", ".join(profile.scheduler_name for profile in loaded.scheduler.profiles)
    click.echo(f"{file}: valid, profiles: {names}, warnings: {len(loaded.warnings)}")


@config.command(name="print")
@click.argument("file", type=_FILE, required=False)
def print_effective(file: Path | None) -> None:
    """Print the effective configuration of FILE, or the defaults, as YAML."""
    loaded = _load(file) if file else from_dicts([], _available())
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(loaded.to_yaml(), nl=False)


@config.command()
def defaults() -> None:
    """Print the configuration that holds when no file is given, as YAML."""
    click.echo(from_dicts([], _available()).to_yaml(), nl=False)


def _load(file: Path) -> Configuration:
    try:
        return load(file, _available())
    except ConfigError as fault:
        click.echo(f"{file}: not usable, problems: {len(fault.problems)}", err=True)
        click.echo(str(fault), err=True)
        raise click.exceptions.Exit(_UNUSABLE) from fault


def _available() -> Available:
    from scheduler.framework.registry import points_of
    from scheduler.plugins.table import IN_TREE

    return {name: points_of(factory) for name, factory in IN_TREE.items()}
