"""``equipoise explain``: the verdict of every node for one pod, from files or a live scheduler."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from scheduler.cli.exits import UNSCHEDULABLE, USAGE, fail
from scheduler.cli.offline import cluster, config_option, configuration, files_option
from scheduler.cli.output import (
    BAD,
    DIM,
    GOOD,
    JSON,
    TABLE,
    WIDE,
    YAML,
    counted,
    emit,
    for_programs,
    output_option,
    say,
    show,
)
from scheduler.cli.pod_names import pod_name
from scheduler.cli.remote import Remote, ask_any_replica, server_option
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.units import span


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
    when `equipoise simulate` pops it, otherwise a running scheduler is asked. A pod that
    runs already is judged as if it had to be placed now, and one that is not tried as if nothing
    held it. Exits 3 if it gets no node.
    """
    namespace, name = pod_name(pod, namespace)
    _check_combination(context, files, config_file)
    if files:
        answer = _offline(namespace, name, files, config_file)
    else:
        answer = ask_any_replica(server, "/api/v1/explain", pod=f"{namespace}/{name}")
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


# An explanation as a table: the best nodes first, then the rejected ones, and why.


BEST_SHOWN = 20
NAMES_SHOWN = 3


def show_explanation(
    answer: dict[str, Any], only: Collection[str] = (), *, each: bool = False, wide: bool = False
) -> None:
    """Print the verdicts on all nodes, or on some; alike rejections share a line unless ``each``.

    The wide form has a line per node and a column per score plugin.
    """
    each = each or wide
    verdicts = {n: v for n, v in answer["nodes"].items() if not only or n in only}
    scores = {n: s for n, s in answer["scores"].items() if n in verdicts}
    plugins = _plugins(answer["scores"]) if wide else []
    table = Table(
        [
            TableColumn("NODE"),
            TableColumn("VERDICT"),
            TableColumn("PLUGIN"),
            TableColumn("REASON", text=True),
            TableColumn("SCORE", right=True),
            *(TableColumn(plugin, right=True) for plugin in plugins),
        ]
    )
    chosen = answer["node"] or answer["wouldGoTo"]
    ranked = sorted(scores, key=lambda name: (name != chosen, -scores[name]["total"], name))
    shown = ranked if each else ranked[:BEST_SHOWN]
    for name in shown:
        parts = [scores[name]["plugins"].get(plugin, 0) for plugin in plugins]
        table.add(*_fitting(name, answer["node"]), scores[name]["total"], *parts)
    if hidden := ranked[len(shown) :]:
        low, high = scores[hidden[-1]]["total"], scores[hidden[0]]["total"]
        extent = str(low) if low == high else f"{low}-{high}"
        table.add(f"{len(hidden)} more", TableCell("fits", GOOD), "", "", extent)
    for names, plugin, reason in _rejected(verdicts, each):
        blanks = [""] * (1 + len(plugins))
        table.add(_named(names), TableCell("rejected", BAD), plugin, reason, *blanks)
    if table.rows:
        show(table)
        say("")
    _conclude(answer)


def _fitting(name: str, chosen: str | None) -> tuple[TableCell, TableCell, str, str]:
    if name == chosen:
        return TableCell(name, "bold"), TableCell("chosen", f"bold {GOOD}"), "", ""
    return TableCell(name), TableCell("fits", GOOD), "", ""


def _plugins(scores: dict[str, Any]) -> list[str]:
    """All plugins that scored some node, in the order of their profile."""
    return list(dict.fromkeys(plugin for score in scores.values() for plugin in score["plugins"]))


def _rejected(verdicts: dict[str, Any], each: bool) -> list[tuple[list[str], str, str]]:
    """Nodes with the same plugin and reasons, the largest group first; or every node by itself."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, verdict in sorted(verdicts.items()):
        if not verdict["fit"]:
            reason = ", ".join(verdict["reasons"])
            key = (verdict["plugin"], reason, name if each else "")
            groups.setdefault(key, []).append(name)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [(names, plugin, reason) for (plugin, reason, _), names in ordered]


def _named(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= NAMES_SHOWN else f"{len(names)} nodes"


def _conclude(answer: dict[str, Any]) -> None:
    if gang := answer.get("group"):
        say(_standing(gang), DIM)
    pod, standing = answer["pod"], answer["standing"]
    state = standing["state"]
    same = state == "unschedulable" and _as_last_time(answer)
    if not same and (sentence := _sentence(standing)):
        say(f"{pod} {sentence}", BAD if state in _IF_NOT_HELD else DIM)
    if state in _IF_NOT_HELD:
        say(f"{_IF_NOT_HELD[state]} {_outcome(answer, answer['wouldGoTo'])}", DIM)
    elif standing["node"]:
        say(f"placed anew it would {_outcome(answer, answer['node'])}", DIM)
        if plugin := answer["countsItself"]:
            words = f"on {standing['node']}, {plugin} counts the pod itself: it may fit there"
            say(words, DIM)
    elif node := answer["node"]:
        say(f"{pod} goes to {node}{_compared(answer, node)}", GOOD)
    else:
        verdict = "gets no node" if answer["fit"] else "fits nowhere"
        say(f"{pod} {verdict}: {answer['message']}", BAD)
    if batch := answer.get("batch"):
        say(_batch(batch), DIM)
    if answer["nominated"]:
        say(f"{answer['nominated']} is nominated for it", DIM)
    if answer["preemption"] is not None:
        say(_preemption(answer["preemption"]), DIM)


_IF_NOT_HELD = {
    "gated": "without the gate it would",
    "group": "alone, without its group, it would",
    "terminating": "otherwise it would",
    "ended": "placed anew it would",
    "other-scheduler": "scheduled here it would",
}
"""In which states a pod is not tried, or not by itself, and when it would be."""


def _as_last_time(answer: dict[str, Any]) -> bool:
    """Whether the pod would be rejected again, for what it was last rejected for."""
    last: str = answer["standing"]["message"]
    return answer["node"] is None and last.startswith(answer["message"])


def _sentence(standing: dict[str, Any]) -> str:
    """The state of the pod; nothing if it is simply active in the queue."""
    message, plugins = standing["message"], ", ".join(standing["plugins"])
    node, retry = standing["node"], standing["retrySeconds"]
    again = f"is tried again in {span(retry)}" if retry is not None else "is to be tried again"
    sentences = {
        "new": message.removeprefix("it "),
        "backoff": f"backs off and {again}; last time: {message}",
        "error-backoff": f"backs off and {again}; last time: {message}",
        "unschedulable": f"was rejected when it was last tried: {message}",
        "gated": f"is gated by {plugins}: {message}; nothing else was tried",
        "in-flight": f"is being tried{': ' if message else ''}{message}",
        "group": f"is placed with its group or not at all: {message}",
        "permit": f"holds {node} and waits at permit for {plugins}",
        "binding": f"holds {node} and is being bound{': ' if message else ''}{message}",
        "bound": f"is on {node}{' and is being deleted' if message else ''}",
        "terminating": "is being deleted, so it is not tried",
        "ended": message.removeprefix("it "),
        "other-scheduler": f"is not tried: {message}",
    }
    sentence: str = sentences.get(standing["state"], "")
    return sentence


def _outcome(answer: dict[str, Any], node: str | None) -> str:
    """What would become of the pod, after "would"."""
    if node is not None:
        return f"go to {node}{_compared(answer, node)}"
    return f"fit nowhere: {answer['message']}"


def _compared(answer: dict[str, Any], node: str) -> str:
    summary = f"{len(answer['fit'])} of {counted(len(answer['nodes']), 'node')} fit"
    score = answer["scores"].get(node)
    return f" with score {score['total']}; {summary}" if score else f"; {summary}"


def _batch(batch: dict[str, Any]) -> str:
    """Who chooses the node when the pod is one of many."""
    model = batch["costModel"]
    if batch["chose"]:
        return f"cost model {model} chose the node, for all pods that wait at once"
    many = f"where {batch['minPending']} or more pods wait at once"
    score = "" if model == "Scores" else ", whatever they score"
    return f"{many}, cost model {model} chooses among the nodes that fit{score}"


def _preemption(preview: dict[str, Any]) -> str:
    """The victims of a preemption, or why there is none."""
    if preview["node"] is None:
        message: str = preview["message"]
        return message
    victims = preview["victims"]
    more = f" and {len(victims) - NAMES_SHOWN} more" if len(victims) > NAMES_SHOWN else ""
    against = preview["violations"]
    budgets = f", {against} of them against a disruption budget" if against else ""
    names = ", ".join(victims[:NAMES_SHOWN])
    return f"preemption: it would evict {names}{more} from {preview['node']}{budgets}"


def _standing(gang: dict[str, Any]) -> str:
    """How the pod's gang stands: no member is bound before enough of them have nodes."""
    if gang["fault"]:
        return f"pod group {gang['name']}: {gang['fault']}"
    counts = f"{gang['placed']} of {gang['minMember']} members have nodes, {gang['existing']} exist"
    return f"pod group {gang['name']} is {gang['phase']}: {counts}"
