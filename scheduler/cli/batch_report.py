"""``equipoise simulate --batch``: what placing all pods at once would change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler.cli.output import BAD, DIM, GOOD, WARN, counted, emit, for_programs, say, show
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.comparison import Comparison, Play, as_value, compare
from scheduler.config.loading import Configuration
from scheduler.simulation import Placed

GIB = 1 << 30
LISTED = 20

_RESULTS = {
    "solved": "solved at once by cost model {}",
    "uncontended": "no node is asked for more than it takes, so one by one is as good",
    "greedy": "one by one came out as good or better, and its result is kept",
    "nowhere": "no pod could take part",
    "failed": "the solver failed, so pods were placed one by one",
}


def compared(
    objects: list[dict[str, Any]],
    config: Configuration | None,
    plot: Path | None,
    output: str,
) -> list[Placed]:
    """Simulate both, print what differs, and plot it if requested; returns the play at once."""
    comparison = compare(objects, config)
    if for_programs(output):
        emit(as_value(comparison), output)
    else:
        _show(comparison)
    if plot is not None:
        from scheduler.cli.batch_plot import draw
        from scheduler.cli.picture import write

        write(draw(comparison), plot)
    return comparison.placed


def _show(comparison: Comparison) -> None:
    one, other = comparison.one_by_one, comparison.at_once
    if not one.pods:
        say("no pods to schedule")
        return
    table = Table(
        (TableColumn(""), TableColumn("ONE BY ONE", right=True), TableColumn("AT ONCE", right=True))
    )
    for title, figure, better in FIGURES:
        first, second = figure(one), figure(other)
        style = ""
        if better and abs(second[0] - first[0]) > 1e-9:
            style = GOOD if (second[0] - first[0]) * better > 0 else BAD
        table.add(title, first[1], TableCell(second[1], style))
    show(table)
    say("")
    _show_moves(comparison)
    for batch in other.batches:
        say(
            f"priority {batch.priority}: {counted(batch.pods, 'pod')}, "
            f"{_RESULTS[batch.result].format(batch.model)}",
            WARN if batch.result == "failed" else "",
        )
        if batch.rounds:
            say(
                f"  {counted(batch.members, 'pod')} of {batch.classes} classes took part, on "
                f"{counted(batch.nodes, 'node')}: {batch.arcs} arcs, "
                f"{counted(batch.rounds, 'round')}; of {batch.pods}, {batch.placed} placed at "
                f"once, {batch.placed_one_by_one} one by one, {batch.pending} pending; filters "
                f"refused {counted(batch.refused, 'proposal')}",
                DIM,
            )
    if outside := other.pods_to_place - sum(batch.pods for batch in other.batches):
        say(f"in no batch: {counted(outside, 'pod')} (gated, or of a DaemonSet)")


def _show_moves(comparison: Comparison) -> None:
    moved = [
        (pod, node, comparison.at_once.pods.get(pod))
        for pod, node in comparison.one_by_one.pods.items()
        if node != comparison.at_once.pods.get(pod)
    ]
    if not moved:
        say("every pod goes to the same node either way")
        return
    table = Table((TableColumn("POD"), TableColumn("ONE BY ONE"), TableColumn("AT ONCE")))
    # Pods that only one of the ways finds a node for come first: they matter most.
    moved.sort(key=lambda move: (move[1] is not None, move[2] is not None))
    for pod, before, after in moved[:LISTED]:
        table.add(
            pod,
            TableCell(before or "<none>", "" if before else DIM),
            TableCell(after or "<none>", GOOD if after and not before else ""),
        )
    show(table)
    if len(moved) > LISTED:
        say(f"and {counted(len(moved) - LISTED, 'more pod')}")
    say("")


Figure = Callable[[Play], tuple[float, str]]
"""A number to compare and how to write it."""


def _weight(play: Play) -> tuple[float, str]:
    best = play.preferred_at_best
    if not best:
        return 0.0, "-"
    return play.preferred, f"{play.preferred} of {best} ({play.preferred / best:.1%})"


FIGURES: tuple[tuple[str, Figure, int], ...] = (
    ("pods to place", lambda play: (play.pods_to_place, str(play.pods_to_place)), 0),
    ("  placed at once", lambda play: (play.placed_at_once, str(play.placed_at_once)), 0),
    ("  placed one by one", lambda play: (play.placed_one_by_one, str(play.placed_one_by_one)), 0),
    ("  pending", lambda play: (play.pending, str(play.pending)), -1),
    ("CPUs placed", lambda play: (play.cpu, f"{play.cpu:.1f}"), +1),
    ("memory placed", lambda play: (play.memory, f"{play.memory / GIB:.1f} GiB"), +1),
    ("preferred weight", _weight, +1),
    ("nodes used", lambda play: (play.nodes_used, str(play.nodes_used)), 0),
    ("fullest node", lambda play: (play.fullest, f"{play.fullest:.0%}"), 0),
    ("spread of utilisation", lambda play: (play.spread, f"{play.spread:.3f}"), 0),
)
