"""``equipoise simulate --compare``: the same pods under two configurations, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from scheduler.cli.batch_report import FIGURES, LISTED
from scheduler.cli.output import BAD, DIM, GOOD, counted, emit, for_programs, say, show
from scheduler.cli.picture import write
from scheduler.cli.simulation_plot import Drawn, draw
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.comparison import Play, play
from scheduler.config.loading import Configuration
from scheduler.simulation import Eviction, Placed, eviction_of

_LEFT_OUT = ("  placed at once", "  placed one by one")
"""What is the same for both: nothing is placed at once here."""
_MOST_NODES = 20


class MovedPod(NamedTuple):
    """A pod that goes elsewhere with the other configuration."""

    pod: str
    a: str | None
    b: str | None


class ConfigOutcome(NamedTuple):
    """What one configuration makes of the pods."""

    name: str
    play: Play
    placed: list[Placed]

    @property
    def evicted(self) -> dict[str, Eviction]:
        """Pods that others pushed out."""
        found = map(eviction_of, self.placed)
        return {each.pod: each for each in found if each is not None}

    @property
    def pending(self) -> Counter[str]:
        """How many pods wait, by reason."""
        waiting = (each for each in self.placed if each.node is None)
        return Counter(each.message for each in waiting if eviction_of(each) is None)


def compare_configurations(
    objects: list[dict[str, Any]],
    named: Sequence[tuple[str, Configuration | None]],
    *,
    evict: bool,
    plot: Path | None,
    output: str,
) -> None:
    """Simulate with each of two configurations, print what differs, and draw it if asked to."""
    first, second = (
        ConfigOutcome(name, *play(objects, config, evict=evict)) for name, config in named
    )
    if plot is not None:
        write(draw((drawn(first), drawn(second))), plot)
    if for_programs(output):
        both = {"a": _as_value(first), "b": _as_value(second)}
        emit({**both, "moved": [each._asdict() for each in _moved(first, second)]}, output)
        return
    if not first.play.pods:
        say("no pods to schedule")
        return
    _show_figures(first, second)
    _show_reasons(first, second)
    _show_moves(first, second)
    _show_evicted(first, second)
    _show_nodes(first, second)


def played_and_drawn(
    objects: list[dict[str, Any]], config: Configuration | None, plot: Path, *, evict: bool
) -> list[Placed]:
    """Simulate with one configuration, and draw it."""
    outcome = ConfigOutcome("", *play(objects, config, batch=None, evict=evict))
    write(draw((drawn(outcome),)), plot)
    return outcome.placed


def drawn(outcome: ConfigOutcome) -> Drawn:
    """What is drawn of an outcome."""
    return Drawn(outcome.name, outcome.play, outcome.pending, list(outcome.evicted.values()))


def _as_value(outcome: ConfigOutcome) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(outcome.play)
    for field in ("batches", "placedAtOnce", "placedOneByOne"):
        del value[field]
    pending = dict(outcome.pending)
    return {
        "config": outcome.name,
        **value,
        "pendingByReason": pending,
        "evicted": [each._asdict() for each in outcome.evicted.values()],
        "pending": sum(pending.values()),
    }


def _moved(first: ConfigOutcome, second: ConfigOutcome) -> list[MovedPod]:
    others = second.play.pods
    return [
        MovedPod(pod, node, others.get(pod))
        for pod, node in first.play.pods.items()
        if node != others.get(pod)
    ]


def _table(first: ConfigOutcome, second: ConfigOutcome, title: str = "") -> Table:
    columns = (TableColumn(each.name, right=True) for each in (first, second))
    return Table((TableColumn(title), *columns))


def _show_figures(first: ConfigOutcome, second: ConfigOutcome) -> None:
    table = _table(first, second)
    for title, figure, better in FIGURES:
        if title in _LEFT_OUT:
            continue
        a, b = figure(first.play), figure(second.play)
        style = ""
        if better and abs(b[0] - a[0]) > 1e-9:
            style = GOOD if (b[0] - a[0]) * better > 0 else BAD
        table.add(title, a[1], TableCell(b[1], style))
    table.add("evicted", len(first.evicted), len(second.evicted))
    show(table)
    say("")


def _show_reasons(first: ConfigOutcome, second: ConfigOutcome) -> None:
    reasons = first.pending | second.pending
    if not reasons:
        return
    # What is long comes last, where it makes no column wide.
    columns = (TableColumn(first.name, right=True), TableColumn(second.name, right=True))
    table = Table((*columns, TableColumn("PENDING", text=True)))
    for reason, _ in reasons.most_common():
        table.add(first.pending[reason], second.pending[reason], reason)
    show(table)
    say("")


def _show_moves(first: ConfigOutcome, second: ConfigOutcome) -> None:
    moved = _moved(first, second)
    if not moved:
        say("every pod goes to the same node with both")
        return
    # Pods that only one of them finds a node for come first: they matter most.
    moved.sort(key=lambda move: (move.a is not None, move.b is not None))
    table = Table((TableColumn("POD"), TableColumn(first.name), TableColumn(second.name)))
    for move in moved[:LISTED]:
        table.add(
            move.pod,
            TableCell(move.a or "<none>", "" if move.a else DIM),
            TableCell(move.b or "<none>", GOOD if move.b and not move.a else ""),
        )
    show(table)
    if len(moved) > LISTED:
        say(f"and {counted(len(moved) - LISTED, 'more pod')}")


def _show_evicted(first: ConfigOutcome, second: ConfigOutcome) -> None:
    """Which pods were evicted, from which node and for which pod."""
    a, b = first.evicted, second.evicted
    victims = list(a | b)
    if not victims:
        return
    say("")
    table = Table((TableColumn("EVICTED"), TableColumn(first.name), TableColumn(second.name)))
    for pod in victims[:LISTED]:
        table.add(pod, *(_eviction(found.get(pod)) for found in (a, b)))
    show(table)
    if len(victims) > LISTED:
        say(f"and {counted(len(victims) - LISTED, 'more pod')}")


def _eviction(found: Eviction | None) -> TableCell:
    return TableCell("-", DIM) if found is None else TableCell(f"{found.node}, by {found.by}", BAD)


def _show_nodes(first: ConfigOutcome, second: ConfigOutcome) -> None:
    """The nodes whose utilisation differs most, CPU and memory of both."""
    others = {each.name: each for each in second.play.nodes}
    pairs = [(each, others[each.name]) for each in first.play.nodes if each.name in others]
    differing = [
        (abs(a.cpu - b.cpu) + abs(a.memory - b.memory), a, b)
        for a, b in pairs
        if (a.cpu, a.memory) != (b.cpu, b.memory)
    ]
    if not differing:
        return
    say("")
    differing.sort(key=lambda each: (-each[0], each[1].name))
    table = _table(first, second, "NODE (CPU, MEMORY)")
    for _, a, b in differing[:_MOST_NODES]:
        table.add(a.name, f"{a.cpu:.0%} {a.memory:.0%}", f"{b.cpu:.0%} {b.memory:.0%}")
    show(table)
    if len(differing) > _MOST_NODES:
        say(f"and {counted(len(differing) - _MOST_NODES, 'more node')}")
