"""``equipoise completion``: scripts with which shells, and kubectl, complete what is typed."""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

PROGRAM = "equipoise"
VARIABLE = "_EQUIPOISE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
NO_FILES = 4
"""What kubectl is told: do not complete names of files (cobra's ShellCompDirectiveNoFileComp)."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    \b
    bash:    source <(equipoise completion bash)
    zsh:     source <(equipoise completion zsh)
    fish:    equipoise completion fish | source

    `kubectl equipoise` is completed by kubectl itself, if kubectl_complete-equipoise is on the PATH
    as kubectl-equipoise is.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "it is one of click's own"
    root = context.find_root().command
    # Only the text: to render it, click would start bash and look at its version.
    click.echo(kind.source_template % kind(root, {}, PROGRAM, VARIABLE).source_vars())


def complete_for_kubectl() -> None:
    """What ``kubectl_complete-equipoise`` prints: candidates for the last argument, a directive."""
    from scheduler.cli.main import cli

    *before, last = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions(before, last):
        if item.type == "plain":
            told = f"\t{item.help}" if item.help else ""
            click.echo(f"{item.value}{told}")
    click.echo(f":{NO_FILES}")
