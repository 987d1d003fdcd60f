"""What a recording is told: every step of the scheduler that changes its state or decides.

The pipeline calls these methods at the moment of each step, on the scheduling thread, so their
order is the order of the steps. `ClusterState.journal` holds the one that is told; None, unless the
daemon records (`recording.tape`). `replaying.follower` takes the same steps again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from scheduler.model.devices import ResourceClaim
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status


class NodeSearch(msgspec.Struct, frozen=True, gc=False):
    """Which search for a node it was: all that it depends on besides the state."""

    pod: PodInfo
    in_pass: bool
    """Whether the pod is tried as a member of its pod group."""
    proposed: str
    """The node that a batch proposes; empty if there is none."""
    model: str
    """The cost model that proposes it."""


class Journal(Protocol):
    """Told of each step. No method raises, blocks or changes anything."""

    def tick(self) -> None:
        """A step begins, or changes that came together: `clock` stands still until the next one."""
        ...

    def clock(self) -> float:
        """When the current step began, in monotonic seconds: the clock of plugins."""
        ...

    def began(self) -> None:
        """This replica schedules from now on."""
        ...

    def changed(self, kind: str, old: Any, new: Any) -> None:
        """A change that a list or a watch has delivered is applied; no ``new``: it is deleted."""
        ...

    def placed(
        self, pod: PodInfo, node: str, score: int | None, feasible: int, evaluated: int
    ) -> None:
        """A search has found a node for a pod that is tried by itself, with nothing proposed."""
        ...

    def searched(
        self, search: NodeSearch, node: str, score: int | None, feasible: int, evaluated: int
    ) -> None:
        """Any other search has found a node."""
        ...

    def unplaced(self, search: NodeSearch, plugins: Iterable[str], evaluated: int) -> None:
        """A search has found none; these plugins rejected nodes."""
        ...

    def made_room(self, uid: str, message: str, nominated: str) -> None:
        """PostFilter (preemption) has run after a search that found no node."""
        ...

    def not_reserved(self, uid: str, node: str, status: Status) -> None:
        """A pod was assumed on a node, and Reserve has rejected it."""
        ...

    def permitted(self, uid: str, node: str, status: Status) -> None:
        """Permit has run for a pod that is reserved: Success, Wait, or a rejection."""
        ...

    def wait_ended(self, uid: str) -> None:
        """A pod waits on permit no longer."""
        ...

    def reverted(self, uid: str, trial: bool) -> None:
        """A reservation was undone: Unreserve has run, and the pod is forgotten."""
        ...

    def forgotten(self, uid: str) -> None:
        """An assumed pod turned out not to be on its node: it is forgotten, without Unreserve."""
        ...

    def bound(self, uid: str, node: str) -> None:
        """The API server has accepted a binding."""
        ...

    def failed(self, uid: str, reason: str, message: str) -> None:
        """An attempt has ended without a node; the words of the pod's condition."""
        ...

    def nominated(self, uid: str, node: str) -> None:
        """A pod was nominated to a node; "": no longer to any."""
        ...

    def evicted(self, uid: str, fault: str) -> None:
        """The API server has answered an eviction; ``fault`` says why it failed."""
        ...

    def asked(self, search: NodeSearch) -> None:
        """A search cannot go on without an answer from out of process: it will be made again."""
        ...

    def asked_for_room(self, uid: str) -> None:
        """PostFilter cannot go on without an answer from out of process."""
        ...

    def answered(self, plugin: str, path: str, pod: str, answer: bytes, fault: str) -> None:
        """A plugin out of process has answered a question about a pod, or has failed to."""
        ...

    def told(self, uid: str, first: bool) -> None:
        """A suspended attempt has got the answer that it waits for; several may get the same."""
        ...

    def renewed(self, uid: str) -> None:
        """A suspended pod has changed: answers about it no longer count."""
        ...

    def claim_written(self, uid: str, key: str, claim: ResourceClaim | None) -> None:
        """What was reserved of a claim is written, before the watch shows it; None: it is deleted.

        The uid and the key are those of the claim as it was reserved.
        """
        ...
