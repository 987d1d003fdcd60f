"""Nodes by name with their rows and zones, kept from one map to the next.

A page asks for the map every few seconds, and hardly any node has changed its labels meanwhile.
"""

from __future__ import annotations

from operator import is_not
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.model.nodes import Node
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows

ZONE_LABEL = "topology.kubernetes.io/zone"
_TOGETHER = 256
"""Nodes that are read between two checkpoints."""


class NodeZones:
    """Belongs to the scheduling thread. A look at unchanged nodes compares two lists."""

    def __init__(self) -> None:
        self._nodes: list[Node | None] = []
        """As they were read, by row."""
        self._zones: list[str] = []
        """By row; empty if the node has none."""
        self.rows: Rows = np.zeros(0, np.intp)
        """Of all nodes, by name."""
        self.names: list[str] = []
        self.zones: list[str] = []
        """Of the same nodes."""
        self.read = 0
        """How many nodes were read so far."""

    def look(self, state: ClusterState) -> None:
        """Read nodes that have changed. Yields to the event loop, but not at its end."""
        nodes = state.columns.nodes
        if nodes == self._nodes:
            return
        while changed := self._changed(nodes):
            for number, row in enumerate(changed, 1):
                node = nodes[row]
                self._nodes[row] = node
                self._zones[row] = "" if node is None else node.metadata.labels.get(ZONE_LABEL, "")
                self.read += 1
                if number % _TOGETHER == 0:
                    checkpoint()
        names = state.columns.names
        rows = sorted(state.rows().tolist(), key=names.__getitem__)
        self.rows = np.array(rows, np.intp)
        self.names = [names[row] for row in rows]
        self.zones = [self._zones[row] for row in rows]

    def _changed(self, nodes: list[Node | None]) -> list[int]:
        new = len(nodes) - len(self._nodes)
        self._nodes += [None] * new
        self._zones += [""] * new
        return [row for row, differs in enumerate(map(is_not, nodes, self._nodes)) if differs]


_kept: WeakKeyDictionary[ClusterState, NodeZones] = WeakKeyDictionary()


def node_zones(state: ClusterState) -> NodeZones:
    """Those of a cluster, as they are now."""
    zones = _kept.get(state)
    if zones is None:
        zones = _kept[state] = NodeZones()
    zones.look(state)
    return zones
