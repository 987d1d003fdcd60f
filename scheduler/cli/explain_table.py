"""An explanation as a table: the best nodes first, then who was rejected, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scheduler.cli.output import BAD, DIM, GOOD, counted, say, show
from scheduler.cli.tables import Cell, Column, Table
from scheduler.cli.units import span

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
            Column("NODE"),
            Column("VERDICT"),
            Column("PLUGIN"),
            Column("REASON", text=True),
            Column("SCORE", right=True),
            *(Column(plugin, right=True) for plugin in plugins),
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
        table.add(f"{len(hidden)} more", Cell("fits", GOOD), "", "", extent)
    for names, plugin, reason in _rejected(verdicts, each):
        blanks = [""] * (1 + len(plugins))
        table.add(_named(names), Cell("rejected", BAD), plugin, reason, *blanks)
    if table.rows:
        show(table)
        say("")
    _conclude(answer)


def _fitting(name: str, chosen: str | None) -> tuple[Cell, Cell, str, str]:
    if name == chosen:
        return Cell(name, "bold"), Cell("chosen", f"bold {GOOD}"), "", ""
    return Cell(name), Cell("fits", GOOD), "", ""


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
    """How far the pod is; nothing if it just waits for its turn."""
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
    """Whom the pod would evict, or why nobody."""
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
