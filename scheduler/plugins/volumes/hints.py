"""The queueing hint that all volume plugins share."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.events import Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.queueing.columns import Indexed, Term


def after_claim(pod: PodInfo, event: Event) -> Hint:
    """A claim that the pod uses came or changed."""
    claim = event.new
    if not isinstance(claim, PersistentVolumeClaim):
        return Hint.SKIP
    used = any(use.key == claim.metadata.key for use in pod.volumes.claims)
    return Hint.QUEUE if used else Hint.SKIP


def by_claim() -> Indexed:
    """The column beside `after_claim`: pods by the claims that they use."""
    return Indexed(claims_of, _claim_of)


def claims_of(pod: PodInfo) -> list[Term]:
    """The claims of a pod, any of which concerns it."""
    return [[[use.key]] for use in pod.volumes.claims]


def _claim_of(event: Event) -> Iterable[str]:
    claim = event.new
    return (claim.metadata.key,) if isinstance(claim, PersistentVolumeClaim) else ()
