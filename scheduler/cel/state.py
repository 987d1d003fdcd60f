"""What the closures of a compiled expression share while it is evaluated for one device."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.errors import CostLimitExceeded
from scheduler.cel.limits import COST_LIMIT
from scheduler.cel.values import TextMap, Value
from scheduler.slices import checkpoint

_PACE = 4096

Domains = dict[str, dict[str, Value]]


class DeviceBindings:
    """The variable `device`: its parts as dictionaries, and as the map that expressions see."""

    __slots__ = ("attributes", "capacity", "device", "driver", "shared")

    def __init__(
        self, driver: str, attributes: Domains, capacity: Domains, device: TextMap, shared: bool
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.device = device
        self.shared = shared


class State:
    """Bindings, variables and the cost so far. `limit` stops what costs too much."""

    __slots__ = ("_pause", "attributes", "capacity", "cost", "device", "driver", "shared", "slots")

    def __init__(self, bindings: DeviceBindings, slots: int = 0) -> None:
        self.attributes = bindings.attributes
        self.capacity = bindings.capacity
        self.device = bindings.device
        self.driver = bindings.driver
        self.shared = bindings.shared
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self._pause = _PACE

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self._pause:
            if self.cost > COST_LIMIT:
                raise CostLimitExceeded
            self._pause = self.cost + _PACE
            checkpoint()


Closure = Callable[[State], Value]
