"""One gang: the spec of its PodGroup, how many members there are, and their states."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator

import msgspec

from scheduler.model.pods import Pod
from scheduler.model.resources import AmountError, Amounts, amounts_of
from scheduler.model.workloads import PodGroup

MAX_MEMBERS = 2_000
"""How many members are tried in one pass. No other pod is attempted during a pass."""


class Phase(enum.Enum):
    """``status.phase`` of the PodGroup."""

    PENDING = "Pending"
    """Fewer than ``minMember`` exist."""
    SCHEDULING = "Scheduling"
    """Enough exist, and fewer than ``minMember`` are on nodes."""
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    """``minMember`` have succeeded."""
    FAILED = "Failed"
    """``minMember`` have started, and some have failed."""


class Stage(enum.Enum):
    """The life of one member."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LEAVING = "leaving"
    """It is being deleted, and does not count."""


_FINISHED = {"Succeeded": Stage.SUCCEEDED, "Failed": Stage.FAILED}


def stage_of(pod: Pod) -> Stage:
    """The stage of a pod, from the watch."""
    finished = _FINISHED.get(pod.status.phase)
    if finished is not None:
        return finished
    if pod.deleting:
        return Stage.LEAVING
    if not pod.spec.node_name:
        return Stage.WAITING
    return Stage.RUNNING if pod.status.phase == "Running" else Stage.SCHEDULED


class Rules(msgspec.Struct, frozen=True):
    """The spec of a PodGroup; ``fault`` names the invalid field, if there is one."""

    min_member: int = 1
    min_resources: Amounts = {}
    timeout: float | None = None
    """How long members wait at permit; None: the plugin's ``permitWaitingTimeSeconds``."""
    fault: str = ""


def rules_of(group: PodGroup) -> Rules:
    """Read the spec of a PodGroup; never raises."""
    spec = group.spec
    if spec.min_member < 1:
        return Rules(fault=f"spec.minMember: must be at least 1, not {spec.min_member}")
    if spec.min_member > MAX_MEMBERS:
        count = spec.min_member
        return Rules(fault=f"spec.minMember: must be at most {MAX_MEMBERS}, not {count}")
    timeout = spec.schedule_timeout_seconds
    if timeout is not None and timeout < 0:
        return Rules(fault=f"spec.scheduleTimeoutSeconds: must not be negative, not {timeout}")
    try:
        amounts = amounts_of(spec.min_resources, "spec.minResources")
    except AmountError as fault:
        return Rules(fault=str(fault))
    return Rules(spec.min_member, amounts, None if timeout is None else float(timeout))


class Gang:
    """The members of one PodGroup by uid, counted by stage. Every operation is O(1)."""

    __slots__ = (
        "counts",
        "first_seen",
        "has_min_members_since",
        "key",
        "members",
        "rules",
        "started",
        "waiting_at_permit",
        "with_nodes",
    )

    def __init__(self, key: str, first_seen: float) -> None:
        self.key = key
        self.first_seen = first_seen
        """When the first member or the PodGroup was seen."""
        self.rules: Rules | None = None
        """None while the PodGroup does not exist."""
        self.started: str | None = None
        """``status.scheduleStartTime`` of the PodGroup."""
        self.members: dict[str, Pod] = {}
        self.counts: Counter[Stage] = Counter()
        self.with_nodes: set[str] = set()
        """Members on nodes, assumed ones included, unless they are being deleted."""
        self.waiting_at_permit: set[str] = set()
        """Members that hold a node while too few others do."""
        self.has_min_members_since: float | None = None
        """Since when ``minMember`` members exist; None again once they hold nodes."""

    @property
    def existing(self) -> int:
        """How many members exist or have succeeded. Failed members must be replaced."""
        counts = self.counts
        gone = counts[Stage.FAILED] + counts[Stage.LEAVING]
        return len(self.members) - gone

    @property
    def placed(self) -> int:
        """How many members hold a node or have succeeded."""
        return len(self.with_nodes) + self.counts[Stage.SUCCEEDED]

    @property
    def has_min_members(self) -> bool:
        """Whether ``minMember`` members exist, so that the gang is tried."""
        rules = self.rules
        return rules is not None and not rules.fault and self.existing >= rules.min_member

    @property
    def is_scheduled(self) -> bool:
        """Whether ``minMember`` members hold nodes. Further ones are placed like any other pod."""
        rules = self.rules
        return rules is not None and not rules.fault and self.placed >= rules.min_member

    @property
    def phase(self) -> Phase:
        """The phase of the gang."""
        counts = self.counts
        needed = self.rules.min_member if self.rules else 1
        started = counts[Stage.RUNNING] + counts[Stage.SUCCEEDED]
        failed = counts[Stage.FAILED]
        if counts[Stage.SUCCEEDED] >= needed:
            return Phase.FINISHED
        if failed and started + failed >= needed:
            return Phase.FAILED
        if not self.has_min_members:
            return Phase.PENDING
        if started >= needed:
            return Phase.RUNNING
        return Phase.SCHEDULED if started + counts[Stage.SCHEDULED] >= needed else Phase.SCHEDULING

    def without_nodes(self) -> Iterator[str]:
        """The members without a node, as ``namespace/name``, in the order in which they came."""
        for uid, pod in self.members.items():
            if not pod.spec.node_name and uid not in self.with_nodes:
                yield pod.metadata.key

    def put(self, uid: str, pod: Pod) -> None:
        """Add or update a member."""
        before = self.members.get(uid)
        if before is not None:
            self.counts[stage_of(before)] -= 1
        self.members[uid] = pod
        self.counts[stage_of(pod)] += 1

    def drop(self, uid: str) -> None:
        """Remove a member; nothing happens if it was none."""
        before = self.members.pop(uid, None)
        if before is not None:
            self.counts[stage_of(before)] -= 1
