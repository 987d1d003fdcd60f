"""What a scheduler writes. Neither pipeline nor plugins talk to an API server."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status


class WriteError(Exception):
    """A write did not happen. ``conflict``: the object had changed; ``gone``: there is none.

    ``unknown``: the answer was lost, so it may have happened.
    """

    def __init__(
        self, message: str, *, conflict: bool = False, gone: bool = False, unknown: bool = False
    ) -> None:
        super().__init__(message)
        self.conflict = conflict
        self.gone = gone
        self.unknown = unknown


class Verb(enum.Enum):
    """What a request does with one object."""

    GET = "get"
    CREATE = "create"
    MERGE = "merge"
    """Merge a patch; with ``metadata.resourceVersion`` in it, it only applies to that version."""
    STRATEGIC = "strategic"
    """The same by the rules of Kubernetes' own kinds, which know the keys of lists."""
    DELETE = "delete"


class ObjectRequest(msgspec.Struct, frozen=True):
    """A request about one object of a watched kind."""

    verb: Verb
    kind: str
    key: str
    """``namespace/name``; of an object that is created, the namespace and a slash."""
    body: Mapping[str, Any] = {}
    subresource: str = ""


StaleReason = Callable[[], str]
"""Why a decision no longer holds; empty if it does. Never raises, takes no time."""


def never_stale() -> str:
    """A decision that always holds."""
    return ""


class Outlet(Protocol):
    """Where decisions go: the API server in a cluster, a record in a simulation.

    Coroutines return when the outcome is certain. The other methods never block and never raise;
    they write in the background, and the newest write to a pod wins.
    """

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        """Bind the pod, unless ``stale`` says otherwise just before the request."""
        ...

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Merge a patch into an object of a watched kind; raises WriteError.

        With ``metadata.resourceVersion`` in the patch it only applies to that version.
        """
        ...

    async def send(self, request: ObjectRequest) -> Any:
        """Send a request; returns the object as it is after it. Raises WriteError.

        Lost answers and overload are retried, except for objects that are created: a patch that
        names its version conflicts when it has been applied already.
        """
        ...

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        """Put a condition on a victim, then delete it; a pod that is gone already is no error.

        Raises WriteError.
        """
        ...

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Publish an event about the pod; may be dropped."""
        ...

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Write to the pod why it is not scheduled (PodScheduled=False)."""
        ...

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write the pod's nominated node (nominatedNodeName); "" removes it."""
        ...
