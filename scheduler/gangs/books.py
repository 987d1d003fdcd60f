"""The books of all gangs: who belongs to which, and how far each has come.

They follow every pod and every PodGroup that the watch tells of, and what the scheduler itself
assumes. When a group changes, its own members are woken, and nobody else is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from weakref import ReferenceType, WeakKeyDictionary, ref

from scheduler.framework.interface import Handle
from scheduler.gangs.gang import Gang, Phase, Stage, rules_of
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.workloads import PodGroup, pod_group_of
from scheduler.observe.metrics import Children
from scheduler.state.cache import ClusterState

PERMIT_PLUGIN = "Coscheduling"

Listener = Callable[[Gang], None]
"""Told of a gang whose counts or rules have changed."""

_all: WeakKeyDictionary[ClusterState, ReferenceType[Books]] = WeakKeyDictionary()
"""One set of books per cluster, however many profiles share them. They live as long as its state,
which tells them of pods."""


def books_of(handle: Handle) -> Books:
    """The books of the cluster that a handle belongs to; kept from the first call on."""
    books = find_books(handle.state)
    if books is None:
        books = Books(handle)
        _all[handle.state] = ref(books)
    return books


def find_books(state: ClusterState) -> Books | None:
    """The books of a cluster, if some profile keeps them."""
    known = _all.get(state)
    return None if known is None else known()


class Books:
    """All gangs by ``namespace/name``.

    Following a pod that is in no group costs a look at its labels; all else is O(1), and O(members)
    when a gang becomes complete or whole.
    """

    def __init__(self, handle: Handle) -> None:
        self._gangs: dict[str, Gang] = {}
        self._activate = handle.activate
        self._permit = handle.waiting
        self._clock = handle.clock
        self._listeners: list[Listener] = []
        self._phases: dict[str, Phase] = {}
        self._groups = Children(handle.metrics.gang_groups)
        self._held = handle.metrics.gang_pods_waiting
        self._durations = handle.metrics.gang_placement_duration
        handle.state.residents.watch_all(self.follow)
        handle.state.residents.watch(self._resident)
        handle.state.objects.subscribe(PodGroup, self._group_changed)

    def __iter__(self) -> Iterator[Gang]:
        return iter(self._gangs.values())

    def get(self, key: str) -> Gang | None:
        """The gang of this name, if it has a PodGroup or members."""
        return self._gangs.get(key)

    def of(self, pod: Pod) -> Gang | None:
        """The gang that a pod belongs to."""
        key = pod_group_of(pod.metadata)
        return None if key is None else self._gangs.get(key)

    def listen(self, listener: Listener) -> None:
        """Tell a listener of every gang that changes, from now on; it must be light."""
        self._listeners.append(listener)

    # What happens

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went: the watch says so."""
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
        was_complete, uid = gang.complete, _uid(pod)
        gang.put(uid, pod)
        if pod.deleting or pod.finished:
            gang.holding.discard(uid)
        self._changed(gang)
        if gang.held and gang.whole:
            self.release(gang)
        if gang.complete and not was_complete:
            self._wake(gang)

    def _leave(self, key: str, uid: str) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            return
        gang.drop(uid)
        self._turn_away(gang, uid, f"pod is not in pod group {key} any more")
        gang.holding.discard(uid)
        self._changed(gang)

    def _resident(self, info: PodInfo, node: str, came: bool, assumed: bool) -> None:
        """A pod holds a node, or no longer does; what is only assumed counts as well."""
        gang = self.of(info.pod)
        if gang is None:
            return
        newest = gang.members.get(info.uid, info.pod)
        if not came or newest.deleting or newest.finished:
            gang.holding.discard(info.uid)
        elif info.uid not in gang.holding:
            gang.holding.add(info.uid)
            if not assumed:
                self._bound_by_others(gang)

    def _bound_by_others(self, gang: Gang) -> None:
        """A member has got a node without our doing: fewer are missing."""
        self.drop_lapsed(gang)
        if gang.whole:
            self.release(gang)
        if gang.counts[Stage.WAITING]:
            self._wake(gang)

    def _group_changed(self, key: str, old: PodGroup | None, new: PodGroup | None) -> None:
        """A PodGroup came, changed or went. Changes of its status are our own."""
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = Gang(key, self._clock())
        gang.started = None if new is None else new.status.schedule_start_time
        if old is not None and new is not None and old.spec == new.spec:
            return
        gang.rules = None if new is None else rules_of(new)
        self._changed(gang)
        if gang.whole:
            self.release(gang)
        self._wake(gang)
        if gang.rules is None:
            self.reject(gang, f"pod group {key} was deleted")

    def _changed(self, gang: Gang) -> None:
        if not gang.members and gang.rules is None:
            self._gangs.pop(gang.key, None)
        if gang.complete and not gang.whole:
            gang.complete_since = gang.complete_since or self._clock()
        elif not gang.complete:
            gang.complete_since = None
        self._count(gang)
        for listener in self._listeners:
            listener(gang)

    def _count(self, gang: Gang) -> None:
        """Keep ``equipoise_gang_groups`` true; groups without a PodGroup are not in it."""
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

    def _wake(self, gang: Gang) -> None:
        """Have the members that wait tried again, wherever they are parked or gated."""
        self._activate(dict.fromkeys(gang.waiting()))

    # Permission

    def hold(self, gang: Gang, uid: str) -> None:
        """A member waits for others."""
        gang.held.add(uid)
        self._held.inc()

    def unhold(self, gang: Gang, uid: str) -> None:
        """A member waits no more, for whatever reason; idempotent."""
        if uid in gang.held:
            gang.held.remove(uid)
            self._held.dec()

    def release(self, gang: Gang) -> None:
        """Enough members hold nodes: all that wait may be bound."""
        for uid in self.let_go(gang):
            self.allow(uid)

    def let_go(self, gang: Gang) -> Collection[str]:
        """No member waits for others any more; returns those that are to be allowed to go on."""
        if gang.complete_since is not None:
            self._durations.observe(self._clock() - gang.complete_since)
            gang.complete_since = None
        released = tuple(gang.held)
        gang.held.clear()
        self._held.dec(len(released))
        return released

    def allow(self, uid: str) -> None:
        """Let a member go on that waits for permission."""
        if waiting := self._permit(uid):
            waiting.allow(PERMIT_PLUGIN)

    def reject(self, gang: Gang, reason: str) -> None:
        """Send all members that wait for permission back to the queue."""
        for uid in tuple(gang.held):
            self._turn_away(gang, uid, reason)

    def drop_lapsed(self, gang: Gang) -> None:
        """Count those no more whose time is up, or whom others rejected: they are on their way.

        They are to be tried again when they are back, since a pass may go by meanwhile.
        """
        lapsed = [uid for uid in gang.held if (each := self._permit(uid)) and each.rejected]
        for uid in lapsed:
            self.unhold(gang, uid)
            gang.holding.discard(uid)
        if lapsed:
            self._activate({gang.members[uid].metadata.key for uid in lapsed})

    def _turn_away(self, gang: Gang, uid: str, reason: str) -> None:
        """Have a member that waits give its node back; it counts no more from now on."""
        if uid not in gang.held:
            return
        self.unhold(gang, uid)
        gang.holding.discard(uid)
        if waiting := self._permit(uid):
            waiting.reject(PERMIT_PLUGIN, reason)


def _uid(pod: Pod | None) -> str:
    return "" if pod is None else pod.metadata.uid or pod.metadata.key
