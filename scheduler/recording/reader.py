"""Reads recordings: segments in order, as far as they are whole."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from scheduler.model.meta import NOT_SENT
from scheduler.model.pods import Pod
from scheduler.recording.compression import zstd
from scheduler.recording.entries import (
    FORMAT,
    AnyEntry,
    Changed,
    Header,
    Known,
    NodeSearched,
    PodAdded,
    PodChanged,
    PodPlaced,
    PodRenewed,
    PodUpdated,
)
from scheduler.recording.segments import segments_in

T = TypeVar("T")

_POD = Pod.__name__
_HEAD = 8
LARGEST_BLOCK = 32 << 20
"""What a block may become when it is unpacked, in bytes: far more than an object can have."""
_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises for bad input."""


class UnreadableRecording(ValueError):
    """A directory that is no recording, or one of a newer version; the message says which."""


class RecordingSegment(NamedTuple):
    """One segment: its header, and its entries after that, read as they are asked for."""

    path: Path
    header: Header
    notes: list[str]
    """What is wrong with its end, once that is reached, and with segments behind it of which
    nothing can be read; nothing if all is whole."""

    def entries(self) -> Iterator[AnyEntry]:
        """All entries after the header; of pods, as what the short ones of `entries` stand for."""
        first, pods = True, _Pods()
        for block in _blocks(self.path, self.notes):
            for each in block[1:] if first else block:
                if (whole := pods.whole(each)) is not None:
                    yield whole
            first = False

    def continues(self, before: RecordingSegment | None) -> bool:
        """Whether no step is missing since the segment before it, whose entries have been read."""
        if before is None or before.notes:
            return False
        own, other = self.header, before.header
        return own.follows and own.run == other.run and own.number == other.number + 1


class _Pods:
    """Pods as the entries of a segment have them, to tell from which ones the short ones are."""

    def __init__(self) -> None:
        self._newest: dict[str, Any] = {}
        self._keys: dict[str, str] = {}
        """By uid."""
        self._specs: dict[int, Any] = {}

    def whole(self, entry: AnyEntry) -> AnyEntry | None:
        """The entry, with the whole pod; None if the last version of the pod was left out."""
        if isinstance(entry, PodPlaced):
            return self._searched(entry)
        if isinstance(entry, PodRenewed | PodUpdated):
            key = entry.key if isinstance(entry, PodRenewed) else self._keys.get(entry.uid, "")
            pod = _renewed(self._newest.get(key), entry)
            if pod is None:
                return None
            entry = Changed(entry.time, _POD, key, pod)
        elif isinstance(entry, PodChanged | PodAdded):
            pod = self._added(entry) if isinstance(entry, PodAdded) else entry.object
            if pod is None:
                return None
            entry = Changed(entry.time, _POD, _key_of(pod), pod)
        if isinstance(entry, Changed | Known) and entry.kind == _POD:
            self._keep(entry.key, entry.object)
        return entry

    def _keep(self, key: str, pod: Any) -> None:
        before = self._newest.pop(key, None)
        if before is not None:
            self._keys.pop(_uid_of(before), None)
        if pod is not None:
            self._newest[key], self._keys[_uid_of(pod)] = pod, key

    def _added(self, entry: PodAdded) -> Any:
        if entry.spec is not None:
            self._specs = {entry.number: _mapping(entry.spec)}
        spec = self._specs.get(entry.number)
        if spec is None:
            return None
        spec = {**spec, "volumes": entry.volumes} if entry.volumes else spec
        return {"metadata": entry.metadata, "spec": spec, "status": entry.status}

    def _searched(self, placed: PodPlaced) -> NodeSearched:
        return NodeSearched(
            placed.time,
            placed.uid,
            self._keys.get(placed.uid, ""),
            placed.version,
            in_pass=False,
            proposed="",
            model="",
            node=placed.node,
            score=placed.score,
            feasible=placed.feasible,
            evaluated=placed.evaluated,
            plugins=(),
            reserved=placed.reserved,
        )


def _renewed(pod: Any, entry: PodRenewed | PodUpdated) -> Any:
    metadata = _metadata(pod)
    if not metadata or metadata.get("resourceVersion", "") != entry.last:
        return None
    metadata = {**metadata, "resourceVersion": entry.version, NOT_SENT: entry.json_bytes}
    spec = {**_mapping(pod.get("spec")), "nodeName": entry.node}
    return {**pod, "metadata": metadata, "spec": spec, "status": entry.status}


def _uid_of(pod: Any) -> str:
    return str(_metadata(pod).get("uid", ""))


def _key_of(pod: Any) -> str:
    metadata = _metadata(pod)
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)


def _metadata(pod: Any) -> dict[Any, Any]:
    return _mapping(_mapping(pod).get("metadata"))


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def segments(directory: Path) -> list[RecordingSegment]:
    """The segments of a recording, in order. Raises `UnreadableRecording`."""
    try:
        paths = list(segments_in(directory).values())
    except OSError as fault:
        raise UnreadableRecording(f"{directory}: {fault.strerror}") from None
    if not paths:
        raise UnreadableRecording(f"{directory}: there are no segments (segment-*.eqr) in it")
    found: list[RecordingSegment] = []
    unreadable: list[str] = []
    for path in paths:
        notes: list[str] = []
        header = _header(path, notes)
        if header is not None:
            found.append(RecordingSegment(path, header, []))
        elif found:
            found[-1].notes.extend(notes)
        else:
            unreadable += notes
    if not found:
        why = unreadable[0] if unreadable else "nothing has been recorded yet"
        raise UnreadableRecording(f"{directory}: {why}")
    return found


def as_object(value: Any, kind: str, key: str, shape: type[T]) -> T:
    """An object of an entry. Raises `UnreadableRecording`."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as fault:
        raise UnreadableRecording(f"{kind} {key}: {fault}") from None


def _header(path: Path, notes: list[str]) -> Header | None:
    """The header of a segment; None if not even that was written, or can be read."""
    first = next(_frames(path, notes), None)
    if first is None:
        return None
    try:
        entries = msgspec.msgpack.decode(first)
        # Before anything else is read, which may have another shape in a newer format.
        if entries[0][1] > FORMAT:
            text = f"{path}: its format is {entries[0][1]}, this version reads {FORMAT}"
            raise UnreadableRecording(text)
        return msgspec.convert(entries[0], Header)
    except (*_UNREADABLE, LookupError, TypeError) as fault:
        raise UnreadableRecording(f"{path}: it does not begin with a header: {fault}") from None


def _blocks(path: Path, notes: list[str]) -> Iterator[list[AnyEntry]]:
    decoder = msgspec.msgpack.Decoder(list[AnyEntry])
    for frame in _frames(path, notes):
        try:
            yield decoder.decode(frame)
        except _UNREADABLE as fault:
            raise UnreadableRecording(f"{path}: {fault}") from None


def _frames(path: Path, notes: list[str]) -> Iterator[bytes]:
    """The blocks that are whole, unpacked; a note says if something follows them."""
    try:
        content = path.open("rb")
    except OSError as fault:
        raise UnreadableRecording(f"{path}: {fault.strerror}") from None
    with content as file:
        number, size = 0, os.fstat(file.fileno()).st_size
        while head := file.read(_HEAD):
            number += 1
            length, crc = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
            # A length that was damaged would have that much memory taken before anything is read.
            there = len(head) == _HEAD and length <= size - file.tell()
            frame = file.read(length) if there else b""
            if not there or len(frame) < length or zlib.crc32(frame) != crc:
                notes.append(f"{path.name} ends within block {number}: the rest is left out")
                return
            yield _unpacked(path, frame)


def _unpacked(path: Path, frame: bytes) -> bytes:
    module = zstd()
    try:
        unpacked: bytes = module.ZstdDecompressor().decompress(frame, LARGEST_BLOCK + 1)
    except module.ZstdError as fault:
        raise UnreadableRecording(f"{path}: {fault}") from None
    if len(unpacked) > LARGEST_BLOCK:
        raise UnreadableRecording(f"{path}: a block has more than {LARGEST_BLOCK >> 20} MiB")
    return unpacked
