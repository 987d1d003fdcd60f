"""The command line. Commands import what they need when they run: ``--help`` must be quick."""

from __future__ import annotations

import click

from scheduler import __version__
from scheduler.cli.config_commands import config
from scheduler.cli.demo_command import demo
from scheduler.cli.explain_command import explain
from scheduler.cli.fingerprint_command import fingerprint
from scheduler.cli.live import decisions, nodes, queue
from scheduler.cli.offline import simulate
from scheduler.cli.permit_commands import approve, reject
from scheduler.cli.run_command import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="equipoise")
def cli() -> None:
    """A secondary Kubernetes scheduler that can explain every verdict.

    Exit codes: 0 done, 1 error, 2 wrong usage or configuration, 3 the pod gets no node,
    4 the cluster cannot be reached.
    """


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(f"equipoise {__version__}")


for command in (
    run,
    demo,
    simulate,
    explain,
    queue,
    approve,
    reject,
    nodes,
    decisions,
    fingerprint,
    config,
):
    cli.add_command(command)
