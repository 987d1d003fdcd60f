"""What the pipeline says to the outside. It never talks to an API server itself."""

from __future__ import annotations

from typing import Protocol

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status


class Outlet(Protocol):
    """Where decisions go: the API server in a cluster, a list in a simulation."""

    async def bind(self, pod: PodInfo, node: str) -> Status:
        """Bind the pod; returns when the outcome is certain."""
        ...

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Publish an event about the pod. Never blocks, never raises; may be dropped."""
        ...

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Say on the pod why it is not scheduled (PodScheduled=False). Never blocks or raises."""
        ...
