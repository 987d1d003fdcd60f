"""Writes segments in a thread of its own: compressed, bounded, and never in anybody's way.

::

    tape ──► put (bounded) ──► thread: encode, compress, append ──► segment-00000007.eqr
                │                          │
                │ full, or a fault:        └─ the oldest segments go, so that all together
                ▼ entries are dropped         stay within `maxBytes`
             a new segment, once there is room

A block is written whole or not at all; after a crash a reader stops at the last whole one. What
cannot be written is dropped, with a metric and a line in the log; then a new segment begins that
says what is there, so that a reader can go on from it. A segment belongs to who has made its file:
two processes that record into one directory do not write into each other's.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from scheduler import machine
from scheduler.model.pods import Pod
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.recording.blocks import EntryBlock, EntryEncoder
from scheduler.recording.compression import zstd
from scheduler.recording.entries import (
    SUFFIX,
    Complete,
    Header,
    Held,
    Known,
    Nominated,
    RecordedEntry,
)

log = get_logger(__name__)

WAITING_BATCHES = 256
"""How many batches may wait for the thread."""
WAITING_BYTES = 64 << 20
"""How long they may be together."""
BLOCK_BYTES = 1 << 20
"""A block ends with the entry that makes it longer."""
RETRY_SECONDS = 30.0
"""How long the disk is left alone after a fault."""
LEVEL = 1
_PREFIX = "segment-"
BLOCK_ENTRIES = 1024
_DIRECTORY_MODE, _FILE_MODE = 0o750, 0o640
"""Others on the machine may not read what all tenants run; the group of a volume may."""


class Bounds(NamedTuple):
    """How much a recording may take."""

    all_bytes: int
    segment_bytes: int
    seconds: float
    """How old a segment may become; 0: as old as there is room for."""


class SegmentStart(NamedTuple):
    """What a segment begins with; entries are made of it by the thread that writes them."""

    header: Header
    objects: dict[str, dict[str, Any]]
    """By kind and key, but for pods."""
    pods: dict[str, Pod]
    """By uid."""
    held: dict[str, str]
    """The nodes of assumed pods by uid."""
    waiting: frozenset[str]
    """Those of them that wait on permit."""
    nominated: dict[str, str]

    @property
    def length(self) -> int:
        """About how many entries it makes."""
        objects = sum(map(len, self.objects.values())) + len(self.pods)
        return objects + len(self.held) + len(self.nominated)

    def entries(self) -> Iterator[RecordedEntry]:
        """All entries after the header."""
        for kind, objects in self.objects.items():
            for key, each in objects.items():
                yield Known(kind, key, each)
        for pod in self.pods.values():
            yield Known(Pod.__name__, pod.key, pod)
        for uid, node in self.held.items():
            held = self.pods.get(uid)
            yield Held(uid, held.key if held is not None else "", node, uid in self.waiting)
        for uid, node in self.nominated.items():
            yield Nominated(self.header.time, uid, node)
        yield Complete()


class _Batch(NamedTuple):
    block: EntryBlock
    start: SegmentStart | None = None
    """In place of a block: what a new segment begins with."""


def segment_name(number: int) -> str:
    """The name of a segment's file."""
    return f"{_PREFIX}{number:08}{SUFFIX}"


def segments_in(directory: Path) -> dict[int, Path]:
    """The segments of a directory by number, in order. Raises OSError."""
    found = {}
    for path in directory.iterdir():
        number = path.name.removeprefix(_PREFIX).removesuffix(SUFFIX)
        named = path.name.startswith(_PREFIX) and path.name.endswith(SUFFIX)
        if named and number.isascii() and number.isdigit():
            found[int(number)] = path
    return dict(sorted(found.items()))


class SegmentWriter:
    """Appends batches of entries to segments. `put` never blocks; all else is in the thread."""

    def __init__(self, directory: Path, bounds: Bounds, metrics: Metrics) -> None:
        self._directory = directory
        self._bounds = bounds
        self._bytes_total = metrics.recording_bytes
        self._dropped = metrics.recording_dropped
        self._queue: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        module = zstd()
        self._compressor = module.ZstdCompressor(level=LEVEL)  # a context of its own costs much
        self._whole_frame = module.ZstdCompressor.FLUSH_FRAME
        self._encoder = EntryEncoder()
        self._sizes: dict[Path, int] = {}
        """Of all segments, the oldest first; the last one is being written."""
        self._file: Path | None = None
        self._begun_at = 0.0
        self._first_bytes = 0
        """Of the current segment: what says what was there when it began."""
        self._number = 0
        """Of the newest segment; 0 before the first."""
        self._faulty_until = 0.0
        self._broken = False
        """Whether the current segment has ended because of a fault."""
        self._full = False
        """Whether the current segment has become large or old."""
        self._beginning = False
        """Whether the thread has yet to begin the next one."""
        self._lost = False
        """Whether entries were lost since the last segment began. Of the thread."""
        self._waiting_bytes = 0
        self._handing_over = threading.Lock()
        self.drained = threading.Event()
        """Set while the thread has nothing to do."""
        self.drained.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written, and a new segment may begin after a fault."""
        return self.drained.is_set() and machine.monotonic() >= self._faulty_until

    @property
    def broken(self) -> bool:
        """Whether what is put now would be lost: a new segment has to begin."""
        return self._broken

    @property
    def full(self) -> bool:
        """Whether another segment is to begin."""
        return self._full and not self._beginning

    def put(self, block: EntryBlock) -> bool:
        """Have a block written, which nobody adds to any more; False if too many wait already."""
        too_many = self._queue.qsize() >= WAITING_BATCHES
        if too_many or self._waiting_bytes + block.size > WAITING_BYTES:
            self._dropped.inc(block.entries)
            return False
        self._hand_over(_Batch(block))
        return True

    def begin(self, start: SegmentStart) -> None:
        """Have a new segment begin, with a header and all that is there."""
        self._broken, self._beginning = False, True
        self._hand_over(_Batch(EntryBlock(), start))

    def _hand_over(self, batch: _Batch) -> None:
        with self._handing_over:
            self.drained.clear()
            self._waiting_bytes += batch.block.size
            self._queue.put(batch)

    def close(self, seconds: float) -> None:
        """Write what waits, within reason, and end the thread."""
        self._queue.put(None)
        self._thread.join(seconds)

    # In the thread

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                self._write(batch)
            except Exception as fault:  # a recording never harms what it records
                self._fail(fault)
                lost = batch.block.entries if batch.start is None else batch.start.length
                self._dropped.inc(lost)
            with self._handing_over:
                self._waiting_bytes -= batch.block.size
                if self._queue.empty():
                    self.drained.set()

    def _fail(self, fault: Exception) -> None:
        if not self._broken:
            log.error("Recording paused, entries are missing", exc=fault, retry=RETRY_SECONDS)
        self._broken, self._beginning, self._lost = True, False, True
        if self._file is not None:
            self._cut(self._file)
        self._file = None
        self._faulty_until = machine.monotonic() + RETRY_SECONDS

    def _cut(self, file: Path) -> None:
        """Leave no part of a block behind, and nothing of a segment that has not begun."""
        with contextlib.suppress(OSError):
            if self._first_bytes:
                os.truncate(file, self._sizes.get(file, 0))
            else:
                file.unlink()

    def _write(self, batch: _Batch) -> None:
        if batch.start is not None:
            self._write_first(self._begin(), batch.start)
        elif self._file is None:
            self._lost = True
            self._dropped.inc(batch.block.entries)
            return
        else:
            self._append(self._file, batch.block)
        self._look_whether_full()

    def _write_first(self, file: Path, start: SegmentStart) -> None:
        follows = start.header.follows and not self._lost
        header = msgspec.structs.replace(start.header, number=self._number, follows=follows)
        block = EntryBlock()
        for each in chain((header,), start.entries()):
            # One by one: they may be long, and others need the interpreter's lock.
            self._dropped.inc(self._encoder.encode((each,), block))
            if block.entries >= BLOCK_ENTRIES or block.size >= BLOCK_BYTES:
                self._append(file, block)
                block = EntryBlock()
        if block.entries:
            self._append(file, block)
        self._first_bytes = self._sizes[file]
        self._lost = False

    def _begin(self) -> Path:
        self._file, self._first_bytes = None, 0
        self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        found = segments_in(self._directory)  # others may have come and gone
        self._sizes = {path: size for path in found.values() if (size := _size(path)) is not None}
        self._number = max(self._number, *found, 0)
        self._file = file = self._new_file()
        self._sizes[file] = 0
        self._begun_at = machine.monotonic()
        self._full = self._beginning = False
        return file

    def _new_file(self) -> Path:
        """An empty file of our own: another process may be about to make one as well."""
        while True:
            self._number += 1
            file = self._directory / segment_name(self._number)
            with contextlib.suppress(FileExistsError):
                file.touch(mode=_FILE_MODE, exist_ok=False)
                return file

    def _append(self, file: Path, array: EntryBlock) -> None:
        frame: bytes = self._compressor.compress(array.content(), self._whole_frame)
        block = len(frame).to_bytes(4, "little") + zlib.crc32(frame).to_bytes(4, "little") + frame
        self._make_room(file, len(block))
        append_to(file, block)
        self._sizes[file] += len(block)
        self._bytes_total.inc(len(block))

    def _make_room(self, current: Path, needed: int) -> None:
        while sum(self._sizes.values()) + needed > self._bounds.all_bytes:
            oldest = next(iter(self._sizes))
            if oldest == current:
                text = f"recording.maxBytes ({self._bounds.all_bytes}) is too small: what is there"
                raise OSError(f"{text} when a segment begins takes more")
            self._drop(oldest)

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        del self._sizes[path]

    def _look_whether_full(self) -> None:
        file = self._file
        assert file is not None, "it was written to just now"
        size, age = self._sizes[file], machine.monotonic() - self._begun_at
        # What is there when a segment begins is not said again before as much has happened.
        if size >= self._bounds.segment_bytes and size >= 2 * self._first_bytes:
            self._full = True
        if self._bounds.seconds:
            self._full |= age >= self._bounds.seconds / 4
            too_old = machine.wall() - self._bounds.seconds
            for path in list(self._sizes):
                if path != file and _written_at(path) < too_old:
                    self._drop(path)


def append_to(file: Path, block: bytes) -> None:
    """Write behind the end of a file that exists: whoever has deleted it gets no new one."""
    with file.open("r+b") as opened:
        opened.seek(0, os.SEEK_END)
        opened.write(block)


def _size(path: Path) -> int | None:
    """The length of a file; None if it has just been deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _written_at(path: Path) -> float:
    """When a file was last written to; one that was deleted is older than all."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
