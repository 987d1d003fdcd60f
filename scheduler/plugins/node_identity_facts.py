"""What NodeName and NodeUnschedulable know about their rejections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told, closest, fact, told
from scheduler.state.columns import Rows


def named(cycle: Cycle, rows: Rows) -> Sequence[Told]:
    """The node that the pod names."""
    wanted = cycle.pod.pod.spec.node_name
    message = f"spec.nodeName is {wanted}"
    return told([()] * len(rows), lambda _: [fact("nodeName", message, node=wanted)])


def named_in_cluster(cycle: Cycle, rows: Rows) -> Iterator[Fact]:
    """Whether there is a node of that name."""
    wanted = cycle.pod.pod.spec.node_name
    message = f"spec.nodeName is {wanted}"
    if cycle.state.row(wanted) is None:
        meant = closest(wanted, cycle.state.names())
        message = f"no node is called {wanted}" + (f"; one is called {meant}" if meant else "")
    yield fact("nodeName", message, node=wanted, nodes=len(rows))


def cordoned(rows: Rows) -> Sequence[Told]:
    """That the node is cordoned."""
    return told([()] * len(rows), lambda _: [fact("unschedulable", "the node is cordoned")])


def cordoned_in_cluster(cycle: Cycle, rows: Rows) -> Iterator[Fact]:
    """How many nodes are cordoned."""
    number, total = len(rows), cycle.state.node_count
    are = "is" if number == 1 else "are"
    yield fact("unschedulable", f"{number} of {total} nodes {are} cordoned", nodes=number)
