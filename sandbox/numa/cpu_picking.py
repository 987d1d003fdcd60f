"""Which CPUs a container gets: whole cells, then whole cores, then single threads, packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Cpu(NamedTuple):
    """A logical CPU and where it sits."""

    id: int
    core: int
    cell: int


class NotEnoughCpus(Exception):
    """Fewer CPUs are free than wanted."""


def take(cpus: Mapping[int, Cpu], free: set[int], wanted: int) -> set[int]:
    """Choose ``wanted`` of the free CPUs; raises ``NotEnoughCpus``.

    ``cpus`` are all of the machine: whether a cell or a core is whole is judged by them.
    """
    if wanted > len(free):
        raise NotEnoughCpus(
            "not enough cpus available to satisfy request: "
            f"requested={wanted}, available={len(free)}"
        )
    picking = _Picking(cpus, set(free), wanted)
    picking.take_whole(lambda cpu: cpu.cell)
    picking.take_whole(lambda cpu: cpu.core)
    picking.take_single()
    return picking.taken


class _Picking:
    """One choice under way."""

    def __init__(self, cpus: Mapping[int, Cpu], free: set[int], wanted: int) -> None:
        self._cpus = cpus
        self._free = free
        self._wanted = wanted
        self.taken: set[int] = set()

    def take_whole(self, group_of: Callable[[Cpu], int]) -> None:
        """Take groups of which every CPU is free, the fullest first, while they are needed."""
        sizes: dict[int, int] = {}
        for cpu in self._cpus.values():
            sizes[group_of(cpu)] = sizes.get(group_of(cpu), 0) + 1
        groups: dict[int, list[int]] = {}
        for number in self._in_order():
            groups.setdefault(group_of(self._cpus[number]), []).append(number)
        for group, members in groups.items():
            if len(members) == sizes[group] <= self._wanted:
                self._take(members)

    def take_single(self) -> None:
        """Take what is still needed, from cores that are broken already."""
        self._take(self._in_order()[: self._wanted])

    def _take(self, numbers: list[int]) -> None:
        self.taken.update(numbers)
        self._free.difference_update(numbers)
        self._wanted -= len(numbers)

    def _in_order(self) -> list[int]:
        """Free CPUs: cells with the fewest free ones first, within them cores likewise, then id."""
        in_cell: dict[int, int] = {}
        in_core: dict[int, int] = {}
        for number in self._free:
            cpu = self._cpus[number]
            in_cell[cpu.cell] = in_cell.get(cpu.cell, 0) + 1
            in_core[cpu.core] = in_core.get(cpu.core, 0) + 1

        def rank(number: int) -> tuple[int, ...]:
            cpu = self._cpus[number]
            return in_cell[cpu.cell], cpu.cell, in_core[cpu.core], cpu.core, number

        return sorted(self._free, key=rank)
