"""``equipoise queue``, ``nodes`` and ``decisions``: what a running scheduler sees and does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import click

from scheduler.cli.output import (
    BAD,
    DIM,
    GOOD,
    JSON,
    TABLE,
    WARN,
    WIDE,
    YAML,
    emit,
    for_programs,
    note,
    output_option,
    say,
    show,
)
from scheduler.cli.remote import (
    AnsweringReplica,
    NoAnswer,
    Refused,
    Remote,
    ask_any_replica,
    ask_leader,
    fetch,
    server_option,
)
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.units import amount, cpu, duration, memory, span

# Follows the numbered decisions of a scheduler that only keeps its latest ones.


Decision = dict[str, Any]

USUALLY = 100
AT_MOST = 5000


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

_TIER_STYLES = {"active": GOOD, "unschedulable": BAD, "gated": DIM, "waiting-on-permit": GOOD}
_RESULT_STYLES = {"scheduled": GOOD, "unschedulable": WARN, "error": BAD}
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_COMMON = ("cpu", "memory")

Command = TypeVar("Command", bound=Callable[..., Any])


def limit_option(default: int, what: str) -> Callable[[Command], Command]:
    """The ``--limit`` option."""
    return click.option(
        "--limit",
        type=click.IntRange(1, AT_MOST),
        default=default,
        show_default=True,
        help=f"How many {what} to show.",
    )


@click.command()
@server_option()
@limit_option(100, "pods")
@output_option(TABLE, WIDE, JSON, YAML)
def queue(server: Remote, limit: int, output: str) -> None:
    """List the pods that wait, tier by tier, and why."""
    answer = ask_leader(server, "/api/v1/queue", limit=limit)
    if for_programs(output):
        emit(answer, output)
        return
    pods, wide = answer["pods"], output == WIDE
    gangs = any(pod["group"] for pod in pods)
    held = any(pod.get("node") for pod in pods)
    extra = [TableColumn("GROUP")] if gangs else []
    extra += [TableColumn("NODE"), TableColumn("TIME LEFT", right=True)] if held else []
    extra += (
        [TableColumn("RETRY IN", right=True), TableColumn("BEHIND"), TableColumn("PROFILE")]
        if wide
        else []
    )
    table = Table(
        [
            TableColumn("POD"),
            TableColumn("TIER"),
            TableColumn("SINCE", right=True),
            TableColumn("ATTEMPTS", right=True),
            *extra,
            TableColumn("REJECTED BY", text=True),
            TableColumn("MESSAGE", text=True),
        ]
    )
    for pod in pods:
        table.add(
            pod["pod"],
            TableCell(pod["tier"], _TIER_STYLES.get(pod["tier"], WARN)),
            span(pod["waitingSeconds"]),
            pod["attempts"],
            *([pod["group"]] if gangs else []),
            *([pod.get("node", ""), _time_left(pod)] if held else []),
            *([_retry(pod), pod["behind"], pod["profile"]] if wide else []),
            ", ".join(pod["plugins"]),
            pod["message"],
        )
    if table.rows:
        show(table)
        say("")
    counts = answer["counts"]
    waiting = sum(number for tier, number in counts.items() if tier != "in-flight")
    tiers = ", ".join(f"{number} {tier}" for tier, number in counts.items() if number)
    say(f"{_shown(len(pods), waiting, 'waiting')}{': ' if tiers else ''}{tiers}")


@click.command()
@server_option()
@limit_option(500, "nodes")
@output_option(TABLE, WIDE, JSON, YAML)
def nodes(server: Remote, limit: int, output: str) -> None:
    """List the nodes: what is requested of what they offer, and what keeps pods away."""
    answer = ask_any_replica(server, "/api/v1/nodes", limit=limit)
    if for_programs(output):
        emit(answer, output)
        return
    wide = output == WIDE
    titles = ("CPU", "MEMORY", "PODS")
    others = [TableColumn("OTHER RESOURCES", text=True)] if wide else []
    table = Table(
        [
            TableColumn("NODE"),
            *(TableColumn(t, right=True) for t in titles),
            *others,
            TableColumn("TAINTS", text=True),
        ]
    )
    for node in answer["nodes"]:
        requested, offered = node["requested"], node["allocatable"]
        table.add(
            node["name"],
            _use(requested.get("cpu", 0), offered.get("cpu", 0), cpu),
            _use(requested.get("memory", 0), offered.get("memory", 0), memory),
            _use(node["pods"], node["podLimit"], str),
            *([_other_resources(requested, offered)] if wide else []),
            TableCell(_taints(node), WARN),
        )
    if table.rows:
        show(table)
        say("")
    say(_shown(len(answer["nodes"]), answer["count"], "nodes"))


@click.command()
@server_option()
@limit_option(50, "decisions")
@click.option("--follow", "following", is_flag=True, help="Go on with new ones until Ctrl-C.")
@output_option(TABLE, WIDE, JSON, YAML)
def decisions(server: Remote, limit: int, following: bool, output: str) -> None:
    """List the latest decisions, the newest at the end.

    With --follow, JSON comes as one line per decision.
    """
    latest = ask_leader(server, DECISIONS, limit=limit)
    if following:
        _follow(server, latest, output)
    elif for_programs(output):
        emit(latest, output)
    elif latest["decisions"]:
        show(decisions_table(latest["decisions"][::-1], output == WIDE))
    else:
        say("no decisions yet")


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
            TableCell(entry["result"], _RESULT_STYLES.get(entry["result"], "")),
            entry["node"],
            "" if entry["score"] is None else entry["score"],
            f"{entry['feasible']}/{entry['evaluated']}",
            duration(entry["duration"]),
            *([entry.get("model", ""), ", ".join(entry["plugins"])] if wide else []),
            entry["message"],
        )
    return table


def _follow(server: Remote, answer: dict[str, Any], output: str) -> None:
    """Print what comes until Ctrl-C; a scheduler that goes away, or no longer leads, is awaited."""
    printer = _DecisionPrinter(output)
    first = _latest(answer)
    try:
        printer.print(first.decisions[::-1])
        for news in follow(first, _PatientSource(server), _pause):
            if news.missed:
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

    def __init__(self, server: Remote) -> None:
        self._server = server
        self._lost = False

    def __call__(self, count: int) -> Latest | None:
        try:
            answer = fetch(self._server, DECISIONS, limit=count)
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
                click.echo(json.dumps(entry, ensure_ascii=False))
        elif self._output == YAML:
            if entries:
                emit(list(entries), YAML)
        else:
            table = decisions_table(entries, self._output == WIDE, self._widths)
            show(table)
            # The message comes last: nothing has to line up behind it.
            self._widths = [*table.widths[:-1], 0]


def _time_left(pod: Mapping[str, Any]) -> str:
    left = pod.get("timeoutSeconds")
    return "" if left is None else span(left)


def _retry(pod: Mapping[str, Any]) -> str:
    return "" if pod["retrySeconds"] is None else span(pod["retrySeconds"])


def _shown(shown: int, total: int, what: str) -> str:
    return f"{total} {what}" if shown == total else f"{shown} of {total} {what}"


def _use(used: int, offered: int, write: Callable[[int], str]) -> TableCell:
    """``1.5/4 38%``, coloured by how full it is."""
    if not offered:
        return TableCell(f"{write(used)}/0", DIM)
    share = 100 * used / offered
    style = BAD if share >= 95 else WARN if share >= 75 else ""
    return TableCell(f"{write(used)}/{write(offered)} {share:3.0f}%", style)


def _other_resources(requested: Mapping[str, int], offered: Mapping[str, int]) -> str:
    names = sorted((requested.keys() | offered.keys()) - set(_COMMON))
    return ", ".join(
        f"{name} {amount(name, requested.get(name, 0))}/{amount(name, offered.get(name, 0))}"
        for name in names
    )


def _taints(node: Mapping[str, Any]) -> str:
    """``cordoned``, and the taints that do not just repeat it."""
    written = ["cordoned"] if node["unschedulable"] else []
    for taint in node["taints"]:
        if taint["key"] == _CORDON_TAINT and node["unschedulable"]:
            continue
        value = f"={taint['value']}" if taint["value"] else ""
        written.append(f"{taint['key']}{value}:{taint['effect']}")
    return ", ".join(written)
