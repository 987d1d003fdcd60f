"""What a waiting pod's own new version means to it."""

from __future__ import annotations

import msgspec

from scheduler.model.events import UNSCHEDULED_POD, Event, pod_update
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import PodStatus

_replaced = msgspec.structs.replace


def own_change(old: PodInfo, new: PodInfo) -> Event | None:
    """The event that may cure the pod; None if only its conditions or its nominated node are new.

    We write those ourselves whenever a pod waits or is rejected, so they must not bring it back.
    """
    if new is old:
        return None
    was, now = old.pod, new.pod
    meta = now.metadata
    # A condition also makes the object longer.
    before = _replaced(
        was.metadata, resource_version=meta.resource_version, json_bytes=meta.json_bytes
    )
    same = before == meta and _said(was.status, now.status) == now.status and was.spec == now.spec
    return None if same else Event(UNSCHEDULED_POD, pod_update(old, new), old, new)


def _said(was: PodStatus, now: PodStatus) -> PodStatus:
    """A status with what we say there as it is now."""
    return _replaced(was, conditions=now.conditions, nominated_node_name=now.nominated_node_name)
