"""What the plugin asks about cells, whoever keeps them: as published, or as reserved."""

from __future__ import annotations

from typing import Protocol

from scheduler.model.nodes import NodeResourceTopology
from scheduler.numa.cells import CellColumns, plain_view
from scheduler.numa.outlook import Frame, Outlook
from scheduler.numa.topology import topology_of
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows


class Board(Protocol):
    """The cells of all nodes, and who looks at single nodes where columns do not tell it all."""

    cells: CellColumns
    reserves: bool
    """Whether unsettled pods are charged, and nothing is taken for granted."""

    def outlook(self, node: str) -> Outlook | None:
        """What one node can be counted on for."""
        ...

    def judged(self, rows: Rows, fit: Mask) -> list[int]:
        """Rows were judged; returns those that can be counted on for more, because that made us
        look at them again."""
        ...

    def judged_one(self, row: int, fit: bool) -> bool:
        """One row was judged; whether it can be counted on for more now."""
        ...

    def improved(self, cause: object) -> str | None:
        """The node that can be counted on for more because of an object, if one can."""
        ...


class Published:
    """Believes the newest object of each node as it is, and remembers nothing else."""

    reserves = False

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.cells = CellColumns(state)
        self._better: tuple[object, str] | None = None
        for name, known in state.objects.all(NodeResourceTopology).items():
            self._changed(name, None, known)
        state.objects.subscribe(NodeResourceTopology, self._changed)

    def outlook(self, node: str) -> Outlook | None:
        """The node as its object describes it."""
        view = self.cells.view(node)
        return None if view is None else Outlook(Frame(view.topology))

    def judged(self, rows: Rows, fit: Mask) -> list[int]:
        """There is nothing to look at again."""
        return []

    def judged_one(self, row: int, fit: bool) -> bool:
        """There is nothing to look at again."""
        return False

    def improved(self, cause: object) -> str | None:
        """The node of an object that offers more than the one before it."""
        better = self._better
        return better[1] if better is not None and better[0] is cause else None

    def _changed(
        self, node: str, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> None:
        if old is not None and new is not None and same_content(old, new):
            return
        self.cells.set(node, None if new is None else plain_view(topology_of(new)))
        self._better = (new, node)
        touch(self._state, node)


def same_content(old: NodeResourceTopology, new: NodeResourceTopology) -> bool:
    """Whether two versions say the same."""
    return (
        old.zones == new.zones
        and old.attributes == new.attributes
        and old.topology_policies == new.topology_policies
        and old.metadata.annotations == new.metadata.annotations
    )


def touch(state: ClusterState, node: str) -> None:
    """Have all verdicts on a node's cells found again."""
    row = state.row(node)
    if row is not None:
        state.changes.touch(row, (Aspect.TOPOLOGY,))
