"""What claims hold: devices in use, shares of them and the capacity that shares take.

Kept by claim, watched or in flight alike, so a change costs what the claim holds and nothing else.
A device that two claims hold, by whatever mistake, is in use until both give it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.devices.capacity import amount_of
from scheduler.devices.pools import PoolKey
from scheduler.model.devices import AllocationResult, DeviceResult
from scheduler.model.quantity import QuantityError

DeviceKey = tuple[PoolKey, str]
Taken = tuple[tuple[str, int], ...]
"""What shares take of capacities, sorted by name."""


@dataclass(eq=False, slots=True)
class Use:
    """How one device is in use."""

    exclusive: int = 0
    shares: int = 0
    recorded: int = 0
    """Shares that say what they take."""
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> tuple[bool, Taken | None]:
        """Whether it is in use as a whole, and what shares take of it."""
        taken = tuple(sorted(self.taken.items())) if self.recorded else None
        return self.exclusive > 0, taken


class Allocated:
    """Devices that claims hold."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[DeviceResult, ...]] = {}
        self._pools: dict[PoolKey, dict[str, Use]] = {}

    def set_claim(self, key: str, allocation: AllocationResult | None) -> list[DeviceKey]:
        """What a claim holds from now on, None for nothing; returns the devices concerned."""
        old = self._claims.pop(key, ())
        new = () if allocation is None else allocation.devices.results
        if old == new:
            if new:
                self._claims[key] = new
            return []
        changed: dict[DeviceKey, None] = {}
        for result in old:
            self._count(result, -1, changed)
        for result in new:
            self._count(result, 1, changed)
        if new:
            self._claims[key] = new
        return list(changed)

    def pass_on(self, key: str, other: str) -> None:
        """What a claim holds is another's from now on, which holds nothing yet."""
        held = self._claims.pop(key, ())
        if held:
            self._claims[other] = held

    def holds(self, key: str) -> bool:
        """Whether a claim holds devices."""
        return key in self._claims

    def of_pool(self, key: PoolKey) -> dict[str, Use]:
        """The devices of a pool that are in use in any way."""
        return self._pools.get(key, {})

    def _count(self, result: DeviceResult, sign: int, changed: dict[DeviceKey, None]) -> None:
        if result.admin_access:
            return
        pool = (result.driver, result.pool)
        uses = self._pools.setdefault(pool, {})
        use = uses.setdefault(result.device, Use())
        changed[pool, result.device] = None
        if result.share_id is None:
            use.exclusive += sign
        else:
            _share(use, result, sign)
        if not (use.exclusive or use.shares):
            del uses[result.device]
            if not uses:
                del self._pools[pool]


def _share(use: Use, result: DeviceResult, sign: int) -> None:
    use.shares += sign
    if not result.consumed_capacity:
        return
    try:
        amounts = {name: amount_of(raw).nanos for name, raw in result.consumed_capacity.items()}
    except QuantityError:  # what is left of it is unknown
        use.exclusive += sign
        return
    use.recorded += sign
    for name, nanos in amounts.items():
        total = use.taken.get(name, 0) + sign * nanos
        use.taken[name] = total
    if not use.recorded:
        use.taken.clear()


def devices_of(results: Iterable[DeviceResult]) -> list[DeviceKey]:
    """The devices that results name."""
    return [((result.driver, result.pool), result.device) for result in results]
