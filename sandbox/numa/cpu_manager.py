"""The CPU manager with its static policy: whole CPUs for containers that ask for whole CPUs."""

from __future__ import annotations

from sandbox.numa.cpu_picking import NotEnoughCpus, take
from sandbox.numa.demands import ContainerDemand, PodDemand
from sandbox.numa.hints import AllocationError, CellHint, Hints, masks, preferring
from sandbox.numa.machine import Machine


class CpuManager:
    """Who has which CPUs.

    CPUs of an init container are offered to the containers after it, but whatever they leave stays
    with the pod until its end.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._free = set(machine.cpus) - machine.reserved
        self._assigned: dict[str, dict[str, frozenset[int]]] = {}
        self._reusable: dict[str, set[int]] = {}
        self._masks = list(masks(cell.id for cell in machine.cells))
        self._sizes = {cell.id: cell.cpus for cell in machine.cells}

    @property
    def free(self) -> frozenset[int]:
        """The CPUs that could be given away now."""
        return frozenset(self._free)

    def of(self, uid: str, container: str) -> frozenset[int]:
        """A container's own CPUs."""
        return self._assigned.get(uid, {}).get(container, frozenset())

    def hints(self, pod: PodDemand, container: ContainerDemand) -> Hints:
        if not container.cpus:
            return {}
        return {"cpu": self._hints(container.cpus, self._reusable.get(pod.uid, set()))}

    def pod_hints(self, pod: PodDemand) -> Hints:
        return {"cpu": self._hints(pod.cpus, set())} if pod.cpus else {}

    def _hints(self, wanted: int, reusable: set[int]) -> list[CellHint]:
        """All sets of cells with enough CPUs that contain every reusable one.

        How narrow a set could be is judged by all CPUs, reserved and taken ones included.
        """
        narrowest = len(self._machine.cells)
        free = self._count(self._free)
        again = self._count(reusable)
        must = sum(1 << cell for cell in again)
        found: list[int] = []
        for mask in self._masks:
            if mask.bit_count() < narrowest and self._within(mask, self._sizes) >= wanted:
                narrowest = mask.bit_count()
            if must & ~mask:
                continue
            if self._within(mask, free) + self._within(mask, again) >= wanted:
                found.append(mask)
        return preferring(found, narrowest)

    def _count(self, cpus: set[int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for number in cpus:
            cell = self._machine.cpus[number].cell
            counts[cell] = counts.get(cell, 0) + 1
        return counts

    @staticmethod
    def _within(mask: int, counts: dict[int, int]) -> int:
        return sum(count for cell, count in counts.items() if mask >> cell & 1)

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: CellHint) -> None:
        if not container.cpus:
            return
        reusable = self._reusable.setdefault(pod.uid, set())
        try:
            given = self._pick(container.cpus, self._free | reusable, hint.mask)
        except NotEnoughCpus as fault:
            raise AllocationError(str(fault)) from None
        self._free -= given
        self._assigned.setdefault(pod.uid, {})[container.name] = frozenset(given)
        if container.role == "init":
            reusable |= given
        else:
            reusable -= given

    def _pick(self, wanted: int, offered: set[int], mask: int | None) -> set[int]:
        """CPUs of the wanted cells first, the rest from anywhere."""
        cpus = self._machine.cpus
        aligned: set[int] = set()
        if mask is not None:
            near = {number for number in offered if mask >> cpus[number].cell & 1}
            aligned = take(cpus, near, min(wanted, len(near)))
        return aligned | take(cpus, offered - aligned, wanted - len(aligned))

    def release(self, uid: str) -> None:
        self._reusable.pop(uid, None)
        for given in self._assigned.pop(uid, {}).values():
            self._free |= given
