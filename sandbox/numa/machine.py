"""A machine with NUMA cells: CPUs, memory and devices, and what of them is kept from pods."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from sandbox.numa.cpu_picking import Cpu, take

_MAX_CELLS = 8
"""As many as the Topology Manager takes; it looks at all sets of them."""
_MAX_ID = 63


class MachineError(ValueError):
    """A machine that cannot exist; the message names the field."""


class MachineCell(msgspec.Struct, frozen=True):
    """A NUMA cell: logical CPUs, bytes of memory, bytes of huge pages and counts of devices."""

    id: int
    cpus: int
    memory: int
    hugepages: dict[str, int] = {}
    """By resource name, such as ``hugepages-2Mi``; they come on top of ``memory``."""
    devices: dict[str, int] = {}


class Machine(msgspec.Struct, frozen=True, dict=True):
    """What a kubelet finds when it starts; every cell is a socket of its own."""

    cells: tuple[MachineCell, ...]
    threads_per_core: int = 1
    reserved_cpus: int = 1
    """Kept for the system, taken from the lowest cores; the static CPU policy demands some."""
    reserved_memory: int = 0
    """Bytes kept for the system in the first cell."""
    loose_devices: dict[str, int] = {}
    """Devices whose plugin says nothing about cells."""
    max_pods: int = 110

    def __post_init__(self) -> None:
        ids = [cell.id for cell in self.cells]
        if not ids or sorted(set(ids)) != ids:
            raise MachineError(f"cells: ids must be distinct and ascending: {ids}")
        if len(ids) > _MAX_CELLS:
            raise MachineError(f"cells: at most {_MAX_CELLS} are supported, not {len(ids)}")
        if ids[0] < 0 or ids[-1] > _MAX_ID:
            raise MachineError(f"cells: ids must be within 0..{_MAX_ID}: {ids}")
        if self.threads_per_core < 1 or any(c.cpus % self.threads_per_core for c in self.cells):
            raise MachineError("threadsPerCore: does not divide the CPUs of every cell")
        if not 1 <= self.reserved_cpus <= len(self.cpus):
            raise MachineError("reservedCpus: the static CPU policy needs at least one")
        if not 0 <= self.reserved_memory <= self.cells[0].memory:
            raise MachineError("reservedMemory: more than the first cell has")

    @cached_property
    def everything(self) -> int:
        """The mask of all cells."""
        return sum(1 << cell.id for cell in self.cells)

    @cached_property
    def cpus(self) -> Mapping[int, Cpu]:
        """All logical CPUs; threads of one core are numbered a core count apart, as on Linux."""
        cores = sum(cell.cpus for cell in self.cells) // self.threads_per_core
        found: dict[int, Cpu] = {}
        core = 0
        for cell in self.cells:
            for _ in range(cell.cpus // self.threads_per_core):
                for thread in range(self.threads_per_core):
                    number = core + thread * cores
                    found[number] = Cpu(number, core, cell.id)
                core += 1
        return found

    @cached_property
    def reserved(self) -> frozenset[int]:
        """The CPUs that are never given to a container exclusively."""
        return frozenset(take(self.cpus, set(self.cpus), self.reserved_cpus))

    def memory_of(self, cell: MachineCell) -> dict[str, int]:
        """Allocatable memory and huge pages of a cell."""
        kept = self.reserved_memory if cell is self.cells[0] else 0
        return {"memory": cell.memory - kept, **cell.hugepages}

    def cpus_of(self, cell: MachineCell) -> frozenset[int]:
        """Allocatable CPUs of a cell."""
        mine = (cpu.id for cpu in self.cpus.values() if cpu.cell == cell.id)
        return frozenset(mine) - self.reserved

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """What the node offers to pods: whole CPUs, bytes and counts."""
        total = {"cpu": len(self.cpus) - len(self.reserved), "pods": self.max_pods}
        for cell in self.cells:
            for amounts in (self.memory_of(cell), cell.devices):
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
        for name, count in self.loose_devices.items():
            total[name] = total.get(name, 0) + count
        return total

    def node(self, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The Node object that a kubelet on this machine registers."""
        amounts = {name: str(amount) for name, amount in self.allocatable.items()}
        capacity = dict(amounts)
        capacity["cpu"] = str(len(self.cpus))
        capacity["memory"] = str(sum(cell.memory for cell in self.cells))
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            },
            "spec": {},
            "status": {"capacity": capacity, "allocatable": amounts},
        }


def uniform(
    cells: int, cpus: int, memory: int, devices: Mapping[str, int] | None = None, **more: Any
) -> Machine:
    """A machine of equal cells, numbered from 0."""
    each = dict(devices or {})
    return Machine(tuple(MachineCell(i, cpus, memory, devices=each) for i in range(cells)), **more)
