"""Files of recordings: read as far as they are whole, or refused with a message."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from scheduler.model.objects import KINDS
from scheduler.recording.compression import zstd
from scheduler.recording.entries import (
    FORMAT,
    Changed,
    Complete,
    Header,
    Held,
    Known,
    PodAdded,
    PodChanged,
    PodPlaced,
    PodUpdated,
    RecordedEntry,
)
from scheduler.recording.reader import UnreadableRecording, as_object, segments
from tests.fuzz.drawing import draw_object, kinds
from tests.fuzz.mutating import ANY, copied, mutate_bytes, places
from tests.fuzz.target import Input, as_bytes


class Recordings:
    """Reads one segment, and the objects in it."""

    name = "recordings"
    what = "files of recordings: read as far as they are whole, or refused with a message"
    share = 50

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "segment-00000001.eqr"
        self._encoder = msgspec.msgpack.Encoder()

    def draw(self, rng: Random) -> Input:
        """Blocks of entries: with odd values, cut, garbled, or with sums that do not fit."""
        blocks: list[Any] = [[Header(FORMAT, "1", "3", "r", 1, False, 0.0, 0.0, True, [])]]
        for _ in range(rng.randint(0, 3)):
            kind = rng.choice(kinds())
            body = draw_object(rng, kind)
            key = body["metadata"]["name"]
            of_any = Known(kind.name, key, body), Changed(1.0, kind.name, key, body)
            blocks.append([rng.choice(of_any if kind.name != "Pod" else of_pod(body))])
        blocks.append([Held("u", "k", "n", False), Complete()])
        plain: list[Any] = msgspec.msgpack.decode(self._encoder.encode(blocks))
        if rng.random() < 0.7:
            container, key = rng.choice(places(plain))
            odd = copied(rng.choice(ANY))
            container[key] = 7 if isinstance(odd, msgspec.Raw) or _long(odd) else odd
        data = b"".join(self._block(rng, block) for block in plain)
        return (mutate_bytes(rng, data) if rng.random() < 0.3 else data).decode("latin-1")

    def _block(self, rng: Random, entries: Any) -> bytes:
        packed = self._encoder.encode(entries)
        if rng.random() < 0.1:
            packed = mutate_bytes(rng, packed)
        frame: bytes = zstd().compress(packed)
        if rng.random() < 0.05:
            frame = mutate_bytes(rng, frame)
        size = len(frame) if rng.random() < 0.97 else rng.choice((0, 1, 2**31, 2**32 - 1))
        return size.to_bytes(4, "little") + zlib.crc32(frame).to_bytes(4, "little") + frame

    def check(self, given: Input) -> list[str]:
        """Only `UnreadableRecording` is raised, and it says something."""
        self._path.write_bytes(as_bytes(given))
        try:
            for segment in segments(self._path.parent):
                for entry in segment.entries():
                    if isinstance(entry, Known | Changed) and entry.object is not None:
                        kind = KINDS.get(entry.kind)
                        if kind is not None:
                            as_object(entry.object, entry.kind, entry.key, kind.type)
        except UnreadableRecording as fault:
            return [] if str(fault) else ["a recording is refused without a word"]
        return []

    def close(self) -> None:
        """Remove the file."""
        self._directory.cleanup()


def of_pod(body: Any) -> tuple[RecordedEntry, ...]:
    """Entries that only pods have; some refer to one before, which may not be there."""
    metadata, spec, status = (body.get(name) for name in ("metadata", "spec", "status"))
    return (
        PodAdded(1.0, 1, metadata, [], spec, status),
        PodAdded(1.0, 1, metadata, [{"name": "v"}], None, status),
        PodChanged(1.0, body),
        PodUpdated(1.0, "u", "1", "2", 3000, "n", status),
        PodPlaced(1.0, "u", "1", "n", 7, 3, 5),
    )


def _long(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64
