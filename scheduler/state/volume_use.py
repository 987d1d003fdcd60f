"""Which pods' claims and disks are where. Most pods have neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from scheduler.model.volumes import DiskUse, PodVolumes


class VolumeUse:
    """Users of claims in the whole cluster, and of disks by row."""

    def __init__(self) -> None:
        self._claims: Counter[str] = Counter()
        self._disks: dict[tuple[str, ...], tuple[Counter[int], Counter[int]]] = {}
        """By identity: how many pods write to it on each row, and how many only read."""

    def add(self, row: int, volumes: PodVolumes) -> None:
        """Count a pod's volumes on a row."""
        self._claims.update(claim.key for claim in volumes.claims if not claim.ephemeral)
        for disk in volumes.disks:
            users = self._disks.setdefault(disk.identity, (Counter(), Counter()))
            users[disk.read_only][row] += 1

    def remove(self, row: int, volumes: PodVolumes) -> None:
        """Take a pod's volumes off a row."""
        for claim in volumes.claims:
            if not claim.ephemeral:
                self._claims[claim.key] -= 1
                if not self._claims[claim.key]:
                    del self._claims[claim.key]
        for disk in volumes.disks:
            users = self._disks[disk.identity]
            users[disk.read_only][row] -= 1
            if not users[disk.read_only][row]:
                del users[disk.read_only][row]
            if not any(users):
                del self._disks[disk.identity]

    def claimed(self, key: str) -> bool:
        """Whether some pod on a node uses the claim."""
        return key in self._claims

    def conflicts(self, disk: DiskUse) -> Iterator[int]:
        """Rows on which the disk is used in a way that excludes this use."""
        writers, readers = self._disks.get(disk.identity, (Counter(), Counter()))
        yield from writers
        if not disk.read_only:
            yield from readers


def disks_conflict(wanted: Iterable[DiskUse], used: Iterable[DiskUse]) -> bool:
    """Whether two pods cannot share a node because of their disks. O(disks of both)."""
    read: set[tuple[str, ...]] = set()
    written: set[tuple[str, ...]] = set()
    for have in used:
        (read if have.read_only else written).add(have.identity)
    return any(
        want.identity in written or (not want.read_only and want.identity in read)
        for want in wanted
    )
