"""Hints: which cells would do for one resource. The Topology Manager makes one of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, Protocol

from sandbox.numa.demands import ContainerDemand, PodDemand


class CellHint(NamedTuple):
    """A set of cells as a bit mask (None: any), and whether it is as narrow as it could be."""

    mask: int | None
    preferred: bool


Hints = Mapping[str, Sequence[CellHint] | None]
"""Hints by resource: None has no preference, an empty list cannot be satisfied."""


class AllocationError(Exception):
    """A manager cannot give what was asked, and no hint had said so before."""

    reason = "UnexpectedAdmissionError"

    def __init__(self, message: str) -> None:
        super().__init__(f"Allocate failed due to {message}, which is unexpected")


class HintProvider(Protocol):
    """A resource manager of the kubelet."""

    def hints(self, pod: PodDemand, container: ContainerDemand) -> Hints:
        """Where this container's resources could come from."""
        ...

    def pod_hints(self, pod: PodDemand) -> Hints:
        """Where the resources of the whole pod could come from."""
        ...

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: CellHint) -> None:
        """Take the container's resources, from the hint's cells first; raises AllocationError."""
        ...

    def release(self, uid: str) -> None:
        """The pod is gone; unknown pods are fine."""
        ...


def masks(cells: Iterable[int]) -> Iterator[int]:
    """All non-empty sets of cells, the small ones first."""
    bits = [1 << cell for cell in cells]
    for size in range(1, len(bits) + 1):
        for chosen in combinations(bits, size):
            yield sum(chosen)


def cells_in(mask: int) -> list[int]:
    """The cells of a mask, ascending."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def preferring(found: Iterable[int], narrowest: int) -> list[CellHint]:
    """Hints for these masks; those of exactly the narrowest possible size are preferred."""
    return [CellHint(mask, mask.bit_count() == narrowest) for mask in found]
