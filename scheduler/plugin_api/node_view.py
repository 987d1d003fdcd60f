"""One node as plugins that answer for one node at a time see it."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.nodes import Node, Taint
from scheduler.model.podinfo import PodInfo
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Scores


class NodeView:
    """A node as it is now, to be read and not kept: rows are given to other nodes later on."""

    __slots__ = ("_state", "row")

    def __init__(self, state: ClusterState, row: int) -> None:
        self._state = state
        self.row = row

    @property
    def name(self) -> str:
        """The node's name."""
        return self._state.name(self.row)

    @property
    def object(self) -> Node:
        """The object, with the fields a scheduler reads."""
        node = self._state.columns.nodes[self.row]
        assert node is not None, "only rows with a node are asked about"
        return node

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.object.metadata.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.object.spec.taints

    @property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, those included that are being bound to it."""
        return self._state.pods_on(self.name)

    def allocatable(self, resource: str) -> int:
        """How much of a resource there is for pods: CPUs in thousandths, all else in units."""
        return self._amount(self._state.columns.allocatable, resource)

    def requested(self, resource: str) -> int:
        """How much of it the pods on the node request."""
        return self._amount(self._state.columns.requested, resource)

    def _amount(self, column: Scores, resource: str) -> int:
        index = self._state.columns.resources.find(resource)
        return 0 if index is None else int(column[index, self.row])
