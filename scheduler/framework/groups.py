"""The contract with the plugin that knows which pods are placed together or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

import msgspec

from scheduler.framework.cycle import Slot
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status

IN_PASS: Slot[bool] = Slot("in a pass")
"""Put while a member is being tried together with others, and gone when it goes on to be bound."""


class GroupStanding(msgspec.Struct, frozen=True):
    """How a group of pods stands that is to be placed as a whole."""

    refusal: Status
    """Why there is no use in trying any member now; Success if there may be."""
    minimum: int = 1
    """How many members must hold nodes before one of them may be bound."""
    placed: int = 0
    """How many do, or need none any more."""
    existing: int = 0
    """How many there are; for others, members may wait at permit."""


@runtime_checkable
class GroupPlugin(Protocol):
    """Knows groups of pods. It is no extension point of its own; a profile has one at most.

    It must have ``permit`` enabled: who else would have members wait for those that do not exist?

    When a member is popped, all others that wait are popped along and tried in one pass, during
    which no other pod is attempted: each is placed, reserved and permitted like any pod. If too few
    find nodes, everything is undone before another attempt can see it, and they wait as one
    (``pipeline/pod_groups.py``). Members of a group never evict others before the group is whole:
    no post-filter plugin is asked.

    All methods are called from the cycle, and must be light: O(members) at most.
    """

    @property
    def name(self) -> str:
        """The name by which verdicts on groups are signed."""
        ...

    @property
    def pause(self) -> float:
        """How many seconds a group that was not placed backs off at least."""
        ...

    def group_of(self, pod: PodInfo) -> str | None:
        """The name of the pod's group; None if the pod may be placed by itself."""
        ...

    def members(self, group: str) -> Collection[str]:
        """Members (``namespace/name``) that hold no node; some may not be in the queue."""
        ...

    def includes(self, group: str, uid: str) -> bool:
        """Whether a pod, as the watch last told of it, is a member of the group. O(1)."""
        ...

    def standing(self, group: str) -> GroupStanding:
        """How the group stands now; whoever is about to give its node back does not count."""
        ...

    def release_group(self, group: str) -> None:
        """Let members go on that wait at permit: enough hold nodes, and no plugin was against it.

        At ``permit`` it would be too early for that: plugins that come later may still deny.
        """
        ...

    def reject_group(self, group: str, reason: str) -> None:
        """Send members back to the queue that wait at permit: the others were not placed."""
        ...
