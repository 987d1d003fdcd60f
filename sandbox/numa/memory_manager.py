"""The memory manager with its Static policy: memory of Guaranteed pods comes from few cells.

A cell serves either containers that fit into it alone, or one group of cells; never both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sandbox.numa.demands import ContainerDemand, PodDemand
from sandbox.numa.hints import (
    AllocationError,
    CellHint,
    Hints,
    cells_in,
    masks,
    preferring,
)
from sandbox.numa.machine import Machine


class _CellMemory(msgspec.Struct):
    allocatable: dict[str, int]
    free: dict[str, int]
    group: int
    """The mask of cells that serve together with this one."""
    blocks: int = 0


class _Block(msgspec.Struct):
    """Memory of one kind for one container, somewhere in the cells of a mask."""

    mask: int
    name: str
    size: int


class MemoryManager:
    """Whose memory comes from which cells."""

    def __init__(self, machine: Machine) -> None:
        self._cells = {
            cell.id: _CellMemory(machine.memory_of(cell), machine.memory_of(cell), 1 << cell.id)
            for cell in machine.cells
        }
        self._masks = list(masks(self._cells))
        self._blocks: dict[str, dict[str, list[_Block]]] = {}
        self._reusable: dict[tuple[str, int, str], int] = {}
        self._init: dict[str, list[str]] = {}

    def free(self, cell: int) -> dict[str, int]:
        """What could be given away of a cell now."""
        return dict(self._cells[cell].free)

    def of(self, uid: str, container: str) -> list[tuple[int, str, int]]:
        """A container's memory: (mask, kind, bytes)."""
        found = self._blocks.get(uid, {}).get(container, ())
        return [(block.mask, block.name, block.size) for block in found]

    def hints(self, pod: PodDemand, container: ContainerDemand) -> Hints:
        return self._hints(pod.uid, container.memory)

    def pod_hints(self, pod: PodDemand) -> Hints:
        return self._hints(pod.uid, pod.memory)

    def _hints(self, uid: str, wanted: Mapping[str, int]) -> Hints:
        """Equal hints for every kind of memory; if none is possible, no preference at all.

        The latter is the kubelet's: such a pod gets past the Topology Manager if CPUs and devices
        let it, and then fails to be given its memory.
        """
        found = self._possible(uid, wanted) if wanted else []
        return dict.fromkeys(wanted, found) if found else {}

    def _possible(self, uid: str, wanted: Mapping[str, int]) -> list[CellHint]:
        narrowest = len(self._cells)
        found: list[int] = []
        for mask in self._masks:
            if any(self._allocatable(mask, name) < size for name, size in wanted.items()):
                continue
            narrowest = min(narrowest, mask.bit_count())
            if not self._fits_group(mask):
                continue
            if all(
                self._free(mask, name) + self._reusable.get((uid, mask, name), 0) >= size
                for name, size in wanted.items()
            ):
                found.append(mask)
        return preferring(found, narrowest)

    def _fits_group(self, mask: int) -> bool:
        cells = [self._cells[cell] for cell in cells_in(mask)]
        if len(cells) == 1:
            return cells[0].group.bit_count() == 1
        return all(not cell.blocks or cell.group == mask for cell in cells)

    def _allocatable(self, mask: int, name: str) -> int:
        return sum(self._cells[cell].allocatable.get(name, 0) for cell in cells_in(mask))

    def _free(self, mask: int, name: str) -> int:
        return sum(self._cells[cell].free.get(name, 0) for cell in cells_in(mask))

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: CellHint) -> None:
        wanted = container.memory
        if not wanted:
            return
        mask = self._choose(pod.uid, wanted, hint)
        given: list[_Block] = []
        for name, size in wanted.items():
            given.append(_Block(mask, name, size))
            again = self._reusable.get((pod.uid, mask, name), 0)
            self._charge(mask, name, max(0, size - again))
            self._note_reuse(pod, container, given[-1], again)
        mine = self._blocks.setdefault(pod.uid, {})
        mine[container.name] = given
        self._shrink_init(pod, container, given)

    def _choose(self, uid: str, wanted: Mapping[str, int], hint: CellHint) -> int:
        """The hint's cells, or if they do not suffice the best larger set around them."""
        mask, preferred = hint
        if mask is None:
            best = _best(self._possible(uid, wanted))
            if best is None:
                raise AllocationError(
                    "[memorymanager] failed to get the default NUMA affinity, "
                    "no NUMA nodes with enough memory is available"
                )
            if preferred and not best.preferred:
                raise AllocationError("[memorymanager] failed to find the default preferred hint")
            mask = best.mask
        assert mask is not None, "the memory manager's own hints name cells"
        if any(self._free(mask, name) < size for name, size in wanted.items()):
            around = [h for h in self._possible(uid, wanted) if h.mask and not mask & ~h.mask]
            best = _best(around)
            if best is None:
                raise AllocationError(
                    "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
                )
            if preferred and not best.preferred:
                raise AllocationError("[memorymanager] failed to find the extended preferred hint")
            mask = best.mask or mask
        if mask.bit_count() > 1 and not self._fits_group(mask):
            raise AllocationError("[memorymanager] preferred hint violates NUMA node allocation")
        return mask

    def _charge(self, mask: int, name: str, size: int) -> None:
        for number in cells_in(mask):
            cell = self._cells[number]
            cell.blocks += 1
            cell.group = mask
            taken = min(size, cell.free.get(name, 0))
            if taken:
                cell.free[name] -= taken
                size -= taken

    def _note_reuse(
        self, pod: PodDemand, container: ContainerDemand, block: _Block, again: int
    ) -> None:
        key = (pod.uid, block.mask, block.name)
        if container.role == "init":
            self._reusable[key] = max(again, block.size)
        elif again:
            self._reusable[key] = max(0, again - block.size)

    def _shrink_init(
        self, pod: PodDemand, container: ContainerDemand, given: Sequence[_Block]
    ) -> None:
        """Take what was reused off the init containers before, so that it is released once."""
        before = []
        for each in pod.containers:
            if each.name == container.name:
                break
            if each.role == "init":
                before.append(each.name)
        mine = self._blocks[pod.uid]
        for block in given:
            left = block.size
            for old in (old for name in before for old in mine.get(name, ())):
                if old.mask == block.mask and old.name == block.name:
                    reused = min(left, old.size)
                    old.size -= reused
                    left -= reused
        self._init[pod.uid] = before

    def started(self, uid: str) -> None:
        """Init containers are done: their memory is for others."""
        for name in self._init.pop(uid, ()):
            self._release(self._blocks.get(uid, {}).pop(name, []))

    def release(self, uid: str) -> None:
        self._init.pop(uid, None)
        for blocks in self._blocks.pop(uid, {}).values():
            self._release(blocks)
        self._reusable = {key: size for key, size in self._reusable.items() if key[0] != uid}

    def _release(self, blocks: Sequence[_Block]) -> None:
        for block in blocks:
            left = block.size
            for number in cells_in(block.mask):
                cell = self._cells[number]
                cell.blocks -= 1
                if not cell.blocks:
                    cell.group = 1 << number
                given = min(
                    left, cell.allocatable.get(block.name, 0) - cell.free.get(block.name, 0)
                )
                if given:
                    cell.free[block.name] += given
                    left -= given


def _best(hints: Sequence[CellHint]) -> CellHint | None:
    """Preferred before others, then the narrowest, then the lowest."""

    def rank(hint: CellHint) -> tuple[bool, int, int]:
        mask = hint.mask or 0
        return not hint.preferred, mask.bit_count(), mask

    return min(hints, key=rank, default=None)
