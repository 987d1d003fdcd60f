"""One attempt at one pod, from pop to the end of binding."""

from __future__ import annotations

import msgspec

from scheduler.equivalence.classes import PodClass, template_of
from scheduler.framework.answers import Told
from scheduler.framework.cycle import Cycle
from scheduler.framework.runtime import Framework
from scheduler.model.packed import digest
from scheduler.pipeline.muster import Muster
from scheduler.pipeline.placement import Placement
from scheduler.queueing.tiers import QueuedPod

_LONG_TEMPLATE = 1024
"""Templates longer than that are known by their digest: queues keep one for each cohort."""


class Attempt(msgspec.Struct):
    """What the stages hand to each other."""

    queued: QueuedPod
    framework: Framework
    cycle: Cycle
    started: float
    pod_class: PodClass | None = None
    """The class of the pod, if it is in one."""
    placement: Placement | None = None
    """Set once a node is chosen."""
    told: Told = msgspec.field(default_factory=Told)
    """What was answered from outside so far."""
    muster: Muster | None = None
    """Set for members of a gang about which somebody outside has the last word."""
    node_version: int = 0
    """The version of the chosen node that was judged (`ClusterState.node_version`)."""
    companions: tuple[str, ...] = ()
    """Pods (``namespace/name``) that wait in the queue for what this one is answered."""
    told_along: dict[str, Told] = msgspec.field(default_factory=dict)
    """By uid, what they were answered so far: kept until this one is tried again, or gone."""

    @property
    def cohort(self) -> bytes | None:
        """What pods share that are rejected alike, now and later; None if that cannot be told.

        The class will not do: two pods of one class may part when the cluster changes, for example
        when somebody comes who keeps away from the labels of one of them.
        """
        if self.pod_class is None or not self.pod_class.known:
            return None
        if not self.framework.answers_for_class:
            return None
        template = template_of(self.cycle.pod)
        return template if len(template) <= _LONG_TEMPLATE else digest(template)

    def restart(self) -> None:
        """Begin anew with the pod as it is now; what was answered from outside is kept."""
        self.cycle = Cycle(self.queued.info, self.cycle.state)
        self.pod_class = None

    def drop_brief(self) -> None:
        """A node is reserved: let go of all that binding, which may take long, does not need."""
        self.cycle.drop_brief()
        if self.framework.asks_outside:
            self.told = Told()
            self.told_along = {}

    @property
    def node(self) -> str:
        """The chosen node."""
        assert self.placement is not None, "no node is chosen yet"
        return self.placement.node
