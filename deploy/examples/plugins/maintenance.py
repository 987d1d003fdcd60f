"""Keeps pods off nodes that carry the label ``maintenance``, unless they tolerate it by label."""

from scheduler.plugin_api import (
    SUCCESS,
    Action,
    Aspect,
    Cycle,
    Handle,
    HintRegistration,
    NodeView,
    PluginTraits,
    PodInfo,
    Reads,
    Status,
    unresolvable,
)

CLOSED = unresolvable("node(s) were under maintenance")


class Maintenance:
    """Answers for one node at a time; kept until that node's labels change."""

    name = "Maintenance"
    traits = PluginTraits(row_by_row=True)
    filter_reads = Reads(rows=frozenset({Aspect.LABELS}))

    def __init__(self, args: dict[str, str] | None, handle: Handle) -> None:
        self._label = (args or {}).get("label", "maintenance")

    def filter_key(self, pod: PodInfo) -> str | None:
        """The same for all pods, except for those that may go anywhere: nothing to check."""
        return None if self._label in pod.pod.metadata.labels else "checked"

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        """Whether a node is open."""
        if self._label in cycle.pod.pod.metadata.labels or self._label not in node.labels:
            return SUCCESS
        return CLOSED

    def hints(self) -> list[HintRegistration]:
        """A node that comes, or whose labels change, may be open."""
        return [HintRegistration("Node", Action.ADD | Action.NODE_LABEL)]
