"""Verdicts that no plugin gives: on pods that cannot be understood or are too large, and on empty
clusters.

They are signed like a plugin's, so that the queue knows which events may cure them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model.events import Action
from scheduler.model.status import Code, Status
from scheduler.queueing.hints import HintRegistration, by_uid, own_change

POD_SPEC = "PodSpec"
NODES = "Nodes"
SUSPENSION = "Suspension"
"""Signs for pods that wait for their turn to ask outside: no event helps, only that turn."""
OWN_VERDICTS = frozenset({POD_SPEC, NODES})


def unreadable(faults: Sequence[str]) -> Status:
    """The pod's spec has fields that cannot be understood; each is named."""
    return Status(Code.UNRESOLVABLE, (f"invalid pod: {'; '.join(faults)}",), POD_SPEC)


def too_large(excess: Sequence[str]) -> Status:
    """The pod is beyond the limits; each field that is too long is named."""
    return Status(Code.UNRESOLVABLE, (f"pod too large: {'; '.join(excess)}",), POD_SPEC)


def no_nodes() -> Status:
    """There is no node at all."""
    return Status(Code.UNRESOLVABLE, ("no nodes available to schedule pods",), NODES)


HINTS: Mapping[str, Sequence[HintRegistration]] = {
    POD_SPEC: (HintRegistration("Pod", Action.UPDATE, own_change, by_uid),),
    NODES: (HintRegistration("Node", Action.ADD),),
    SUSPENSION: (),
}
