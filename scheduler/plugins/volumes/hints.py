"""The queueing hint that all volume plugins share."""

from __future__ import annotations

from scheduler.model.events import Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import PersistentVolumeClaim


def after_claim(pod: PodInfo, event: Event) -> Hint:
    """A claim that the pod uses came or changed."""
    claim = event.new
    if not isinstance(claim, PersistentVolumeClaim):
        return Hint.SKIP
    used = any(use.key == claim.metadata.key for use in pod.volumes.claims)
    return Hint.QUEUE if used else Hint.SKIP
