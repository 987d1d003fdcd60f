"""Coscheduling: members of a PodGroup are bound together, or not at all.

A gang is gated until ``minMember`` members exist, and then tried in one pass, in which every member
is placed and reserved like any other pod (``pipeline/pod_groups.py``). This plugin keeps the
registry of groups, and at permit no member passes before ``minMember`` hold nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np

from scheduler.config.plugin_args import CoschedulingArgs
from scheduler.gangs.gang import MAX_MEMBERS, Gang
from scheduler.gangs.registry import PERMIT_PLUGIN, registry_of
from scheduler.model.events import UNSCHEDULABLE_POD, Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS, Amounts
from scheduler.model.status import SUCCESS, Code, Status, unresolvable, unschedulable
from scheduler.model.workloads import pod_group_of
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.groups import IN_PASS, PodGroupState
from scheduler.plugin_api.traits import PluginTraits
from scheduler.queueing.hints import HintRegistration, by_uid, own_change
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

NAME = PERMIT_PLUGIN
_WAIT = Status(Code.WAIT)


class Coscheduling:
    """Gates members of gangs, and holds them at permit until enough of them have nodes."""

    name = NAME
    traits = PluginTraits(comparable=True)
    observes = ("PodGroup",)

    def __init__(self, args: CoschedulingArgs | None, handle: Handle) -> None:
        args = args or CoschedulingArgs()
        self._timeout = float(args.permit_waiting_time_seconds)
        self.pause = float(args.pod_group_backoff_seconds)
        self._state = handle.state
        self.registry = registry_of(handle)

    # The queue

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Priority descending, then time; for members that is when their group was first seen.

        Only for profiles that name the plugin at queueSort. Gangs stay together without it.
        """
        gang = self.registry.of(queued.info.pod)
        return -queued.info.priority, queued.timestamp if gang is None else gang.first_seen

    def rank(self, queued: QueuedPod) -> int:
        """Priority descending."""
        return -queued.info.priority

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Gate members of groups that do not exist, are invalid, or have too few members."""
        key = pod_group_of(pod.pod.metadata)
        if key is None:
            return SUCCESS
        gang = self.registry.get(key)
        return _unready(key, gang) or SUCCESS

    def hints(self) -> Sequence[HintRegistration]:
        """Only a changed label of the pod: the registry activates members of changed groups."""
        return (HintRegistration(UNSCHEDULABLE_POD, Action.POD_LABEL, own_change, by_uid),)

    # The group (see ``GroupPlugin``)

    def group_of(self, pod: PodInfo) -> str | None:
        """The group of a pod, as long as fewer than ``minMember`` members hold nodes."""
        key = pod_group_of(pod.pod.metadata)
        if key is None:
            return None
        gang = self.registry.get(key)
        return key if gang is None or not gang.is_scheduled else None

    def members(self, group: str) -> Collection[str]:
        """The members without a node, as ``namespace/name``; at most ``MAX_MEMBERS``."""
        gang = self.registry.get(group)
        return () if gang is None else list(islice(gang.without_nodes(), MAX_MEMBERS))

    def includes(self, group: str, uid: str) -> bool:
        """Whether a pod is a member of the group and is not being deleted."""
        gang = self.registry.get(group)
        pod = None if gang is None else gang.members.get(uid)
        return pod is not None and not pod.deleting

    def standing(self, group: str) -> PodGroupState:
        """How many members must be placed, and whether the group may be tried."""
        gang = self.registry.get(group)
        if gang is None or gang.rules is None or gang.rules.fault:
            return PodGroupState(_unready(group, gang) or SUCCESS)
        rules = gang.rules
        self.registry.drop_lapsed(gang)
        missing = _too_scarce(self._state, gang, rules.min_resources)
        refusal = (
            unschedulable(
                f"pod group {group}: spec.minResources: not enough {missing} is free in the cluster"
            ).by(NAME)
            if missing
            else SUCCESS
        )
        return PodGroupState(refusal, rules.min_member, gang.placed, gang.existing)

    def release_group(self, group: str) -> None:
        """Allow all members that wait at permit, if ``minMember`` hold nodes."""
        gang = self.registry.get(group)
        if gang is not None and gang.is_scheduled:
            for uid in self.registry.take_waiting(gang):
                self.registry.allow(uid)
                checkpoint()

    def reject_group(self, group: str, reason: str) -> None:
        """Reject all members that wait at permit."""
        gang = self.registry.get(group)
        if gang is not None:
            self.registry.reject_all(gang, reason)

    # Reserve and permit

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Wait until ``minMember`` members hold nodes."""
        gang = self.registry.of(cycle.pod.pod)
        if gang is None or gang.rules is None:
            key = pod_group_of(cycle.pod.pod.metadata)
            return (SUCCESS if key is None else _missing(key)), 0.0
        if gang.is_scheduled:
            return SUCCESS, 0.0
        self.registry.add_waiting(gang, cycle.pod.uid)
        return _WAIT, self._timeout if gang.rules.timeout is None else gang.rules.timeout

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Nothing to do: the registry learns from the state which members hold nodes."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """A member gives its node back, and so do all that wait at permit.

        Not if it was deleted: a replacement may come before the others time out. Nor in a pass:
        another member may be placed instead, and the pass itself reverts all members if it fails.
        """
        pod = cycle.pod
        gang = self.registry.of(pod.pod)
        if gang is None:
            return
        self.registry.remove_waiting(gang, pod.uid)
        if cycle.find(IN_PASS):
            return
        if pod.uid in gang.members and not gang.members[pod.uid].deleting:
            self.registry.reject_all(gang, f"pod group {gang.key}: {pod.key} was unreserved")


def _unready(key: str, gang: Gang | None) -> Status | None:
    """Why no member of a group may be tried; None if they may."""
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
    """The first resource of which the cluster has less free than ``minResources``.

    What members hold counts as free. O(nodes) for each resource, as array operations.
    """
    if not wanted:
        return ""
    columns, rows = state.columns, state.rows()
    rows = rows[~columns.unschedulable[rows]]
    held = [info for uid in gang.with_nodes if (info := state.pod(uid)) is not None]
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
