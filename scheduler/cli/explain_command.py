"""``equipoise explain``: the verdict of every node for one pod, from files or a live scheduler."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from scheduler.cli.exits import UNSCHEDULABLE, USAGE, fail
from scheduler.cli.explain_table import show_explanation
from scheduler.cli.offline import cluster, config_option, configuration, files_option
from scheduler.cli.output import JSON, TABLE, WIDE, YAML, emit, for_programs, output_option
from scheduler.cli.pod_names import pod_name
from scheduler.cli.remote import Remote, ask_anybody, server_option


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", help="Namespace of the pod.  [default: default]")
@files_option()
@config_option()
@server_option()
@click.option("--node", "nodes", multiple=True, help="Show only this node; may be repeated.")
@click.option("--all", "each", is_flag=True, help="One line per node, however alike they are.")
@output_option(TABLE, WIDE, JSON, YAML)
@click.pass_context
def explain(
    context: click.Context,
    pod: str,
    namespace: str | None,
    files: tuple[str, ...],
    config_file: Path | None,
    server: Remote,
    nodes: tuple[str, ...],
    each: bool,
    output: str,
) -> None:
    """Show which nodes fit POD, how each scores, and why the others do not.

    POD is a name, namespace/name or pod/name. With -f it is judged on the objects of the files
    when its turn comes in `equipoise simulate`, otherwise a running scheduler is asked. A pod that
    runs already is judged as if it had to be placed now, and one that is not tried as if nothing
    held it. Exits 3 if it gets no node.
    """
    namespace, name = pod_name(pod, namespace)
    _check_combination(context, files, config_file)
    if files:
        answer = _offline(namespace, name, files, config_file)
    else:
        answer = ask_anybody(server, "/api/v1/explain", pod=f"{namespace}/{name}")
    if unknown := [node for node in nodes if node not in answer["nodes"]]:
        fail(f"no such node: {', '.join(unknown)}")
    if for_programs(output):
        emit(_about(nodes, answer) if nodes else answer, output)
    else:
        show_explanation(answer, nodes, each=each, wide=output == WIDE)
    if answer["node"] is None:
        raise click.exceptions.Exit(UNSCHEDULABLE)


def _about(nodes: tuple[str, ...], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with verdicts and scores of some nodes only."""
    chosen = {
        part: {name: value for name, value in answer[part].items() if name in nodes}
        for part in ("nodes", "scores")
    }
    return {**answer, **chosen}


def _check_combination(
    context: click.Context, files: tuple[str, ...], config_file: Path | None
) -> None:
    if files and context.get_parameter_source("server") is ParameterSource.COMMANDLINE:
        raise click.UsageError("either -f or --server, not both")
    if config_file is not None and not files:
        raise click.UsageError("--config needs -f: a running scheduler has its own")


def _offline(
    namespace: str, name: str, files: tuple[str, ...], config_file: Path | None
) -> dict[str, Any]:
    from scheduler import simulation
    from scheduler.cli.workloads import pod_key
    from scheduler.config.problems import ConfigError

    config = configuration(config_file)
    objects = cluster(files)
    pods = {pod_key(body): body for body in objects if body["kind"] == "Pod"}
    key = f"{namespace}/{name}"
    if key not in pods:
        fail(f"{', '.join(files)}: no pod {key}{_nearest(key, list(pods))}", USAGE)
    try:
        return simulation.explain(objects, pods[key], config)
    except simulation.InputError as fault:
        fail(f"{', '.join(files)}: {fault}", USAGE)
    except ConfigError as fault:  # a plugin that cannot be made
        fail(f"{config_file}: {fault}", USAGE)


def _nearest(key: str, keys: list[str]) -> str:
    """A hint at the pod that may be meant: one of the workload's, or one of a similar name."""
    near = [other for other in keys if other.startswith(f"{key}-")]
    near = near or difflib.get_close_matches(key, keys, n=1)
    return f", did you mean {near[0]}?" if near else ""
