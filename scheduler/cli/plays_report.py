"""What becomes of the pods of a recording under two configurations, side by side."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from scheduler.cli.output import BAD, DIM, GOOD, counted, heading, say, show
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.replaying.simulating import NodeUse, PodFate, RecordingOutcome

LISTED = 20
_A_WHILE = 1.0
"""Seconds: waits that differ by less are alike."""


class Plays(NamedTuple):
    """Two plays of one recording, and the names of their configurations."""

    a: str
    first: RecordingOutcome
    b: str
    second: RecordingOutcome

    def pairs(self) -> list[tuple[PodFate, PodFate]]:
        """What became of each pod in both."""
        others = self.second.fates
        return [(fate, others[uid]) for uid, fate in self.first.fates.items() if uid in others]

    def missing(self) -> list[str]:
        """Kinds that the second configuration needs and that were not recorded."""
        return sorted(self.second.kinds - self.first.kinds)

    def moved(self) -> list[tuple[PodFate, PodFate]]:
        """Pods that go elsewhere; first those that only one of the two places."""
        found = [(a, b) for a, b in self.pairs() if a.node != b.node]
        return sorted(found, key=lambda pair: (bool(pair[0].node), bool(pair[1].node)))

    def waited_otherwise(self) -> list[tuple[PodFate, PodFate, float]]:
        """Pods that got nodes in both, and how many seconds later in the second; longest first."""
        found = [
            (a, b, b.waited - a.waited)
            for a, b in self.pairs()
            if a.waited is not None
            and b.waited is not None
            and abs(b.waited - a.waited) >= _A_WHILE
        ]
        return sorted(found, key=lambda each: -abs(each[2]))


def show_plays(plays: Plays) -> None:
    """Print both, side by side."""
    heading("What becomes of the pods")
    if not plays.first.fates and not plays.second.fates:
        say("no pod of ours waited")
        return
    _show_figures(plays)
    _show_reasons(plays)
    _show_moves(plays)
    _show_waits(plays)
    _show_nodes(plays)


def as_value(plays: Plays) -> dict[str, Any]:
    """The same for programs."""
    return {
        "plays": {"a": _outcome(plays.a, plays.first), "b": _outcome(plays.b, plays.second)},
        "moved": [
            {"pod": a.pod, "a": a.node or None, "b": b.node or None} for a, b in plays.moved()
        ],
        "waitedOtherwise": [
            {"pod": a.pod, "a": a.waited, "b": b.waited} for a, b, _ in plays.waited_otherwise()
        ],
    }


def _outcome(name: str, outcome: RecordingOutcome) -> dict[str, Any]:
    waits = outcome.waits()
    return {
        "config": name,
        "pods": len(outcome.fates),
        "placed": outcome.placed,
        "evicted": _evicted(outcome),
        "attempts": outcome.attempts,
        "pendingByReason": dict(_reasons(outcome)),
        "waitMedianSeconds": _quantile(waits, 0.5),
        "waitP99Seconds": _quantile(waits, 0.99),
        "spread": outcome.spread,
        "nodes": {name: use._asdict() for name, use in outcome.nodes.items()},
        "outcomes": {fate.pod: fate.node or None for fate in outcome.fates.values()},
    }


def _evicted(outcome: RecordingOutcome) -> int:
    return sum(fate.evicted for fate in outcome.fates.values())


def _reasons(outcome: RecordingOutcome) -> Counter[str]:
    return Counter(fate.message for fate in outcome.fates.values() if not fate.node)


def _quantile(values: list[float], share: float) -> float | None:
    return values[min(int(share * len(values)), len(values) - 1)] if values else None


def _show_figures(plays: Plays) -> None:
    table = _table(plays, "")
    both = (plays.first, plays.second)
    table.add("pods", *(len(each.fates) for each in both))
    table.add("placed", *(each.placed for each in both))
    table.add("  evicted later", *map(_evicted, both))
    table.add("pending", *(len(each.fates) - each.placed for each in both))
    table.add("attempts", *(each.attempts for each in both))
    for title, share in (("wait, median", 0.5), ("wait, p99", 0.99)):
        table.add(title, *(_seconds(_quantile(each.waits(), share)) for each in both))
    for title, position in (("CPU requested at the end", 0), ("memory requested at the end", 1)):
        table.add(title, *(f"{_mean(each, position):.1%}" for each in both))
    table.add("spread of nodes at the end", *(f"{each.spread:.1%}" for each in both))
    show(table)
    say("")


def _mean(outcome: RecordingOutcome, position: int) -> float:
    uses = [use[position] for use in outcome.nodes.values()]
    return sum(uses) / len(uses) if uses else 0.0


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _show_reasons(plays: Plays) -> None:
    first, second = _reasons(plays.first), _reasons(plays.second)
    if not first and not second:
        return
    # What is long comes last, where it makes no column wide.
    columns = (TableColumn(plays.a, right=True), TableColumn(plays.b, right=True))
    table = Table((*columns, TableColumn("PENDING", text=True)))
    for reason, _ in (first | second).most_common():
        table.add(first[reason], second[reason], reason or "was not tried")
    show(table)
    say("")


def _show_moves(plays: Plays) -> None:
    moved = plays.moved()
    if not moved:
        say("every pod goes to the same node with both")
        return
    table = Table((TableColumn("POD"), TableColumn(plays.a), TableColumn(plays.b)))
    for a, b in moved[:LISTED]:
        table.add(a.pod, _node(a), _node(b, GOOD if b.node and not a.node else ""))
    show(table)
    if len(moved) > LISTED:
        say(f"and {counted(len(moved) - LISTED, 'more pod')}")


def _node(fate: PodFate, style: str = "") -> TableCell:
    return TableCell(fate.node or "<none>", style if fate.node else DIM)


def _show_waits(plays: Plays) -> None:
    waited = plays.waited_otherwise()
    if not waited:
        return
    longer = sum(later > 0 for _, _, later in waited)
    say("")
    say(
        f"{counted(longer, 'pod')} wait longer, {len(waited) - longer} shorter, by a second or more"
    )
    table = Table(
        (TableColumn("POD"), TableColumn(plays.a, right=True), TableColumn(plays.b, right=True))
    )
    for a, b, later in waited[:LISTED]:
        table.add(
            a.pod, _seconds(a.waited), TableCell(_seconds(b.waited), BAD if later > 0 else GOOD)
        )
    show(table)


def _show_nodes(plays: Plays) -> None:
    """The nodes whose utilisation at the end differs most."""
    others = plays.second.nodes
    pairs = [
        (name, use, others.get(name, NodeUse(0.0, 0.0))) for name, use in plays.first.nodes.items()
    ]
    differing = [
        (abs(a.cpu - b.cpu) + abs(a.memory - b.memory), name, a, b)
        for name, a, b in pairs
        if a != b
    ]
    if not differing:
        return
    differing.sort(key=lambda each: (-each[0], each[1]))
    say("")
    table = _table(plays, "NODE (CPU, MEMORY)")
    for _, name, a, b in differing[:LISTED]:
        table.add(name, f"{a.cpu:.0%} {a.memory:.0%}", f"{b.cpu:.0%} {b.memory:.0%}")
    show(table)
    if len(differing) > LISTED:
        say(f"and {counted(len(differing) - LISTED, 'more node')}")


def _table(plays: Plays, title: str) -> Table:
    columns = (TableColumn(plays.a, right=True), TableColumn(plays.b, right=True))
    return Table((TableColumn(title), *columns))
