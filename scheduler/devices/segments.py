"""Segments: the devices that a node sees, in the order in which they are tried, as columns.

All segments lie in one arena of two columns, the shape and the state of each device. So one gather
says for every device of the cluster what a demand thinks of it. Nodes that see the same views
share a segment; a node with devices of its own has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.devices.allocated import Allocated, Taken, Use
from scheduler.devices.pools import PoolStatus, PoolView, PublishedDevice

_FIRST = 1024
MANY_NUMBERS = 16_384
"""So many may be of what was once."""


class DeviceState(NamedTuple):
    """What of a device is in use; interned, so a column holds its number."""

    exclusive: bool = False
    elsewhere: bool = False
    """The pool is this node's, the device is not."""
    taken: Taken | None = None


class StateTable:
    """States of devices by number; 0 is a device that is free."""

    def __init__(self) -> None:
        self.states: list[DeviceState] = [DeviceState()]
        self._numbers: dict[DeviceState, int] = {self.states[0]: 0}

    def number(self, state: DeviceState) -> int:
        """The number of a state."""
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
        return number


@dataclass(eq=False, slots=True)
class NodeSegment:
    """The devices that some nodes see."""

    views: tuple[PoolView, ...]
    offsets: tuple[int, ...]
    length: int
    layout: int
    """Number of what the views are like: their status, and how many devices each has."""
    start: int = 0
    availability: int = 0
    """Number of what is left of all counters."""
    rows: set[int] = field(default_factory=set)

    @property
    def stop(self) -> int:
        """Where the next segment may start."""
        return self.start + self.length

    def device(self, position: int) -> tuple[PoolView, PublishedDevice]:
        """The device at a position."""
        view = self.view_at(position)
        return self.views[view], self.views[view].devices[position - self.offsets[view]]

    def view_at(self, position: int) -> int:
        """Which view a position belongs to."""
        at = len(self.offsets) - 1
        while self.offsets[at] > position:
            at -= 1
        return at


class Arena:
    """All segments, in two columns."""

    def __init__(self, allocated: Allocated) -> None:
        self._allocated = allocated
        self.states = StateTable()
        self.shape: NDArray[np.int32] = np.zeros(_FIRST, dtype=np.int32)
        self.state: NDArray[np.int32] = np.zeros(_FIRST, dtype=np.int32)
        self._segments: dict[tuple[PoolView, ...], NodeSegment] = {}
        self._numbers: dict[object, int] = {}
        self.moves = 0
        """How often segments were moved."""
        self._stop = 0
        self._live = 0

    @property
    def stop(self) -> int:
        """How much of the columns is in use."""
        return self._stop

    @property
    def numbers(self) -> int:
        """How many states, layouts and amounts of counters have got a number."""
        return len(self.states.states) + len(self._numbers)

    @property
    def crowded(self) -> bool:
        """Whether most numbers are of what was once: authors of claims choose shares of devices."""
        in_use = self._live + 2 * len(self._segments)
        return self.numbers > MANY_NUMBERS + 2 * in_use

    def segment(self, views: tuple[PoolView, ...]) -> NodeSegment:
        """The segment that shows some views."""
        segment = self._segments.get(views)
        return self._new(views) if segment is None else segment

    def discard(self, segment: NodeSegment) -> None:
        """Nobody sees the segment any more."""
        if self._segments.pop(segment.views, None) is None:
            return
        for view in segment.views:
            view.segments.discard(segment)
        self._live -= segment.length
        if self._stop > 2 * self._live + _FIRST:
            self._compact()

    def update(self, segment: NodeSegment, view: PoolView, device: str) -> bool:
        """The use of a device has changed; whether that shows."""
        position = view.positions.get(device)
        if position is None:
            return False
        changed = False
        use = self._allocated.of_pool(view.key).get(device)
        for at, other in enumerate(segment.views):
            if other is view:
                slot = segment.start + segment.offsets[at] + position
                state = self._state(view, position, use)
                if self.state[slot] != state:
                    self.state[slot] = state
                    changed = True
        return changed

    def number_availability(self, segment: NodeSegment) -> bool:
        """Counters of some view may have changed; whether they have."""
        if not any(view.counters for view in segment.views):
            return False
        left = tuple(tuple(sorted(view.available.items())) for view in segment.views)
        before, segment.availability = segment.availability, self._number(("left", left))
        return segment.availability != before

    def _new(self, views: tuple[PoolView, ...]) -> NodeSegment:
        offsets, length = [], 0
        for view in views:
            offsets.append(length)
            length += len(view.devices)
        layout = tuple((view.status, len(view.devices), bool(view.counters)) for view in views)
        segment = NodeSegment(views, tuple(offsets), length, self._number(("layout", layout)))
        self._segments[views] = segment
        for view in views:
            view.segments.add(segment)
        self._place(segment)
        self._live += length
        self._fill(segment)
        self.number_availability(segment)
        return segment

    def _place(self, segment: NodeSegment) -> None:
        segment.start = self._stop
        self._stop += segment.length
        if self._stop > len(self.shape):
            self.shape = _grown(self.shape, self._stop)
            self.state = _grown(self.state, self._stop)

    def _fill(self, segment: NodeSegment) -> None:
        slot = segment.start
        for view in segment.views:
            uses = self._allocated.of_pool(view.key)
            plain = not uses and view.here is None
            for position, device in enumerate(view.devices):
                self.shape[slot] = device.shape.number
                self.state[slot] = (
                    0 if plain else self._state(view, position, uses.get(device.name))
                )
                slot += 1

    def _state(self, view: PoolView, position: int, use: Use | None) -> int:
        elsewhere = view.here is not None and not view.here[position]
        if use is None and not elsewhere:
            return 0
        exclusive, taken = (False, None) if use is None else use.state
        return self.states.number(DeviceState(exclusive, elsewhere, taken))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _compact(self) -> None:
        old_shape, old_state = self.shape, self.state
        self.shape, self.state = np.empty_like(old_shape), np.empty_like(old_state)
        self.moves += 1
        self._stop = 0
        for segment in self._segments.values():
            here = slice(segment.start, segment.stop)
            segment.start = self._stop
            self._stop += segment.length
            self.shape[segment.start : segment.stop] = old_shape[here]
            self.state[segment.start : segment.stop] = old_state[here]


def _grown(column: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    grown = np.zeros(2 * size, dtype=np.int32)
    grown[: len(column)] = column
    return grown


def usable(views: Sequence[PoolView]) -> bool:
    """Whether no view stops requests for all devices."""
    return all(view.status is PoolStatus.USABLE for view in views)
