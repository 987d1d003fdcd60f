"""Entries, encoded many at a time.

One call for many entries costs a third of as many calls: amid the work of a scheduler each call
finds its own code and buffers pushed out of the caches of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.recording.entries import RecordedEntry

_FAULTS = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding raises for what MessagePack cannot hold."""
_ARRAY = b"\xdd"
"""How MessagePack begins an array whose length has four bytes."""
_SHORT, _MEDIUM = 1 << 4, 1 << 16
"""Arrays of fewer entries begin with one byte, and with three."""


class EntryBlock:
    """Encoded entries that are written together."""

    __slots__ = ("_pieces", "entries", "size")

    def __init__(self) -> None:
        self._pieces: list[bytearray] = []
        self.entries = 0
        self.size = 0
        """In bytes."""

    def append(self, piece: bytearray, entries: int) -> None:
        """Add so many encoded entries, one after the other."""
        self._pieces.append(piece)
        self.entries += entries
        self.size += len(piece)

    def content(self) -> bytes:
        """All entries as one array."""
        return b"".join((_ARRAY, self.entries.to_bytes(4, "big"), *self._pieces))


class EntryEncoder:
    """Encodes entries into blocks. Belongs to one thread."""

    def __init__(self) -> None:
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray()
        """Used again and again: a block that grew in place would be copied several times."""

    def encode(self, entries: Sequence[RecordedEntry], block: EntryBlock) -> int:
        """Add entries to a block; returns how many are left out, as MessagePack cannot hold them.

        The entries are a list or a tuple of fewer than 65,536.
        """
        count, buffer = len(entries), self._buffer
        assert count < _MEDIUM, "the head of the array would be longer"
        try:
            self._encode_into(entries, buffer)
        except _FAULTS:
            if count == 1:
                return 1
            return sum(self.encode((each,), block) for each in entries)
        block.append(buffer[1 if count < _SHORT else 3 :], count)
        return 0
