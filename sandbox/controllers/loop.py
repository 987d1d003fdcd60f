"""One task that plays all controllers: reads changes, queues what they concern, backs off.

A change of an object concerns its own controller and, if it is managed, the controller of the
object that manages it. Each queued object is synced once, however many changes there were. A sync
does a bounded amount of work and says when it wants to look again; what fails is tried again after
a pause that doubles.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from typing import NamedTuple, Protocol, Self

import msgspec

from sandbox.controllers.garbage import GarbageCollector
from sandbox.controllers.ownership import OwnerAddress, Ownership, controller_of
from sandbox.controllers.recorder import ControllerEvents
from sandbox.errors import ApiFailure
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, ObjectTable, StoreChange, Version
from sandbox.tasks import cancelled

_BATCH = 64
"""Syncs between two returns to the event loop, at most."""
_TURN_SECONDS = 0.005
"""After which no further sync is begun in one turn."""
_READ = 512
"""Changes read between two returns to the event loop."""
_REST = 3
"""An object whose sync takes long, as it has thousands of pods, is left alone for so many times as
long: it takes a quarter of the time at most."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_UNFOLLOWED = frozenset({"events", "leases.coordination.k8s.io"})
"""They change all the time, and own nothing that anybody deletes with them."""


class Controller(Protocol):
    """What one kind needs; `sync` is called when something about an object of it has changed."""

    @property
    def resource(self) -> Resource:
        """The kind."""
        ...

    @property
    def concerned_by(self) -> tuple[str, ...]:
        """Other tables whose changes concern objects of the kind."""
        ...

    @property
    def finalizes(self) -> bool:
        """Whether objects in deletion are synced, too."""
        ...

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """The objects of the kind that a change of an object of another table concerns."""
        ...

    def sync(self, owner: Version) -> float | None:
        """Bring the cluster closer to what the object asks for.

        Returns in how many seconds to look again, if nothing changes before; raises ApiFailure or
        msgspec.ValidationError if it cannot be done.
        """
        ...

    def forget(self, uid: str) -> None:
        """The object with this uid is gone."""
        ...


class _Item(NamedTuple):
    table: str
    key: Key


class Controllers:
    """Plays controllers on a registry; `async with Controllers(registry, ownership, …):`."""

    def __init__(
        self,
        registry: Registry,
        ownership: Ownership,
        controllers: Iterable[Controller],
    ) -> None:
        self._registry = registry
        self._ownership = ownership
        self._garbage = GarbageCollector(registry, ownership)
        self._recorder = ControllerEvents(registry, "controller-manager")
        self._controllers = {each.resource.table: each for each in controllers}
        self._kinds = {
            (each.resource.api_version, each.resource.kind): table
            for table, each in self._controllers.items()
        }
        self._woken = asyncio.Event()
        self._positions: dict[str, int] = {}
        self._queue: dict[_Item, None] = {}
        self._later: list[tuple[float, _Item]] = []
        self._pauses: dict[_Item, float] = {}
        self._rests: dict[_Item, float] = {}
        self._resting: set[_Item] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        for resource in self._registry.catalog:
            self._registry.table(resource)  # made, so that there is something to follow
        self._task = asyncio.create_task(self._run(), name="controllers")
        return self

    async def __aexit__(self, *fault: object) -> None:
        await cancelled(self._task)
        for _, table in self._registry.store.tables():
            table.wakers.pop(self._woken, None)

    async def _run(self) -> None:
        while True:
            # Always, as what a sync writes wakes us at once: others have their turn first.
            await asyncio.sleep(0)
            self._woken.clear()
            if self._read_all():
                continue  # who acts on half of the news makes pods twice
            garbage = self._garbage.collect()
            self._sync_some()
            if not garbage and not self._queue:
                await self._wait()

    async def _wait(self) -> None:
        """Until something changes, or the next look is due."""
        due = self._later[0][0] if self._later else None
        try:
            async with asyncio.timeout_at(due):
                await self._woken.wait()
        except TimeoutError:
            return

    # Changes

    def _read_all(self) -> bool:
        """Read some of what is new; returns whether there is more."""
        behind = False
        for name, table in self._registry.store.tables():
            if name in _UNFOLLOWED:
                continue
            table.wakers[self._woken] = None
            if self._positions.get(name) != table.end:
                behind |= self._read(name, table)
        return behind

    def _read(self, name: str, table: ObjectTable) -> bool:
        position = self._positions.get(name)
        changes = table.changes(position) if position is not None else None
        if changes is None:  # new to us, or we were too slow
            for version in list(table.current.values()):
                self._see(name, StoreChange(version.key, version.revision, None, version))
            self._positions[name] = table.end
            return False
        for change in changes[:_READ]:
            self._see(name, change)
        self._positions[name] = table.end - max(0, len(changes) - _READ)
        return len(changes) > _READ

    def _see(self, name: str, change: StoreChange) -> None:
        address = OwnerAddress(name, change.key)
        if change.before is not None and _replaced(change):
            self._lose(address, change.before)
        if change.after is not None:
            self._ownership.set(address, change.after)
            self._garbage.see(address, change.after)
        if name in self._controllers:
            self._queue[_Item(name, change.key)] = None
        for version in (change.before, change.after):
            if version is not None:
                self._queue_manager(version.body)
        for table, controller in self._controllers.items():
            if name in controller.concerned_by:
                for version in (change.before, change.after):
                    if version is not None:
                        for key in controller.concerned(name, version.body):
                            self._queue[_Item(table, key)] = None

    def _lose(self, address: OwnerAddress, last: Version) -> None:
        uid = last.body["metadata"]["uid"]
        self._garbage.lose(address, last)
        self._ownership.remove(address, last)
        if controller := self._controllers.get(address.table):
            controller.forget(uid)
            self._pauses.pop(_Item(*address), None)
            self._rests.pop(_Item(*address), None)
            self._resting.discard(_Item(*address))

    def _queue_manager(self, body: Body) -> None:
        manager = controller_of(body)
        if manager is None:
            return
        table = self._kinds.get((str(manager.get("apiVersion")), str(manager.get("kind"))))
        if table is not None:
            key = (body["metadata"].get("namespace", ""), str(manager.get("name")))
            self._queue[_Item(table, key)] = None
            # A Deployment may wait for the last pod of its ReplicaSet to be gone.
            above = self._registry.store.table(table).get(key)
            if above is not None and above.body is not body:
                self._queue_manager(above.body)

    # Syncs

    def _sync_some(self) -> None:
        clock = asyncio.get_running_loop().time
        now = clock()
        while self._later and self._later[0][0] <= now:
            self._queue[heapq.heappop(self._later)[1]] = None
        for item in list(self._queue)[:_BATCH]:
            if clock() > now + _TURN_SECONDS:
                break
            del self._queue[item]
            if (rests := self._rests.get(item, 0.0)) > now:
                if item not in self._resting:
                    self._resting.add(item)
                    heapq.heappush(self._later, (rests, item))
                continue
            self._resting.discard(item)
            began = clock()
            again = self._sync(item)
            rest = _REST * (clock() - began)
            if rest > _TURN_SECONDS:
                self._rests[item] = clock() + rest
            else:
                self._rests.pop(item, None)
            if again is not None:
                heapq.heappush(self._later, (now + max(again, rest), item))

    def _sync(self, item: _Item) -> float | None:
        owner, controller = (
            self._registry.store.table(item.table).get(item.key),
            self._controllers[item.table],
        )
        if owner is None or (
            "deletionTimestamp" in owner.body["metadata"] and not controller.finalizes
        ):
            self._pauses.pop(item, None)
            return None
        try:
            again = controller.sync(owner)
        except (ApiFailure, msgspec.ValidationError) as fault:
            return self._fail(item, owner, str(fault))
        except Exception as fault:  # others may write any status; the loop goes on
            return self._fail(item, owner, f"{type(fault).__name__}: {fault}")
        self._pauses.pop(item, None)
        return again

    def _fail(self, item: _Item, owner: Version, message: str) -> float:
        self._recorder.warn(owner.body, "FailedSync", message)
        pause = self._pauses.get(item, _FIRST_PAUSE)
        self._pauses[item] = min(2 * pause, _LONGEST_PAUSE)
        return pause


def _replaced(change: StoreChange) -> bool:
    """Whether the object that was there is no longer: gone, or another of the same name."""
    before, after = change.before, change.after
    if before is None or after is None:
        return before is not None
    return bool(before.body["metadata"]["uid"] != after.body["metadata"]["uid"])
