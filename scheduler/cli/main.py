"""The command line. Commands import what they need when they run: ``--help`` must be quick."""

from __future__ import annotations

import click

from scheduler import __version__
from scheduler.cli.completion_command import completion
from scheduler.cli.config_commands import config
from scheduler.cli.decisions_command import decisions
from scheduler.cli.demo_command import demo
from scheduler.cli.explain_command import explain
from scheduler.cli.fingerprint_command import fingerprint
from scheduler.cli.nodes_command import nodes
from scheduler.cli.permit_commands import approve, reject
from scheduler.cli.queue_command import queue, waiting
from scheduler.cli.replay_command import replay
from scheduler.cli.run_command import run
from scheduler.cli.simulate_command import simulate
from scheduler.cli.snapshot_command import snapshot
from scheduler.cli.version_command import FORMAT, PROGRAM, version


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name=PROGRAM, message=FORMAT)
def cli() -> None:
    """A secondary scheduler for Kubernetes that explains its decisions.

    Exit codes: 0 done, 1 error, 2 wrong usage or configuration, 3 the pod gets no node,
    4 the cluster cannot be reached.
    """


for command in (
    run,
    demo,
    simulate,
    snapshot,
    replay,
    explain,
    queue,
    waiting,
    approve,
    reject,
    nodes,
    decisions,
    fingerprint,
    config,
    completion,
    version,
):
    cli.add_command(command)
