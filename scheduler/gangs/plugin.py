"""Coscheduling: members of a PodGroup are bound together, or not at all.

A gang is gated until enough of its members exist, and then tried in one pass, in which every member
is placed and reserved like any other pod (``pipeline/pod_groups.py``). This plugin knows the groups
and has the last word: at permit, no member goes on before ``minMember`` hold nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np

from scheduler.config.plugin_args import CoschedulingArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.groups import IN_PASS, GroupStanding
from scheduler.framework.interface import Handle
from scheduler.gangs.books import PERMIT_PLUGIN, books_of
from scheduler.gangs.gang import MAX_MEMBERS, Gang
from scheduler.model.events import UNSCHEDULED_POD, Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS, Amounts
from scheduler.model.status import SUCCESS, Code, Status, unresolvable, unschedulable
from scheduler.model.workloads import pod_group_of
from scheduler.queueing.hints import HintRegistration, by_uid, own_change
from scheduler.queueing.tiers import QueuedPod
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

NAME = PERMIT_PLUGIN
_HOLD = Status(Code.WAIT)


class Coscheduling:
    """Gates, tries and releases gangs as a whole."""

    name = NAME
    comparable = True
    observes = ("PodGroup",)

    def __init__(self, args: CoschedulingArgs | None, handle: Handle) -> None:
        args = args or CoschedulingArgs()
        self._timeout = float(args.permit_waiting_time_seconds)
        self.pause = float(args.pod_group_backoff_seconds)
        self._state = handle.state
        self.books = books_of(handle)

    # The queue

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Priority descending, then time: members have that at which their group first came.

        Only for those who name the plugin at this point. Gangs are not torn apart without it.
        """
        gang = self.books.of(queued.info.pod)
        return -queued.info.priority, queued.timestamp if gang is None else gang.came

    def rank(self, queued: QueuedPod) -> int:
        """Priority descending."""
        return -queued.info.priority

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold members of groups that do not exist, make no sense, or are not complete."""
        key = pod_group_of(pod.pod.metadata)
        if key is None:
            return SUCCESS
        gang = self.books.get(key)
        return _unready(key, gang) or SUCCESS

    def hints(self) -> Sequence[HintRegistration]:
        """Only that a pod is given another label: of changed groups the books tell themselves."""
        return (HintRegistration(UNSCHEDULED_POD, Action.POD_LABEL, own_change, by_uid),)

    # The group (see ``GroupPlugin``)

    def group_of(self, pod: PodInfo) -> str | None:
        """The group of a pod, as long as too few of its members hold nodes."""
        key = pod_group_of(pod.pod.metadata)
        if key is None:
            return None
        gang = self.books.get(key)
        return key if gang is None or not gang.whole else None

    def members(self, group: str) -> Collection[str]:
        """The members that have no node yet, as ``namespace/name``; the first of very many."""
        gang = self.books.get(group)
        return () if gang is None else list(islice(gang.waiting(), MAX_MEMBERS))

    def includes(self, group: str, uid: str) -> bool:
        """Whether a pod is a member of the group, and not leaving."""
        gang = self.books.get(group)
        pod = None if gang is None else gang.members.get(uid)
        return pod is not None and not pod.deleting

    def standing(self, group: str) -> GroupStanding:
        """How many members must be placed, and whether there is any use in trying."""
        gang = self.books.get(group)
        if gang is None or gang.rules is None or gang.rules.fault:
            return GroupStanding(_unready(group, gang) or SUCCESS)
        rules = gang.rules
        self.books.drop_lapsed(gang)
        missing = _too_scarce(self._state, gang, rules.min_resources)
        refusal = (
            unschedulable(
                f"pod group {group}: spec.minResources: not enough {missing} is free in the cluster"
            ).by(NAME)
            if missing
            else SUCCESS
        )
        return GroupStanding(refusal, rules.min_member, gang.placed, gang.existing)

    def release_group(self, group: str) -> None:
        """Let all go on who wait for permission, if enough members hold nodes."""
        gang = self.books.get(group)
        if gang is not None and gang.whole:
            for uid in self.books.let_go(gang):
                self.books.allow(uid)
                checkpoint()

    def reject_group(self, group: str, reason: str) -> None:
        """Send members that wait for permission back to the queue."""
        gang = self.books.get(group)
        if gang is not None:
            self.books.reject(gang, reason)

    # Permission

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Go once enough members hold nodes; until then, wait."""
        gang = self.books.of(cycle.pod.pod)
        if gang is None or gang.rules is None:
            key = pod_group_of(cycle.pod.pod.metadata)
            return (SUCCESS if key is None else _missing(key)), 0.0
        if gang.whole:
            return SUCCESS, 0.0
        self.books.hold(gang, cycle.pod.uid)
        return _HOLD, self._timeout if gang.rules.timeout is None else gang.rules.timeout

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Nothing to book: who holds a node is known from the state."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """A member gives its node back: who still waits for it does so too.

        Unless it was deleted. Then another may be made in its place, and waiting has an end. Nor in
        a pass, where another member may do as well, and which ends for all at once.
        """
        pod = cycle.pod
        gang = self.books.of(pod.pod)
        if gang is None:
            return
        self.books.unhold(gang, pod.uid)
        if cycle.find(IN_PASS):
            return
        if pod.uid in gang.members and not gang.members[pod.uid].deleting:
            self.books.reject(gang, f"pod group {gang.key}: {pod.key} gave its node back")


def _unready(key: str, gang: Gang | None) -> Status | None:
    """Why no member of a group may be tried, if that is so."""
    if gang is None or gang.rules is None:
        return _missing(key)
    rules = gang.rules
    if rules.fault:
        return unresolvable(f"pod group {key}: {rules.fault}").by(NAME)
    if gang.existing < rules.min_member:
        count = f"{gang.existing} of {rules.min_member} members exist"
        return unresolvable(f"pod group {key}: {count}").by(NAME)
    return None


def _missing(key: str) -> Status:
    return unresolvable(f"pod group {key} does not exist").by(NAME)


def _too_scarce(state: ClusterState, gang: Gang, wanted: Amounts) -> str:
    """The first resource of which the cluster has less than a gang needs for all its members.

    What the members hold already counts. O(nodes) for each resource, as array operations.
    """
    if not wanted:
        return ""
    columns, rows = state.columns, state.rows()
    rows = rows[~columns.unschedulable[rows]]
    held = [info for uid in gang.holding if (info := state.pod(uid)) is not None]
    for resource, amount in wanted.items():
        if resource == PODS:
            free = columns.pod_limit[rows] - columns.pod_count[rows]
            free_sum = int(np.maximum(free, 0).sum()) + len(held)
        else:
            index = columns.resources.find(resource)
            free_sum = sum(info.requests.get(resource, 0) for info in held)
            if index is not None:
                free = columns.allocatable[index, rows] - columns.requested[index, rows]
                free_sum += int(np.maximum(free, 0).sum())
        if free_sum < amount:
            return resource
    return ""
