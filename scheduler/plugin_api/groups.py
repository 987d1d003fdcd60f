"""The contract with the plugin of pod groups: pods placed together or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.plugin_api.cycle import Slot

IN_PASS: Slot[bool] = Slot("in a pass")
"""Put while the members of a group are attempted together; dropped when nodes are reserved."""


class PodGroupState(msgspec.Struct, frozen=True):
    """The state of a pod group that is placed as a whole."""

    refusal: Status
    """Why no member can be placed now; Success if members may be."""
    minimum: int = 1
    """How many members must have nodes before any of them is bound."""
    placed: int = 0
    """How many have nodes, or have finished."""
    existing: int = 0
    """How many members exist; for others, members may wait at permit."""


@runtime_checkable
class GroupPlugin(Protocol):
    """Manages pod groups. It is no extension point of its own; a profile has one at most.

    It must have ``permit`` enabled, to have members wait for those that do not exist yet.

    When a member is popped, all other waiting members are popped too and attempted in one pass,
    during which no other pod is attempted: each is placed, reserved and permitted like any pod. If
    too few find nodes, everything is undone before another attempt sees it, and they wait as one
    (`pipeline`). PostFilter is skipped for members until the group has its minimum.

    All methods are called from the cycle, and must be light: O(members) at most.
    """

    @property
    def name(self) -> str:
        """The name by which verdicts on groups are signed."""
        ...

    @property
    def pause(self) -> float:
        """The least back-off of a group that was not placed, in seconds."""
        ...

    def group_of(self, pod: PodInfo) -> str | None:
        """The name of the pod's group; None if the pod is placed by itself."""
        ...

    def members(self, group: str) -> Collection[str]:
        """Members (``namespace/name``) without a node; some may not be in the queue."""
        ...

    def includes(self, group: str, uid: str) -> bool:
        """Whether a pod, as last seen by the watch, is a member of the group. O(1)."""
        ...

    def standing(self, group: str) -> PodGroupState:
        """The group's state now; members that are about to give up their node do not count."""
        ...

    def release_group(self, group: str) -> None:
        """Allow members that wait at permit: enough have nodes, and no plugin rejected one.

        Not done at ``permit``, because plugins that come later may still reject.
        """
        ...

    def reject_group(self, group: str, reason: str) -> None:
        """Reject members that wait at permit: the others were not placed."""
        ...
