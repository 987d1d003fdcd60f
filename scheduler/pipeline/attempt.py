"""One attempt at one pod, from pop to the end of binding."""

from __future__ import annotations

import msgspec

from scheduler.framework.cycle import Cycle
from scheduler.framework.runtime import Framework
from scheduler.pipeline.placement import Placement
from scheduler.queueing.tiers import QueuedPod


class Attempt(msgspec.Struct):
    """What the stages hand to each other."""

    queued: QueuedPod
    framework: Framework
    cycle: Cycle
    started: float
    placement: Placement | None = None
    """Set once a node is chosen."""

    @property
    def node(self) -> str:
        """The chosen node."""
        assert self.placement is not None, "no node is chosen yet"
        return self.placement.node
