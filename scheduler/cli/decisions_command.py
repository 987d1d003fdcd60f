"""``equipoise decisions``: what a running scheduler has decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import click

from scheduler.cli.addresses import NoAnswer, Refused
from scheduler.cli.options import AT_MOST, limit_option
from scheduler.cli.output import (
    JSON,
    TABLE,
    WIDE,
    YAML,
    as_json,
    emit,
    for_programs,
    note,
    output_option,
    say,
    show,
)
from scheduler.cli.remote import (
    AnsweringReplica,
    Remote,
    ask_leader,
    fetch,
    server_option,
)
from scheduler.cli.states import style_of
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.targets import parse_pod
from scheduler.cli.units import duration
from scheduler.explaining.reasons import informative

# Follows the numbered decisions of a scheduler that only keeps its latest ones.


Decision = dict[str, Any]

USUALLY = 100


class Latest(NamedTuple):
    """The latest decisions of a process, newest first; each process numbers its own from 1."""

    process: str
    decisions: list[Decision]


class News(NamedTuple):
    """Decisions since the last look, oldest first, and how many were made and lost before them."""

    decisions: list[Decision]
    missed: int = 0


def follow(
    first: Latest, latest: Callable[[int], Latest | None], pause: Callable[[], None]
) -> Iterator[News]:
    """Yield what is new after ``first``, for ever; pauses before each look.

    ``latest`` gives so many decisions, or None if no leader answers. Another process
    is followed from its first decision on: it leads now.
    """
    process, last = first.process, _newest(first)
    while True:
        pause()
        if (recent := latest(USUALLY)) is None:
            continue
        # Processes without an identity show a restart by numbers that decrease.
        if recent.process != process or _newest(recent) < last:
            process, last = recent.process, 0
        if len(recent.decisions) == USUALLY and recent.decisions[-1]["seq"] > last + 1:
            wider = latest(AT_MOST)
            recent = wider if wider is not None and wider.process == process else recent
        fresh = [decision for decision in reversed(recent.decisions) if decision["seq"] > last]
        if fresh:
            missed = fresh[0]["seq"] - last - 1
            last = fresh[-1]["seq"]
            yield News(fresh, missed)


def _newest(latest: Latest) -> int:
    return latest.decisions[0]["seq"] if latest.decisions else 0


FOLLOW_SECONDS = 1.0

DECISIONS = "/api/v1/decisions"


@click.command()
@server_option()
@limit_option(50, "decisions")
@click.option("--follow", "following", is_flag=True, help="Print new decisions until Ctrl-C.")
@click.option("--pod", help="Only decisions about this pod: NAME or NAMESPACE/NAME.")
@click.option("-n", "--namespace", help="Namespace of the pod; default: that of the context.")
@output_option(TABLE, WIDE, JSON, YAML)
def decisions(
    server: Remote,
    limit: int,
    following: bool,
    pod: str | None,
    namespace: str | None,
    output: str,
) -> None:
    """List the latest scheduling decisions, the newest last.

    With --follow, JSON output has one line per decision.
    """
    about = _about(server, pod, namespace)
    latest = ask_leader(server, DECISIONS, limit=limit, pod=about)
    if following:
        _follow(server, latest, about, output)
    elif for_programs(output):
        emit(latest, output)
    elif latest["decisions"]:
        show(decisions_table(latest["decisions"][::-1], output == WIDE))
    else:
        say(f"no decisions about {about} are kept" if about else "no decisions yet")


def _about(server: Remote, pod: str | None, namespace: str | None) -> str | None:
    if pod is None:
        if namespace is not None:
            raise click.UsageError("--namespace needs --pod: decisions can be selected by pod only")
        return None
    target = parse_pod(pod, namespace)
    return f"{target.namespace or server.namespace}/{target.name}"


def decisions_table(entries: Sequence[Decision], wide: bool, widths: Sequence[int] = ()) -> Table:
    """The decisions in the given order; with widths it continues a table that had them."""
    columns = [
        TableColumn("TIME"),
        TableColumn("POD"),
        TableColumn("RESULT"),
        TableColumn("NODE"),
        TableColumn("SCORE", right=True),
        TableColumn("FEASIBLE", right=True),
        TableColumn("TOOK", right=True),
        *([TableColumn("COST MODEL"), TableColumn("REJECTED BY", text=True)] if wide else []),
        TableColumn("MESSAGE", text=True),
    ]
    table = Table(columns, at_least=widths, header=not widths)
    for entry in entries:
        table.add(
            f"{datetime.fromtimestamp(entry['time']):{'%F %T' if wide else '%T'}}",
            entry["pod"],
            TableCell(entry["result"], style_of(entry["result"])),
            entry["node"],
            "" if entry["score"] is None else entry["score"],
            f"{entry['feasible']}/{entry['evaluated']}",
            duration(entry["duration"]),
            *([entry.get("model", ""), ", ".join(entry["plugins"])] if wide else []),
            entry["message"] if wide else informative(entry["message"]),
        )
    return table


def _follow(server: Remote, answer: dict[str, Any], about: str | None, output: str) -> None:
    """Print what comes until Ctrl-C; a scheduler that goes away, or no longer leads, is awaited."""
    printer = _DecisionPrinter(output)
    first = _latest(answer)
    try:
        printer.print(first.decisions[::-1])
        for news in follow(first, _PatientSource(server, about), _pause):
            # Numbers between those about one pod are about others.
            if news.missed and about is None:
                note(f"{news.missed} decisions came too fast to be shown")
            printer.print(news.decisions)
    except KeyboardInterrupt:
        return


def _latest(answer: dict[str, Any]) -> Latest:
    return Latest(AnsweringReplica.of(answer).identity, answer["decisions"])


def _pause() -> None:
    time.sleep(FOLLOW_SECONDS)


class _PatientSource:
    """Requests the latest decisions from the leader; prints once why there are none."""

    def __init__(self, server: Remote, about: str | None = None) -> None:
        self._server = server
        self._pod = about
        self._lost = False

    def __call__(self, count: int) -> Latest | None:
        try:
            answer = fetch(self._server, DECISIONS, limit=count, pod=self._pod)
        except (NoAnswer, Refused) as fault:
            self._complain(str(fault))
            return None
        replica = AnsweringReplica.of(answer)
        if not replica.leading:
            self._complain(replica.standby())
            return None
        self._lost = False
        return _latest(answer)

    def _complain(self, trouble: str) -> None:
        if not self._lost:
            note(f"{trouble}; still trying")
        self._lost = True


class _DecisionPrinter:
    """Prints decisions in pieces that line up."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._widths: Sequence[int] = ()

    def print(self, entries: Sequence[Decision]) -> None:
        """Print some more."""
        if self._output == JSON:
            for entry in entries:
                click.echo(as_json(entry))
        elif self._output == YAML:
            if entries:
                emit(list(entries), YAML)
        else:
            table = decisions_table(entries, self._output == WIDE, self._widths)
            show(table)
            # The message comes last: nothing has to line up behind it.
            self._widths = [*table.widths[:-1], 0]
