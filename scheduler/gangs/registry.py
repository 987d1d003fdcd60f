"""The registry of all gangs: the members of each, and how far they have come.

It follows every pod and every PodGroup in the watch, and the pods that the scheduler assumes. When
a group changes, the registry activates the members of that group, and looks at no other pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from scheduler.gangs.gang import MAX_MEMBERS, Gang, Phase, Stage, rules_of
from scheduler.model.events import ASSIGNED_POD, WATCHED_POD, Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.workloads import PodGroup, pod_group_of
from scheduler.observe.metrics import Children
from scheduler.plugin_api import Handle
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

T = TypeVar("T")

PERMIT_PLUGIN = "Coscheduling"

GangListener = Callable[[Gang], None]
"""Called with a gang whose counts or rules have changed."""


def registry_of(handle: Handle) -> GangRegistry:
    """The registry of a handle's cluster, shared by all profiles; made by the first call."""
    return handle.state.shared.get_or_make(GangRegistry, lambda: GangRegistry(handle))


def find_registry(state: ClusterState) -> GangRegistry | None:
    """The registry of a cluster, if some profile has gangs."""
    return state.shared.get(GangRegistry)


class GangRegistry:
    """All gangs by ``namespace/name``.

    A pod that is in no group costs one lookup of a label. All else is O(1), and O(members) when a
    gang gets its ``minMember`` members, or nodes for them.
    """

    def __init__(self, handle: Handle) -> None:
        self._gangs: dict[str, Gang] = {}
        self._retry = handle.queue.retry
        self._permit = handle.permits.waiting
        self._clock = handle.run.clock
        self._listeners: list[GangListener] = []
        self._phases: dict[str, Phase] = {}
        self._groups = Children(handle.metrics.gang_groups)
        self._waiting = handle.metrics.gang_pods_waiting
        self._durations = handle.metrics.gang_placement_duration
        self._to_activate: dict[str, Gang] = {}
        """Gangs that an event changed, until the queue has applied that event."""

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def get(self, key: str) -> Gang | None:
        """The gang of this name, if it has a PodGroup or members."""
        return self._gangs.get(key)

    def of(self, pod: Pod) -> Gang | None:
        """The gang that a pod belongs to."""
        key = pod_group_of(pod.metadata)
        return None if key is None else self._gangs.get(key)

    def listen(self, listener: GangListener) -> None:
        """Call a listener with every gang that changes, from now on; it must be light."""
        self._listeners.append(listener)

    # Events of the cluster state

    def on_event(self, event: Event) -> None:
        """Apply an event of a pod, of a pod on a node, or of a PodGroup."""
        if event.kind == ASSIGNED_POD:
            self._assigned_pod(event)
        elif event.kind in WATCHED_POD:
            self.follow(_as(Pod, event.old), _as(Pod, event.new))
        else:
            self._group_changed(_as(PodGroup, event.old), _as(PodGroup, event.new))

    def activate_changed(self, event: Event) -> None:
        """Have the members of changed gangs that are without nodes tried again.

        After the back-off of a pass that failed: whoever writes a PodGroup again and again must not
        cause a pass each time. The state and the queue have applied the event already, so there are
        checkpoints: but not before as many may be tried as one pass takes.
        """
        changed = list(self._to_activate.values())
        self._to_activate.clear()
        for gang in changed:
            keys = list(dict.fromkeys(gang.without_nodes()))
            together = MAX_MEMBERS if gang.has_min_members else 0
            self._retry(keys[:together])
            if gang.rules is None:
                self.reject_all(gang, f"pod group {gang.key} was deleted")
            for key in keys[together:]:
                checkpoint()
                self._retry((key,))

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """The watch reports a pod that was added, updated or deleted."""
        was = pod_group_of(old.metadata) if old is not None else None
        now = pod_group_of(new.metadata) if new is not None else None
        if was is None and now is None:
            return
        if old is not None and was is not None and (was != now or _uid(old) != _uid(new)):
            self._leave(was, _uid(old))
        if new is not None and now is not None:
            self._join(now, new)

    def _join(self, key: str, pod: Pod) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, self._clock())
        had_min_members, uid = gang.has_min_members, _uid(pod)
        gang.put(uid, pod)
        if pod.deleting or pod.finished:
            gang.with_nodes.discard(uid)
        self._changed(gang)
        if gang.waiting_at_permit and gang.is_scheduled:
            self.allow_all(gang)
        if gang.has_min_members and not had_min_members:
            self._activate_members(gang)

    def _leave(self, key: str, uid: str) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            return
        gang.drop(uid)
        self._reject_one(gang, uid, f"pod is not in pod group {key} any more")
        gang.with_nodes.discard(uid)
        self._changed(gang)

    def _assigned_pod(self, event: Event) -> None:
        """A pod holds room on a node, or no longer; assumed pods count as well."""
        info, came = event.new or event.old, event.new is not None
        assert isinstance(info, PodInfo), "an event of a pod on a node has it"
        gang = self.of(info.pod)
        if gang is None:
            return
        newest = gang.members.get(info.uid, info.pod)
        if not came or newest.deleting or newest.finished:
            gang.with_nodes.discard(info.uid)
        elif info.uid not in gang.with_nodes:
            gang.with_nodes.add(info.uid)
            if not event.own:
                self._bound_by_others(gang)

    def _bound_by_others(self, gang: Gang) -> None:
        """Another scheduler has bound a member: fewer are missing."""
        self.drop_lapsed(gang)
        if gang.is_scheduled:
            self.allow_all(gang)
        if gang.counts[Stage.WAITING]:
            self._activate_members(gang)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A PodGroup was added, updated or deleted. Updates of its status are our own."""
        either = new or old
        assert either is not None, "an event of a PodGroup has it"
        key = either.metadata.key
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, self._clock())
        gang.started = None if new is None else new.status.schedule_start_time
        if old is not None and new is not None and old.spec == new.spec:
            return
        gang.rules = None if new is None else rules_of(new)
        self._changed(gang)
        if gang.is_scheduled:
            self.allow_all(gang)
        self._activate_members(gang)

    def _changed(self, gang: Gang) -> None:
        if not gang.members and gang.rules is None:
            self._gangs.pop(gang.key, None)
        if gang.has_min_members and not gang.is_scheduled:
            gang.has_min_members_since = gang.has_min_members_since or self._clock()
        elif not gang.has_min_members:
            gang.has_min_members_since = None
        self._count(gang)
        for listener in self._listeners:
            listener(gang)

    def _count(self, gang: Gang) -> None:
        """Update ``equipoise_gang_groups``; gangs without a PodGroup are not in it."""
        before = self._phases.get(gang.key)
        after = gang.phase if gang.rules is not None else None
        if before is after:
            return
        if before is not None:
            self._groups[before.value,].dec()
            del self._phases[gang.key]
        if after is not None:
            self._groups[after.value,].inc()
            self._phases[gang.key] = after

    def _activate_members(self, gang: Gang) -> None:
        """Activate the members without nodes, once the queue has applied the event."""
        self._to_activate[gang.key] = gang

    # Permit

    def add_waiting(self, gang: Gang, uid: str) -> None:
        """A member waits at permit for others."""
        gang.waiting_at_permit.add(uid)
        self._waiting.inc()

    def remove_waiting(self, gang: Gang, uid: str) -> None:
        """A member no longer waits at permit, for whatever reason; idempotent."""
        if uid in gang.waiting_at_permit:
            gang.waiting_at_permit.remove(uid)
            self._waiting.dec()

    def allow_all(self, gang: Gang) -> None:
        """``minMember`` members hold nodes: allow all that wait at permit."""
        for uid in self.take_waiting(gang):
            self.allow(uid)

    def take_waiting(self, gang: Gang) -> Collection[str]:
        """Empty the set of members that wait at permit; the caller allows those returned."""
        if gang.has_min_members_since is not None:
            self._durations.observe(self._clock() - gang.has_min_members_since)
            gang.has_min_members_since = None
        released = tuple(gang.waiting_at_permit)
        gang.waiting_at_permit.clear()
        self._waiting.dec(len(released))
        return released

    def allow(self, uid: str) -> None:
        """Allow a member that waits at permit."""
        if waiting := self._permit(uid):
            waiting.allow(PERMIT_PLUGIN)

    def reject_all(self, gang: Gang, reason: str) -> None:
        """Reject all members that wait at permit: they give their nodes back."""
        for uid in tuple(gang.waiting_at_permit):
            self._reject_one(gang, uid, reason)

    def drop_lapsed(self, gang: Gang) -> None:
        """Stop counting members at permit that were rejected or timed out and still hold nodes.

        They are tried again, since a pass may end before they are back in the queue.
        """
        lapsed = [
            uid for uid in gang.waiting_at_permit if (each := self._permit(uid)) and each.rejected
        ]
        for uid in lapsed:
            self.remove_waiting(gang, uid)
            gang.with_nodes.discard(uid)
        if lapsed:
            self._retry({gang.members[uid].metadata.key for uid in lapsed})

    def _reject_one(self, gang: Gang, uid: str, reason: str) -> None:
        """Reject a member that waits at permit. It stops counting at once."""
        if uid not in gang.waiting_at_permit:
            return
        self.remove_waiting(gang, uid)
        gang.with_nodes.discard(uid)
        if waiting := self._permit(uid):
            waiting.reject(PERMIT_PLUGIN, reason)


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None


def _uid(pod: Pod | None) -> str:
    return "" if pod is None else pod.metadata.uid or pod.metadata.key
