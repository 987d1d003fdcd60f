"""What NodePorts knows about its rejections: which port, and the pod that has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.model.podinfo import HostPort
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, Fact, FactBudget, LaterFacts, Told, fact, told
from scheduler.state.columns import Mask, Rows
from scheduler.state.occupancy import ports_conflict

_HOLDERS = 64
"""On so many nodes the pods that hold ports are named; they are looked for one by one."""

_Taken = tuple[tuple[HostPort, str | None], ...]


def taken_ports(cycle: Cycle, rows: Rows) -> Sequence[Told]:
    """The ports that are taken on each row, and on some rows the pods that have them."""
    budget, capacity = FactBudget(200), cycle.state.columns.capacity
    table: list[tuple[HostPort, Mask, dict[int, str | None]]] = []
    for port in _ports(cycle):
        taken = np.zeros(capacity, np.bool_)
        taken[list(cycle.state.ports.conflicts(port))] = True
        where = taken[rows]
        first = np.flatnonzero(where)[:_HOLDERS].tolist()
        table.append((port, where, {i: _holder(cycle, int(rows[i]), port, budget) for i in first}))

    def made() -> Sequence[Told]:
        ways: list[list[tuple[HostPort, str | None]]] = [[] for _ in range(len(rows))]
        for port, where, holders in table:
            for i in np.flatnonzero(where).tolist():
                ways[i].append((port, holders.get(i)))
        return told([tuple(way) for way in ways], _facts)

    return LaterFacts(len(rows), made)


def _facts(way: _Taken) -> Iterator[Fact]:
    for port, holder in way:
        by = f"by {holder}" if holder else "by another pod"
        message = f"host port {_text(port)} is taken {by}"
        yield fact("port", message, port=port.port, protocol=port.protocol, ip=port.ip, pod=holder)


def taken_in_cluster(cycle: Cycle, rows: Rows) -> Iterator[Fact]:
    """On how many nodes each port is taken."""
    total, among = cycle.state.node_count, set(rows.tolist())
    for port in _ports(cycle):
        number = len(among.intersection(cycle.state.ports.conflicts(port)))
        if number:
            message = f"host port {_text(port)} is taken on {number} of {total} nodes"
            yield fact("port", message, port=port.port, protocol=port.protocol, nodes=number)


def _ports(cycle: Cycle) -> Sequence[HostPort]:
    return tuple(dict.fromkeys(cycle.pod.host_ports))[:MAX_FACTS]


def _holder(cycle: Cycle, row: int, port: HostPort, budget: FactBudget) -> str | None:
    with_ports = (pod for pod in cycle.state.pods_on(cycle.state.name(row)) if pod.host_ports)
    for pod in budget.within(with_ports):
        if ports_conflict((port,), pod.host_ports):
            return pod.key
    return None


def _text(port: HostPort) -> str:
    return f"{port.port}/{port.protocol}"
