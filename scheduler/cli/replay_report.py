"""What ``equipoise replay`` prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scheduler.cli import plays_report
from scheduler.cli.output import BAD, GOOD, counted, emit, for_programs, heading, note, say, show
from scheduler.cli.plays_report import Plays
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.replaying.driving import Replayed
from scheduler.replaying.following import DecisionComparison, Difference

LISTED = 20


def show_followed(replayed: Replayed, output: str) -> None:
    """How the same configuration decided again."""
    if for_programs(output):
        emit(_as_value(replayed), output)
        return
    _show_notes(replayed)
    comparison = replayed.comparison
    say(_what_was_read(replayed))
    if not comparison.different:
        say(_all_equal(comparison), GOOD if comparison.decisions else "")
    else:
        differ = counted(comparison.different, "difference")
        say(f"{counted(comparison.decisions, 'decision')}, {differ}", BAD)
    _show_left_out(replayed)
    if comparison.differences:
        _show_first(replayed, comparison.differences[0])
        _show_differences(replayed)


def show_other(replayed: Replayed, plays: Plays, output: str) -> None:
    """What another configuration would have decided, and what would have become of the pods."""
    missing = [
        f"the recorded scheduler did not watch objects of kind {each}: the recording has none"
        for each in plays.missing()
    ]
    replayed = replayed._replace(notes=[*replayed.notes, *missing])
    if for_programs(output):
        emit({**_as_value(replayed), **plays_report.as_value(plays)}, output)
        return
    comparison = replayed.comparison
    _show_notes(replayed)
    say(_what_was_read(replayed))
    heading("Each decision at its moment")
    decisions = counted(comparison.decisions, "decision")
    if comparison.differences:
        say(f"{decisions}, {counted(comparison.different, 'difference')}")
        _show_differences(replayed)
    else:
        say(_all_equal(comparison))
    _show_left_out(replayed)
    plays_report.show_plays(plays)


def _all_equal(comparison: DecisionComparison) -> str:
    if not comparison.decisions:
        return "there is no decision to compare"
    return f"{counted(comparison.decisions, 'decision')}, all equal"


def _what_was_read(replayed: Replayed) -> str:
    span = f"{_written(replayed.first)} to {_written(replayed.last)}"
    versions = ", ".join(replayed.versions)
    return f"{counted(replayed.segments, 'segment')}, {span}, recorded by version {versions}"


def _show_notes(replayed: Replayed) -> None:
    for each in replayed.notes:
        note(each)


def _show_left_out(replayed: Replayed) -> None:
    comparison = replayed.comparison
    for reason, count in comparison.reasons.items():
        say(f"{counted(count, 'step')} not compared: {reason}")


def _show_first(replayed: Replayed, first: Difference) -> None:
    heading("The first difference")
    say(f"entry {first.number}, {_written(replayed.wall(first.number, first.time))}: {first.pod}")
    say(f"  {first.what} recorded: {first.recorded}")
    say(f"  {first.what} replayed: {first.replayed}")
    say("")


def _show_differences(replayed: Replayed) -> None:
    comparison = replayed.comparison
    table = Table(
        (
            TableColumn("TIME"),
            TableColumn("POD"),
            TableColumn("WHAT"),
            TableColumn("RECORDED", text=True),
            TableColumn("REPLAYED", text=True),
        )
    )
    for each in comparison.differences[:LISTED]:
        time = _written(replayed.wall(each.number, each.time))
        table.add(time, each.pod, each.what, each.recorded, TableCell(each.replayed))
    show(table)
    if comparison.different > LISTED:
        say(f"and {counted(comparison.different - LISTED, 'more difference')}")


def _as_value(replayed: Replayed) -> dict[str, Any]:
    comparison = replayed.comparison
    return {
        "from": _written(replayed.first),
        "to": _written(replayed.last),
        "segments": replayed.segments,
        "versions": list(replayed.versions),
        "decisions": comparison.decisions,
        "placed": comparison.placed,
        "bound": comparison.bound,
        "failed": comparison.failed,
        "different": comparison.different,
        "notCompared": dict(comparison.reasons),
        "notes": replayed.notes,
        "differences": [
            {
                "entry": each.number,
                "time": _written(replayed.wall(each.number, each.time)),
                "pod": each.pod,
                "what": each.what,
                "recorded": each.recorded,
                "replayed": each.replayed,
            }
            for each in comparison.differences
        ],
    }


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
