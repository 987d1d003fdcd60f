"""The life cycle of a ledger as data: what its object and its pods are, and what changes that.

The ledger looks up every transition in these tables. ``docs/design/numa-ledger.md`` shows them, and
a test compares both with the code.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class ObjectState(enum.Enum):
    """The state of the NodeResourceTopology object that the ledger uses."""

    UNKNOWN = "unknown"
    """There is none: none was published, or it was deleted and the grace period is over."""
    NOT_ENFORCED = "not-enforced"
    """Its policy is ``none`` or ``best-effort``. The kubelet refuses no pod; none is charged."""
    UNCONFIRMED = "unconfirmed"
    """No fingerprint has matched. All pods are charged, and the object's amounts are a limit."""
    CONFIRMED = "confirmed"
    """Its fingerprint has matched. Only pods that it does not count are charged."""


class ObjectEvent(enum.Enum):
    """What happens to the object of a node."""

    PUBLISHED_NOT_ENFORCED = "published-not-enforced"
    """An object was published whose policy is ``none`` or ``best-effort``."""
    PUBLISHED_OTHER_MACHINE = "published-other-machine"
    """An object was published with another policy, other cells or other allocatable amounts."""
    PUBLISHED_OTHER_MACHINE_LATER = "published-other-machine-later"
    """The same with ``resyncScope: OnlyResources``: it is used only if its fingerprint matches."""
    PUBLISHED_SAME_MACHINE = "published-same-machine"
    """An object was published that differs at most in what is available."""
    MATCHED = "matched"
    """The newest object's fingerprint is that of the pods known on the node."""
    DELETED = "deleted"
    """The object was deleted; the machine and its pods are the same."""
    EXPIRED = "expired"
    """``missingTopologyGraceSeconds`` have passed since then."""


class ObjectEffect(enum.Enum):
    """What the ledger does on a transition, in the order of the table."""

    CONFIRM_PODS = "confirm-pods"
    """Send each pod the event that follows from the matching object."""
    USE_NEWEST = "use-newest"
    """Use the newest object from now on."""
    RESET_PODS = "reset-pods"
    """Send each pod the event ``RESET``."""
    DROP_NEWEST = "drop-newest"
    """Compare no more until another object is published."""
    FORGET_OBJECT = "forget-object"
    """Use no object."""


class Transition(NamedTuple):
    """One entry of the table of objects."""

    state: ObjectState
    effects: tuple[ObjectEffect, ...] = ()


class NodePodState(enum.Enum):
    """How a pod counts in the ledger."""

    CHARGED = "charged"
    """To all cells that could hold it: no object in use counts it."""
    CONFIRMED = "confirmed"
    """Confirmed by fingerprint: what it holds is no longer in the object's available amounts."""
    VACATED = "vacated"
    """It is being deleted, and the kubelet has stopped it already. It holds nothing."""
    RELEASED = "released"
    """It was confirmed and is gone. What it held may be free, in a cell that is not known."""
    GONE = "gone"
    """The ledger forgets it."""


class NodePodEvent(enum.Enum):
    """What happens to a pod. The first five follow from an object whose fingerprint matches."""

    LISTED = "listed"
    """The object is about this pod, or about a released one that it still counts."""
    LISTED_BEFORE = "listed-before"
    """The object lists its name, but may be about an earlier pod of that name."""
    UNLISTED = "unlisted"
    """The object does not list it."""
    STOPPED = "stopped"
    """The object does not list it, it is being deleted, and an earlier object could list it."""
    UNCOUNTED = "uncounted"
    """The object lists it, but does not count what it holds yet."""
    RESIZED = "resized"
    """What the kubelet pins for it has changed."""
    REMOVED = "removed"
    """It was deleted, has finished, or does not come after all."""
    RESET = "reset"
    """The object was replaced by that of another machine, or is no longer used."""


_S, _E, _F = ObjectState, ObjectEvent, ObjectEffect

OBJECT_TABLE: Mapping[tuple[ObjectState, ObjectEvent], Transition] = {
    **{
        (state, _E.PUBLISHED_NOT_ENFORCED): Transition(_S.NOT_ENFORCED, (_F.USE_NEWEST,))
        for state in _S
    },
    **{
        (state, _E.PUBLISHED_OTHER_MACHINE): Transition(
            _S.UNCONFIRMED, (_F.USE_NEWEST, _F.RESET_PODS)
        )
        for state in _S
    },
    # The object that is used stays in use.
    (_S.NOT_ENFORCED, _E.PUBLISHED_OTHER_MACHINE_LATER): Transition(_S.NOT_ENFORCED),
    (_S.UNCONFIRMED, _E.PUBLISHED_OTHER_MACHINE_LATER): Transition(_S.UNCONFIRMED),
    (_S.CONFIRMED, _E.PUBLISHED_OTHER_MACHINE_LATER): Transition(_S.CONFIRMED),
    (_S.CONFIRMED, _E.PUBLISHED_SAME_MACHINE): Transition(_S.CONFIRMED),
    # Without a match there is nothing better than the newest amounts.
    (_S.UNCONFIRMED, _E.PUBLISHED_SAME_MACHINE): Transition(_S.UNCONFIRMED, (_F.USE_NEWEST,)),
    **{
        (state, _E.MATCHED): Transition(_S.CONFIRMED, (_F.CONFIRM_PODS, _F.USE_NEWEST))
        for state in (_S.NOT_ENFORCED, _S.UNCONFIRMED, _S.CONFIRMED)
    },
    **{(state, _E.DELETED): Transition(state, (_F.DROP_NEWEST,)) for state in _S},
    **{
        (state, _E.EXPIRED): Transition(_S.UNKNOWN, (_F.FORGET_OBJECT, _F.RESET_PODS))
        for state in (_S.NOT_ENFORCED, _S.UNCONFIRMED, _S.CONFIRMED)
    },
}
"""Every event that can happen in a state. An object of the same machine needs one that enforces
the same policy; a match needs a newest object; only an object in use expires."""

_P, _V = NodePodState, NodePodEvent

POD_TABLE: Mapping[tuple[NodePodState, NodePodEvent], NodePodState] = {
    (_P.CHARGED, _V.LISTED): _P.CONFIRMED,
    (_P.CHARGED, _V.LISTED_BEFORE): _P.CHARGED,
    (_P.CHARGED, _V.UNLISTED): _P.CHARGED,
    (_P.CHARGED, _V.STOPPED): _P.VACATED,
    (_P.CHARGED, _V.RESIZED): _P.CHARGED,
    (_P.CHARGED, _V.REMOVED): _P.GONE,
    (_P.CHARGED, _V.RESET): _P.CHARGED,
    (_P.CONFIRMED, _V.UNLISTED): _P.CHARGED,
    (_P.CONFIRMED, _V.STOPPED): _P.VACATED,
    (_P.CONFIRMED, _V.UNCOUNTED): _P.CHARGED,
    (_P.CONFIRMED, _V.RESIZED): _P.CHARGED,
    (_P.CONFIRMED, _V.REMOVED): _P.RELEASED,
    (_P.CONFIRMED, _V.RESET): _P.CHARGED,
    (_P.VACATED, _V.UNLISTED): _P.CHARGED,
    (_P.VACATED, _V.STOPPED): _P.VACATED,
    (_P.VACATED, _V.RESIZED): _P.VACATED,
    (_P.VACATED, _V.REMOVED): _P.GONE,
    (_P.VACATED, _V.RESET): _P.CHARGED,
    (_P.RELEASED, _V.LISTED): _P.RELEASED,
    (_P.RELEASED, _V.UNLISTED): _P.GONE,
    (_P.RELEASED, _V.RESET): _P.GONE,
}
"""A pod begins as ``CHARGED``. A confirmed pod that is listed again stays as it is, without an
event; a vacated one is in no candidate set, so no object lists it."""
