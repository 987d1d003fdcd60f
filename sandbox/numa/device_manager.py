"""The device manager: devices that sit in cells, and some that do not say where they sit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sandbox.numa.demands import ContainerDemand, PodDemand
from sandbox.numa.hints import AllocationError, CellHint, Hints, masks, preferring
from sandbox.numa.machine import Machine


class Device(NamedTuple):
    """One device; ``cell`` is None if its plugin says nothing about cells."""

    name: str
    number: int
    cell: int | None


class DeviceManager:
    """Who has which devices. As with CPUs, what init containers leave stays with the pod."""

    def __init__(self, machine: Machine) -> None:
        self._all: dict[str, list[Device]] = {}
        for cell in machine.cells:
            for name, count in cell.devices.items():
                self._add(name, count, cell.id)
        for name, count in machine.loose_devices.items():
            self._add(name, count, None)
        self._free = {name: set(devices) for name, devices in self._all.items()}
        self._assigned: dict[str, dict[str, set[Device]]] = {}
        self._reusable: dict[str, set[Device]] = {}

    def _add(self, name: str, count: int, cell: int | None) -> None:
        known = self._all.setdefault(name, [])
        known.extend(Device(name, len(known) + i, cell) for i in range(count))

    def of(self, uid: str, container: str) -> set[Device]:
        """A container's devices."""
        return self._assigned.get(uid, {}).get(container, set())

    def free(self, cell: int | None) -> dict[str, int]:
        """How many devices of each name could be given away in a cell now."""
        return {
            name: sum(device.cell == cell for device in self._free[name])
            for name, devices in self._all.items()
            if any(device.cell == cell for device in devices)
        }

    def hints(self, pod: PodDemand, container: ContainerDemand) -> Hints:
        return self._hints(container.devices, self._reusable.get(pod.uid, set()))

    def pod_hints(self, pod: PodDemand) -> Hints:
        return self._hints(pod.devices, set())

    def _hints(self, wanted: Mapping[str, int], reusable: set[Device]) -> Hints:
        return {
            name: self._places(name, count, {d for d in reusable if d.name == name})
            for name, count in wanted.items()
            if name in self._all
        }

    def _places(self, name: str, wanted: int, reusable: set[Device]) -> list[CellHint] | None:
        cells = sorted({d.cell for d in self._all[name] if d.cell is not None})
        if not cells:
            return None
        if len(self._free[name] | reusable) < wanted:
            return []
        narrowest = len(cells)
        must = {device.cell for device in reusable if device.cell is not None}
        found: list[int] = []
        for mask in masks(cells):
            if mask.bit_count() < narrowest and _within(mask, set(self._all[name])) >= wanted:
                narrowest = mask.bit_count()
            if all(mask >> cell & 1 for cell in must) and (
                _within(mask, self._free[name] | reusable) >= wanted
            ):
                found.append(mask)
        return preferring(found, narrowest)

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: CellHint) -> None:
        reusable = self._reusable.setdefault(pod.uid, set())
        given: set[Device] = set()
        for name, count in container.devices.items():
            if name in self._all and count:
                given |= self._pick(name, count, reusable, hint.mask)
        if not given:
            return
        for device in given:
            self._free[device.name].discard(device)
        self._assigned.setdefault(pod.uid, {})[container.name] = given
        if container.role == "init":
            reusable |= given
        else:
            reusable -= given

    def _pick(self, name: str, wanted: int, reusable: set[Device], mask: int | None) -> set[Device]:
        """Those of init containers first, then those in the wanted cells, then any."""
        offered = sorted(device for device in reusable if device.name == name)
        free = self._free[name]
        if wanted - len(offered) > len(free):
            raise AllocationError(
                f"requested number of devices unavailable for {name}. "
                f"Requested: {wanted - len(offered)}, Available: {len(free)}"
            )

        def rank(device: Device) -> tuple[bool, int]:
            near = mask is None or (device.cell is not None and bool(mask >> device.cell & 1))
            return not near, device.number

        offered.extend(sorted(free - reusable, key=rank))
        return set(offered[:wanted])

    def release(self, uid: str) -> None:
        self._reusable.pop(uid, None)
        for given in self._assigned.pop(uid, {}).values():
            for device in given:
                self._free[device.name].add(device)


def _within(mask: int, devices: set[Device]) -> int:
    return sum(device.cell is not None and mask >> device.cell & 1 for device in devices)
