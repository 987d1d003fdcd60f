"""Sparse facts about rows: host ports and disks in use, claims in use, images present.

Most pods have none of the first three, and most rows have few images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from scheduler.model.nodes import Node
from scheduler.model.podinfo import ANY_PORT, HostPort
from scheduler.model.resources import MAX_AMOUNT
from scheduler.model.volumes import DiskUse, PodVolumes

ALL_ADDRESSES = "0.0.0.0"


class PortIndex:
    """Which rows use which host port, by (protocol, port) and then address."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Count a pod's ports on a row."""
        known = self._rows
        for port in ports:  # a pod may have thousands of ports, and few others use them
            key = port.protocol, port.port
            if key not in known:
                known[key] = {port.ip: {row: 1}}
                continue
            users = known[key].setdefault(port.ip, {})
            users[row] = users.get(row, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Take a pod's ports off a row."""
        for port in ports:
            addresses = self._rows[port.protocol, port.port]
            users = addresses[port.ip]
            users[row] -= 1
            if not users[row]:
                del users[row]
            if not users:
                del addresses[port.ip]
            if not addresses:
                del self._rows[port.protocol, port.port]

    def conflicts(self, wanted: HostPort) -> Iterator[int]:
        """Rows on which the port is taken; a row may come more than once."""
        addresses = self._rows.get((wanted.protocol, wanted.port), {})
        if wanted.ip == ALL_ADDRESSES:
            for users in addresses.values():
                yield from users
        else:
            yield from addresses.get(wanted.ip, ())
            yield from addresses.get(ALL_ADDRESSES, ())
        for users in self._rows.get((ANY_PORT.protocol, ANY_PORT.port), {}).values():
            yield from users


def ports_conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether two pods cannot share a node because of their host ports. O(ports of both)."""
    taken = PortIndex()
    taken.add(0, used)
    return any(True for want in wanted for _ in taken.conflicts(want))


class Image:
    """An image that some node reports: the rows that have it, and its size."""

    __slots__ = ("_largest", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        """The size that each row reports."""
        self._largest: int | None = None

    @property
    def size(self) -> int:
        """The largest that a row reports: the same whichever row came first."""
        if self._largest is None:
            self._largest = max(self.rows.values(), default=0)
        return self._largest

    def set(self, row: int, size: int) -> None:
        """A row has it, perhaps under several sizes."""
        self.rows[row] = max(size, self.rows.get(row, size))
        self._largest = None

    def discard(self, row: int) -> None:
        """A row does not have it."""
        self.rows.pop(row, None)
        self._largest = None


class ImageIndex:
    """Which rows have which image, by its full name."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}

    def get(self, name: str) -> Image | None:
        """The image of this name, if any node has it."""
        return self._images.get(name)

    def set(self, row: int, old: Node | None, new: Node | None) -> None:
        """Replace what a row reports; None stands for nothing."""
        if old is not None and new is not None and old.status.images == new.status.images:
            return
        for name, _ in _images(old):
            image = self._images.get(name)
            if image is not None:
                image.discard(row)
                if not image.rows:
                    del self._images[name]
        for name, size in _images(new):
            self._images.setdefault(name, Image()).set(row, min(size, MAX_AMOUNT))


def _images(node: Node | None) -> Iterator[tuple[str, int]]:
    if node is not None:
        for image in node.status.images:
            for name in image.names or ():
                yield name, image.size_bytes


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
        users = self._disks.get(disk.identity)
        if users is None:
            return
        writers, readers = users
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
