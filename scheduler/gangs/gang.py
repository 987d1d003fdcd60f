"""One gang: what its PodGroup asks for, how many members there are, and how far they have come."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator

import msgspec

from scheduler.model.pods import Pod
from scheduler.model.resources import AmountError, Amounts, amounts_of
from scheduler.model.workloads import PodGroup

MAX_MEMBERS = 2_000
"""How many members are tried in one pass, during which no other pod is attempted."""


class Phase(enum.Enum):
    """How far a gang has come, in the words of the PodGroup's status."""

    PENDING = "Pending"
    """Fewer than ``minMember`` exist."""
    SCHEDULING = "Scheduling"
    """Enough exist, and fewer than ``minMember`` are on nodes."""
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    """``minMember`` have succeeded."""
    FAILED = "Failed"
    """All that were needed have started, and some have failed."""


class Stage(enum.Enum):
    """How far one member has come."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LEAVING = "leaving"
    """It is being deleted, and counts for nothing."""


_FINISHED = {"Succeeded": Stage.SUCCEEDED, "Failed": Stage.FAILED}


def stage_of(pod: Pod) -> Stage:
    """How far a pod has come, as the watch tells."""
    finished = _FINISHED.get(pod.status.phase)
    if finished is not None:
        return finished
    if pod.deleting:
        return Stage.LEAVING
    if not pod.spec.node_name:
        return Stage.WAITING
    return Stage.RUNNING if pod.status.phase == "Running" else Stage.SCHEDULED


class Rules(msgspec.Struct, frozen=True):
    """What a PodGroup asks for; ``fault`` names the field that makes no sense, if one does."""

    min_member: int = 1
    min_resources: Amounts = {}
    timeout: float | None = None
    """How long members wait for others that are not there; None: as the plugin is configured."""
    fault: str = ""


def rules_of(group: PodGroup) -> Rules:
    """The rules of a group. What its author writes never raises from here."""
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
    """The members of one group by uid, counted by stage. Every operation is O(1)."""

    __slots__ = (
        "came",
        "complete_since",
        "counts",
        "held",
        "holding",
        "key",
        "members",
        "rules",
        "started",
    )

    def __init__(self, key: str, came: float) -> None:
        self.key = key
        self.came = came
        """When the scheduler first heard of it."""
        self.rules: Rules | None = None
        """None while there is no such PodGroup."""
        self.started: str | None = None
        """When scheduling began, as the PodGroup's status says."""
        self.members: dict[str, Pod] = {}
        self.counts: Counter[Stage] = Counter()
        self.holding: set[str] = set()
        """Members that hold a node, assumed ones included, and are not leaving."""
        self.held: set[str] = set()
        """Members that wait for permission: they hold a node, and too few others do."""
        self.complete_since: float | None = None
        """Since when enough members exist, until enough hold nodes."""

    @property
    def existing(self) -> int:
        """How many members are there or have succeeded; what failed must be made anew."""
        counts = self.counts
        gone = counts[Stage.FAILED] + counts[Stage.LEAVING]
        return len(self.members) - gone

    @property
    def placed(self) -> int:
        """How many members hold a node, or have succeeded and need none any more."""
        return len(self.holding) + self.counts[Stage.SUCCEEDED]

    @property
    def complete(self) -> bool:
        """Whether enough members exist for the gang to be tried."""
        rules = self.rules
        return rules is not None and not rules.fault and self.existing >= rules.min_member

    @property
    def whole(self) -> bool:
        """Whether enough members hold nodes: each further one is placed like any other pod."""
        rules = self.rules
        return rules is not None and not rules.fault and self.placed >= rules.min_member

    @property
    def phase(self) -> Phase:
        """How far the gang has come."""
        counts = self.counts
        needed = self.rules.min_member if self.rules else 1
        started = counts[Stage.RUNNING] + counts[Stage.SUCCEEDED]
        failed = counts[Stage.FAILED]
        if counts[Stage.SUCCEEDED] >= needed:
            return Phase.FINISHED
        if failed and started + failed >= needed:
            return Phase.FAILED
        if not self.complete:
            return Phase.PENDING
        if started >= needed:
            return Phase.RUNNING
        return Phase.SCHEDULED if started + counts[Stage.SCHEDULED] >= needed else Phase.SCHEDULING

    def waiting(self) -> Iterator[str]:
        """The members that hold no node, as ``namespace/name``, in the order in which they came."""
        for uid, pod in self.members.items():
            if not pod.spec.node_name and uid not in self.holding:
                yield pod.metadata.key

    def put(self, uid: str, pod: Pod) -> None:
        """A member came, or there is a new version of it."""
        before = self.members.get(uid)
        if before is not None:
            self.counts[stage_of(before)] -= 1
        self.members[uid] = pod
        self.counts[stage_of(pod)] += 1

    def drop(self, uid: str) -> None:
        """A member is gone; nothing happens if it was none."""
        before = self.members.pop(uid, None)
        if before is not None:
            self.counts[stage_of(before)] -= 1
