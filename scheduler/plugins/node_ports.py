"""NodePorts: a host port belongs to one pod per node and address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import ANY_PORT, PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import NODE_PORTS
from scheduler.plugins.node_ports_facts import taken_in_cluster, taken_ports
from scheduler.queueing.columns import Indexed
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows
from scheduler.state.occupancy import ports_conflict


class NodePorts:
    """Looks the pod's ports up in the index of used ports; free for pods without host ports."""

    name = NODE_PORTS
    traits = PluginTraits(row_by_row=True)
    TAKEN = Status(
        Code.UNSCHEDULABLE,
        ("node(s) didn't have free ports for the requested pod ports",),
        NODE_PORTS,
    )

    filter_reads = Reads(rows=frozenset({Aspect.PORTS}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_key(self, pod: PodInfo) -> Key:
        """The pod's host ports."""
        return pod.host_ports or None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Skip pods without host ports."""
        return PreFilterResult(SUCCESS if cycle.pod.host_ports else SKIP)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes on which some wanted port is taken."""
        taken = np.zeros(cycle.state.columns.capacity, np.bool_)
        conflicts = map(cycle.state.ports.conflicts, cycle.pod.host_ports)
        taken[list(chain.from_iterable(conflicts))] = True
        return cycle.reject(taken[rows], self.TAKEN)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Told]:
        """The ports that are taken, and the pods that have them."""
        return taken_ports(cycle, rows)

    def facts(self, pod: PodInfo, failure: Told) -> Sequence[Fact]:
        """The same in words."""
        return failure.facts

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterable[Fact]:
        """On how many nodes each port is taken."""
        return taken_in_cluster(cycle, rows)

    def hints(self) -> Sequence[HintRegistration]:
        """A new node, or a pod that freed one of the ports."""
        return (
            HintRegistration("Pod", Action.DELETE, self._after_delete, _by_port),
            HintRegistration("Node", Action.ADD),
        )

    def _after_delete(self, pod: PodInfo, event: Event) -> Hint:
        gone = event.old
        if not isinstance(gone, PodInfo) or not holds_resources(gone):
            return Hint.SKIP
        freed = ports_conflict(pod.host_ports, gone.host_ports)
        return Hint.QUEUE if freed else Hint.SKIP


def _by_port() -> Indexed:
    return Indexed(
        lambda pod: [[[port]] for port in _ports(pod)],
        lambda event: _freed(event.old) if isinstance(event.old, PodInfo) else (),
    )


def _freed(pod: PodInfo) -> set[tuple[str, int]] | None:
    """The ports that a pod freed; None: any."""
    return None if ANY_PORT in pod.host_ports[-1:] else _ports(pod)


def _ports(pod: PodInfo) -> set[tuple[str, int]]:
    return {(port.protocol, port.port) for port in pod.host_ports}


def holds_resources(pod: PodInfo) -> bool:
    """Whether a pod was on a node, or nominated to one."""
    return bool(pod.node_name or pod.pod.status.nominated_node_name)
