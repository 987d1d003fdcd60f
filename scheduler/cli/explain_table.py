"""An explanation as a table: the best nodes first, then who was rejected, and why."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scheduler.cli.output import BAD, DIM, GOOD, counted, say, show
from scheduler.cli.tables import Cell, Column, Table

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
    ranked = sorted(scores, key=lambda name: (name != answer["node"], -scores[name]["total"], name))
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
    fitting, total = len(answer["fit"]), len(answer["nodes"])
    if gang := answer.get("group"):
        say(_standing(gang), DIM)
    if bound := answer.get("boundTo"):
        say(f"{answer['pod']} is on {bound}; placed anew:", DIM)
    if fitting:
        score = answer["scores"][answer["node"]]["total"]
        summary = f"{fitting} of {counted(total, 'node')} fit"
        say(f"{answer['pod']} goes to {answer['node']} with score {score}; {summary}", GOOD)
    else:
        say(f"{answer['pod']} fits nowhere: {answer['message']}", BAD)


def _standing(gang: dict[str, Any]) -> str:
    """How the pod's gang stands: no member is bound before enough of them have nodes."""
    if gang["fault"]:
        return f"pod group {gang['name']}: {gang['fault']}"
    counts = f"{gang['placed']} of {gang['minMember']} members have nodes, {gang['existing']} exist"
    return f"pod group {gang['name']} is {gang['phase']}: {counts}"
