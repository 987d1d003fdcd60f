"""``equipoise nodes``: all nodes in a table, or one with its NUMA cells, devices and pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from scheduler.cli.options import limit_option
from scheduler.cli.output import (
    BAD,
    DIM,
    JSON,
    TABLE,
    WARN,
    WIDE,
    YAML,
    counted,
    emit,
    for_programs,
    output_option,
    say,
    show,
)
from scheduler.cli.remote import Remote, ask_any_replica, server_option
from scheduler.cli.states import style_of
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.units import amount, cpu, memory

_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_COMMON = ("cpu", "memory")


@click.command()
@click.argument("name", required=False)
@server_option()
@limit_option(500, "nodes")
@output_option(TABLE, WIDE, JSON, YAML)
def nodes(server: Remote, name: str | None, limit: int, output: str) -> None:
    """List the nodes: requested and allocatable resources, and taints.

    With NAME, show one node: also its NUMA cells and devices, as the scheduler counts them and as
    they are reported, and its pods.
    """
    if name is not None:
        node = ask_any_replica(server, "/api/v1/node", name=name)
        if for_programs(output):
            emit(node, output)
        else:
            _show_node(node, output == WIDE)
        return
    answer = ask_any_replica(server, "/api/v1/nodes", limit=limit)
    if for_programs(output):
        emit(answer, output)
    else:
        _list_nodes(answer, output == WIDE)


def _list_nodes(answer: Mapping[str, Any], wide: bool) -> None:
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
    shown, total = len(answer["nodes"]), answer["count"]
    say(f"{total} nodes" if shown == total else f"{shown} of {total} nodes")


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


# One node


def _show_node(node: Mapping[str, Any], wide: bool) -> None:
    say(node["name"], "bold")
    if taints := _taints(node):
        say(f"Taints: {taints}", WARN)
    if wide and node["labels"]:
        say("Labels: " + ", ".join(f"{key}={value}" for key, value in node["labels"].items()))
    say("")
    show(_resources(node))
    if node["numa"] is not None:
        say("")
        _show_cells(node["numa"])
    if node["devices"]:
        say("")
        show(_devices(node["devices"]))
    say("")
    if node["podsOnNode"]:
        show(_pods(node["podsOnNode"], wide))
        say("")
    shown = len(node["podsOnNode"])
    pods = counted(node["pods"], "pod")
    say(pods if shown >= node["pods"] else f"{shown} of {pods}, the greatest priority first")


def _resources(node: Mapping[str, Any]) -> Table:
    table = Table([TableColumn("RESOURCE"), TableColumn("REQUESTED/ALLOCATABLE", right=True)])
    requested, offered = node["requested"], node["allocatable"]
    for name in sorted(requested.keys() | offered.keys(), key=_common_first):
        table.add(name, _use(requested.get(name, 0), offered.get(name, 0), _writer(name)))
    table.add("pods", _use(node["pods"], node["podLimit"], str))
    return table


def _common_first(name: str) -> tuple[int, str]:
    return (_COMMON.index(name) if name in _COMMON else len(_COMMON)), name


def _writer(resource: str) -> Callable[[int], str]:
    return lambda count: amount(resource, count)


def _show_cells(numa: Mapping[str, Any]) -> None:
    say(f"NUMA cells: policy {numa['policy']}, scope {numa['scope']}, {numa['state']}")
    for title, field in (("Not reported yet", "unsettled"), ("Still reported", "released")):
        if numa[field]:
            say(f"{title}: {', '.join(numa[field])}")
    table = Table(
        [
            TableColumn("CELL"),
            TableColumn("RESOURCE"),
            TableColumn("RESERVED", right=True),
            TableColumn("REPORTED", right=True),
            TableColumn("ALLOCATABLE", right=True),
        ]
    )
    for cell in numa["cells"]:
        for name in sorted(cell["resources"], key=_common_first):
            of, write = cell["resources"][name], _writer(name)
            least, most = write(of["reservedAtLeast"]), write(of["reserved"])
            table.add(
                cell["name"],
                name,
                most if least == most else f"{least} to {most}",
                write(of["reported"]),
                write(of["allocatable"]),
            )
    show(table)


def _devices(devices: list[Mapping[str, Any]]) -> Table:
    table = Table(
        [
            TableColumn("DEVICE"),
            TableColumn("RESERVED FOR"),
            TableColumn("REPORTED FOR"),
            TableColumn("TAINTS", text=True),
        ]
    )
    for each in devices:
        free = "(cannot be allocated)" if each["excluded"] else ""
        table.add(
            f"{each['driver']}/{each['pool']}/{each['device']}",
            ", ".join(each["reserved"]) or free,
            ", ".join(each["reported"]),
            TableCell(", ".join(each["taints"]), WARN),
        )
    return table


def _pods(pods: list[Mapping[str, Any]], wide: bool) -> Table:
    table = Table(
        [
            TableColumn("POD"),
            TableColumn("PRIORITY", right=True),
            TableColumn("CPU", right=True),
            TableColumn("MEMORY", right=True),
            TableColumn("STATE"),
            *([TableColumn("SCHEDULER"), TableColumn("OTHER REQUESTS", text=True)] if wide else []),
        ]
    )
    for pod in pods:
        requests = pod["requests"]
        state = "terminating" if pod["deleting"] else "binding" if pod["assumed"] else "bound"
        others = [f"{n} {amount(n, c)}" for n, c in requests.items() if n not in _COMMON]
        table.add(
            pod["pod"],
            pod["priority"],
            cpu(requests.get("cpu", 0)),
            memory(requests.get("memory", 0)),
            TableCell(state, style_of(state)),
            *([pod["scheduler"], ", ".join(others)] if wide else []),
        )
    return table
