"""``equipoise queue`` and ``waiting``: pods that have no node yet, or wait for permission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from scheduler.cli.options import limit_option
from scheduler.cli.output import (
    JSON,
    TABLE,
    WIDE,
    YAML,
    emit,
    for_programs,
    output_option,
    say,
    show,
)
from scheduler.cli.remote import Remote, ask_leader, server_option
from scheduler.cli.states import style_of
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.units import span
from scheduler.explaining.reasons import informative

Entry = Mapping[str, Any]

TIERS = (
    "active",
    "backoff",
    "error-backoff",
    "unschedulable",
    "gated",
    "waiting-on-permit",
    "suspended",
)
"""Those of `scheduler.explaining.queries`, which takes long to load."""


@click.command()
@click.option("-n", "--namespace", help="Only pods of this namespace.")
@click.option("--tier", type=click.Choice(TIERS), help="Only pods of this tier.")
@click.option("-l", "--selector", help="Only pods that match this label selector.")
@click.option("--each", is_flag=True, help="One line per pod, even if identical.")
@server_option()
@limit_option(100, "lines")
@output_option(TABLE, WIDE, JSON, YAML)
def queue(
    namespace: str | None,
    tier: str | None,
    selector: str | None,
    each: bool,
    server: Remote,
    limit: int,
    output: str,
) -> None:
    """List the pending pods by tier, and why; identical pods of one owner share a line.

    The table shows the rejections of each message; -o wide shows whole messages. JSON and YAML have
    every pod.
    """
    grouped = not each and not for_programs(output)
    answer = ask_leader(
        server,
        "/api/v1/queue",
        limit=limit,
        namespace=namespace or None,
        tier=tier,
        labelSelector=selector or None,
        group="true" if grouped else None,
    )
    if for_programs(output):
        emit(answer, output)
        return
    groups = answer.get("groups")
    if groups is not None:
        table, shown = _groups(groups, output == WIDE), sum(each["count"] for each in groups)
    else:
        table, shown = _pods(answer["pods"], output == WIDE), len(answer["pods"])
    if table.rows:
        show(table)
        say("")
    counts = answer["counts"]
    waiting = sum(number for name, number in counts.items() if name != "in-flight")
    tiers = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    total = f"{waiting} waiting" if shown >= waiting else f"{shown} of {waiting} waiting"
    say(f"{total}{': ' if tiers else ''}{tiers}")


def _groups(groups: Sequence[Entry], wide: bool) -> Table:
    """A line per group of alike pods."""
    columns = [TableColumn("RETRY IN", right=True), TableColumn("OWNER"), TableColumn("PROFILE")]
    extra = columns if wide else []
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
    for group in groups:
        table.add(
            _label(group),
            _tier(group),
            span(group["oldestSeconds"]),
            group["attempts"],
            *([_retry(group), group["owner"], group["profile"]] if wide else []),
            ", ".join(group["plugins"]),
            group["message"] if wide else informative(group["message"]),
        )
    return table


def _label(group: Entry) -> str:
    """The first of them, to be asked about, and how many more there are."""
    more = f" and {group['count'] - 1} more" if group["count"] > 1 else ""
    return f"{group['pods'][0]}{more}"


def _pods(pods: Sequence[Entry], wide: bool) -> Table:
    """A line per pod."""
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
            _tier(pod),
            span(pod["waitingSeconds"]),
            pod["attempts"],
            *([pod["group"]] if gangs else []),
            *([pod.get("node", ""), _time_left(pod)] if held else []),
            *([_retry(pod), pod["behind"], pod["profile"]] if wide else []),
            ", ".join(pod["plugins"]),
            pod["message"] if wide else informative(pod["message"]),
        )
    return table


@click.command()
@server_option()
@limit_option(100, "pods")
@output_option(TABLE, JSON, YAML)
def waiting(server: Remote, limit: int, output: str) -> None:
    """List the pods that wait at Permit: for which plugin, and for how long.

    `equipoise approve` and `equipoise reject` end their wait.
    """
    answer = ask_leader(server, "/api/v1/waiting", limit=limit)
    if for_programs(output):
        emit(answer, output)
        return
    pods = answer["pods"]
    gangs = any(pod["group"] for pod in pods)
    table = Table(
        [
            TableColumn("POD"),
            TableColumn("NODE"),
            *([TableColumn("GROUP")] if gangs else []),
            TableColumn("WAITS FOR"),
            TableColumn("SINCE", right=True),
            TableColumn("TIME LEFT", right=True),
            TableColumn("MESSAGE", text=True),
        ]
    )
    for pod in pods:
        table.add(
            TableCell(pod["pod"], style_of("permit")),
            pod["node"],
            *([pod["group"]] if gangs else []),
            ", ".join(pod["plugins"]),
            span(pod["waitingSeconds"]),
            _time_left(pod),
            pod["message"],
        )
    if table.rows:
        show(table)
        say("")
    count = answer["count"]
    total = str(count) if len(pods) == count else f"{len(pods)} of {count}"
    say(f"{total} waiting for permission")


def _tier(entry: Entry) -> TableCell:
    return TableCell(entry["tier"], style_of(entry["tier"]))


def _time_left(pod: Entry) -> str:
    left = pod.get("timeoutSeconds")
    return "" if left is None else span(left)


def _retry(entry: Entry) -> str:
    return "" if entry["retrySeconds"] is None else span(entry["retrySeconds"])
