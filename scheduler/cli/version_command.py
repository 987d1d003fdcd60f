"""``equipoise version``: what is installed here, and what runs in the cluster."""

from __future__ import annotations

from typing import Any

import click

from scheduler import __version__
from scheduler.cli.addresses import NoAnswer, Refused
from scheduler.cli.output import JSON, TABLE, YAML, emit, for_programs, note, output_option
from scheduler.cli.remote import Remote, fetch, server_option

PROGRAM = "equipoise"
FORMAT = "%(prog)s %(version)s"
"""Of ``--version``; the first line of the command is the same."""


@click.command()
@click.option("--client", is_flag=True, help="Only the local version; do not contact a scheduler.")
@server_option()
@output_option(TABLE, JSON, YAML)
def version(client: bool, server: Remote, output: str) -> None:
    """Print the version, and that of the running scheduler if it can be reached."""
    running, reason = (None, "") if client else _running(server)
    if for_programs(output):
        emit({"client": {"version": __version__}, "server": running}, output)
        return
    click.echo(f"{PROGRAM} {__version__}")
    if running is not None:
        click.echo(f"{PROGRAM} {running['version']} (server)")
    elif reason:
        note(f"no scheduler was asked: {reason}")


def _running(server: Remote) -> tuple[dict[str, Any] | None, str]:
    """What a scheduler says of itself; or why none does, if the user has said where one is."""
    try:
        return {"version": str(fetch(server, "/version").get("version", "unknown"))}, ""
    except (NoAnswer, Refused) as fault:
        expected = bool(server.urls) or server.cluster.configured
        return None, str(fault).splitlines()[0] if expected else ""
