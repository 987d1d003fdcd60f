"""Verdicts that no plugin gives: on pods that cannot be understood, and on empty clusters.

They are signed like a plugin's, so that the queue knows which events may cure them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status
from scheduler.queueing.hints import HintRegistration

POD_SPEC = "PodSpec"
NODES = "Nodes"
OWN_VERDICTS = frozenset({POD_SPEC, NODES})


def unreadable(faults: Sequence[str]) -> Status:
    """The pod's spec has fields that cannot be understood; each is named."""
    return Status(Code.UNRESOLVABLE, (f"invalid pod: {'; '.join(faults)}",), POD_SPEC)


def no_nodes() -> Status:
    """There is no node at all."""
    return Status(Code.UNRESOLVABLE, ("no nodes available to schedule pods",), NODES)


def _own_change(pod: PodInfo, event: Event) -> Hint:
    own = isinstance(event.new, PodInfo) and event.new.uid == pod.uid
    return Hint.QUEUE if own else Hint.SKIP


HINTS: Mapping[str, Sequence[HintRegistration]] = {
    POD_SPEC: (HintRegistration("Pod", Action.UPDATE, _own_change),),
    NODES: (HintRegistration("Node", Action.ADD),),
}
