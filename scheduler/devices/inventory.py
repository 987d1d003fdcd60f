"""The inventory: nodes, slices and claims in, what each node sees out.

An event touches the pools that it concerns. What nodes see of them is made again when somebody
asks, so an event costs no more than forgetting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.devices.allocated import Allocated
from scheduler.devices.pools import (
    DevicePool,
    PoolKey,
    PoolStatus,
    PoolView,
    PublishedSlice,
    publish,
)
from scheduler.devices.segments import Arena, NodeSegment
from scheduler.devices.shapes import ShapeTable
from scheduler.model.devices import AllocationResult, ResourceSlice
from scheduler.model.nodes import Node
from scheduler.slices import checkpoint

_FIRST_ROWS = 64
_CHECK_EVERY = 64
_MANY_SEERS = 64
"""If more nodes see a pool, a change of it concerns any row: who they are is not worth a list."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Which rows an event concerns; None: any row."""

    rows: tuple[int, ...] | None = ()


@dataclass(eq=False, slots=True)
class _DeviceRow:
    node: Node
    segment: NodeSegment | None = None
    """None: what the node sees is to be made again."""


class RowColumns:
    """Per row where its segment lies, and what it is like."""

    def __init__(self) -> None:
        self.known: NDArray[np.bool_] = np.zeros(_FIRST_ROWS, dtype=bool)
        self.start: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.length: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.layout: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.left: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.changed: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        """When a row changed in any way, counted."""
        self._changes = 0

    def make_room(self, row: int) -> None:
        """Have a place for a row."""
        while row >= len(self.known):
            self.known = np.concatenate((self.known, np.zeros_like(self.known)))
            self.start = np.concatenate((self.start, np.zeros_like(self.start)))
            self.length = np.concatenate((self.length, np.zeros_like(self.length)))
            self.layout = np.concatenate((self.layout, np.zeros_like(self.layout)))
            self.left = np.concatenate((self.left, np.zeros_like(self.left)))
            self.changed = np.concatenate((self.changed, np.zeros_like(self.changed)))

    def touch(self, rows: list[int]) -> None:
        """What rows show has changed."""
        self._changes += 1
        self.changed[rows] = self._changes

    def set(self, row: int, segment: NodeSegment) -> None:
        """Note the segment of a row."""
        self.start[row] = segment.start
        self.length[row] = segment.length
        self.layout[row] = segment.layout
        self.left[row] = segment.availability
        self.known[row] = True


class Inventory:
    """All devices, by the nodes that see them."""

    def __init__(self) -> None:
        self.shapes = ShapeTable()
        self.allocated = Allocated()
        self.arena = Arena(self.allocated)
        self.columns = RowColumns()
        self.version = 0
        """Grows with every event."""
        self._pools: dict[PoolKey, DevicePool] = {}
        self._local: dict[str, set[PoolKey]] = {}
        """By name of a node: pools with slices that only it sees."""
        self._shared: set[PoolKey] = set()
        """Pools that nodes may see without being named."""
        self._troubled: dict[PoolKey, PoolView] = {}
        """Pools whose counters all nodes see, and which are incomplete or invalid for all nodes."""
        self._rows: dict[int, _DeviceRow] = {}
        self._row_of: dict[str, int] = {}
        self._looked: set[int] = set()
        """Rows whose segment is known."""
        self._places = 0

    def node_name(self, row: int) -> str:
        """The name of the node of a row; empty if the row has none."""
        entry = self._rows.get(row)
        return "" if entry is None else entry.node.name

    def shapes_of(self, pools: Iterable[PoolKey]) -> set[int]:
        """The numbers of the shapes of all devices of some pools, of whichever generation."""
        found: set[int] = set()
        for key in pools:
            pool = self._pools.get(key)
            if pool is not None:
                found.update(pool.shapes)
        return found

    # --- Events -------------------------------------------------------------------------------

    def set_node(self, row: int, node: Node | None) -> None:
        """A row belongs to a node from now on; None: to none."""
        self.version += 1
        before = self._rows.pop(row, None)
        if before is not None:
            self._leave(row, before)
            if self._row_of.get(before.node.name) == row:
                del self._row_of[before.node.name]
        if node is not None:
            self.columns.make_room(row)
            self.columns.known[row] = False
            self._rows[row] = _DeviceRow(node)
            self._row_of[node.name] = row

    def set_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Touched:
        """A slice is published, changed or withdrawn."""
        self.version += 1
        touched = Touched()
        if old is not None and (new is None or _place(old) != _place(new)):
            touched = self._withdraw(old)
        if new is not None:
            more = self._publish(new)
            if touched.rows is None or more.rows is None:
                return Touched(None)
            touched = Touched(tuple({*touched.rows, *more.rows}))
        return touched

    def set_claim(self, key: str, allocation: AllocationResult | None) -> Touched:
        """What a claim holds: watched, assumed or in flight; None if it holds nothing."""
        changed = self.allocated.set_claim(key, allocation)
        if not changed:
            return Touched()
        self.version += 1
        rows: set[int] = set()
        for pool_key, device in changed:
            pool = self._pools.get(pool_key)
            for view in () if pool is None else pool.views.values():
                self._use_changed(view, device, rows)
        self.columns.touch(list(rows))
        return Touched(tuple(rows))

    def rename_claim(self, key: str, other: str) -> None:
        """A claim that holds devices has another key from now on; no device changes."""
        self.allocated.pass_on(key, other)

    def _use_changed(self, view: PoolView, device: str, rows: set[int]) -> None:
        counted = device in view.consumption
        if counted:
            self._charge(view)
        for segment in view.segments:
            changed = self.arena.update(segment, view, device)
            if counted and self.arena.number_availability(segment):
                self.columns.left[list(segment.rows)] = segment.availability
                changed = True
            if changed:
                rows |= segment.rows

    def _charge(self, view: PoolView) -> None:
        """Subtract what allocated devices take of the counters of a view."""
        view.available = dict(view.counters)
        for device in self.allocated.of_pool(view.key):
            for counter, amount in view.consumption.get(device, ()):
                view.available[counter] -= amount

    # --- Slices -------------------------------------------------------------------------------

    def _publish(self, raw: ResourceSlice) -> Touched:
        published = publish(raw, self.shapes)
        pool = self._pools.get(published.key)
        if pool is None:
            pool = self._pools[published.key] = DevicePool(published.key)
        return self._replace(pool, published.name, published)

    def _withdraw(self, raw: ResourceSlice) -> Touched:
        pool = self._pools.get((raw.spec.driver, raw.spec.pool.name))
        if pool is None or raw.metadata.name not in pool:
            return Touched()
        return self._replace(pool, raw.metadata.name, None)

    def _replace(self, pool: DevicePool, name: str, new: PublishedSlice | None) -> Touched:
        """A slice of a pool is there, is different or is gone."""
        before = self._seers(pool)
        old = pool.replace(name, new)
        for device in () if old is None else old.devices:
            self.shapes.release(device.shape)
        self._note_seers(pool, {each.local_to for each in (old, new) if each is not None})
        after = self._seers(pool)
        if not pool:
            del self._pools[pool.key]
        if before is None or after is None:
            return self._touch(None)
        return self._touch(self._row_of[name] for name in before | after if name in self._row_of)

    def _seers(self, pool: DevicePool) -> set[str] | None:
        """The nodes that see a pool; None: any may, or so many that it does not matter who."""
        if pool.key in self._shared or pool.key in self._troubled:
            return None
        return set(pool.local) if len(pool.local) <= _MANY_SEERS else None

    def _note_seers(self, pool: DevicePool, named: Iterable[str | None]) -> None:
        """Have nodes find a pool of which a slice has changed that names some of them."""
        key = pool.key
        for node in named:
            if node is None:
                continue
            if node in pool.local:
                self._local.setdefault(node, set()).add(key)
            elif pools := self._local.get(node):
                pools.discard(key)
                if not pools:
                    del self._local[node]
        if pool.is_open:
            self._shared.add(key)
        else:
            self._shared.discard(key)
        self._troubled.pop(key, None)
        if pool.has_counters and not pool.is_open:
            self._look_for_trouble(pool)

    def _look_for_trouble(self, pool: DevicePool) -> None:
        view, _ = pool.seen_by(Node())
        if view is not None and view.status is not PoolStatus.USABLE:
            self._troubled[pool.key] = view

    def _touch(self, rows: Iterable[int] | None) -> Touched:
        touched = None if rows is None else tuple(rows)
        for row in tuple(self._looked) if touched is None else touched:
            self._leave(row, self._rows[row])
        return Touched(touched)

    def _leave(self, row: int, entry: _DeviceRow) -> None:
        segment = entry.segment
        if segment is not None:
            entry.segment = None
            self.columns.known[row] = False
            self._looked.discard(row)
            segment.rows.discard(row)
            if not segment.rows:
                self.arena.discard(segment)

    def renumber(self) -> bool:
        """Forget the numbers of all states, if most are of what was once; whether that was so.

        What was found by such numbers means nothing any more.
        """
        if not self.arena.crowded:
            return False
        self.version += 1
        self._touch(None)
        self.columns.known[:] = False
        self.arena = Arena(self.allocated)
        self._places = self.arena.moves
        return True

    # --- What a node sees ---------------------------------------------------------------------

    def segment(self, row: int) -> NodeSegment:
        """The devices that the node of a row sees; none if the node is gone."""
        entry = self._rows.get(row)
        if entry is None:
            self.columns.make_room(row)
            nothing = self.arena.segment(())
            self.columns.set(row, nothing)
            self.columns.touch([row])
            return nothing
        if entry.segment is None:
            entry.segment = self.arena.segment(self._views(entry.node))
            entry.segment.rows.add(row)
            self.columns.set(row, entry.segment)
            self.columns.touch([row])
            self._looked.add(row)
        return entry.segment

    def look(self, rows: NDArray[np.intp]) -> bool:
        """Have the segments of all rows; False if anything changed meanwhile."""
        version = self.version
        if len(rows):
            self.columns.make_room(int(rows.max()))
        for number, row in enumerate(rows[~self.columns.known[rows]].tolist()):
            self.segment(row)
            if not number % _CHECK_EVERY:
                checkpoint()
                if version != self.version:
                    return False
        self._follow_moves()
        return True

    def look_at(self, row: int) -> bool:
        """The same for one row."""
        self.columns.make_room(row)
        if not self.columns.known[row]:
            version = self.version
            self.segment(row)
            checkpoint()
            if version != self.version:
                return False
        self._follow_moves()
        return True

    def _follow_moves(self) -> None:
        """Note where segments are, if the arena has moved them."""
        if self._places == self.arena.moves:
            return
        self._places = self.arena.moves
        for row, entry in self._rows.items():
            if entry.segment is not None:
                self.columns.set(row, entry.segment)

    def _views(self, node: Node) -> tuple[PoolView, ...]:
        local = self._local.get(node.name, ())
        views = []
        for key in {*local, *self._shared}:
            view, new = self._pools[key].seen_by(node)
            if view is None:
                continue
            if new and view.counters:
                self._charge(view)
            if view.devices or view.status is not PoolStatus.USABLE:
                views.append(view)
        views.extend(view for key, view in self._troubled.items() if key not in local)
        views.sort(key=_order)
        return tuple(views)


def _place(raw: ResourceSlice) -> tuple[str, str, str]:
    """What a changed slice replaces at once: in between its pool would be incomplete."""
    return raw.spec.driver, raw.spec.pool.name, raw.metadata.name


def _order(view: PoolView) -> tuple[bool, str, str]:
    return view.order
