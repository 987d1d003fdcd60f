"""What a waiting pod's own new version means to it."""

from __future__ import annotations

import msgspec

from scheduler.model.events import UNSCHEDULED_POD, Event, pod_update
from scheduler.model.podinfo import PodInfo

_replaced = msgspec.structs.replace


def own_change(old: PodInfo, new: PodInfo) -> Event | None:
    """The event that may cure the pod; None if only its conditions are new.

    We write those ourselves whenever a pod is rejected, so they must not bring it back.
    """
    if new is old:
        return None
    was, now = old.pod, new.pod
    meta = now.metadata
    # A condition also makes the object longer.
    before = _replaced(
        was.metadata, resource_version=meta.resource_version, json_bytes=meta.json_bytes
    )
    same = (
        before == meta
        and _replaced(was.status, conditions=now.status.conditions) == now.status
        and was.spec == now.spec
    )
    return None if same else Event(UNSCHEDULED_POD, pod_update(old, new), old, new)
