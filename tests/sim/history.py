"""What happened: every request that reached the API server and every write, with time and author.

Two runs are the same if their histories are, byte by byte: a write is noted with a checksum of
what was written.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Literal

import msgspec

from sandbox.store import StoreChange, Version
from tests.sim.hosts import HOST, PEER


class Request(msgspec.Struct, frozen=True):
    """One request, noted when it was answered; status 0: it was not."""

    time: float
    host: str
    method: str
    path: str
    status: int
    began: float

    def __str__(self) -> str:
        took = f" after {self.time - self.began:.6f} s" if self.time > self.began else ""
        return f"{self.time:12.6f} {self.host:10} {self.method} {self.path} → {self.status}{took}"


class Write(msgspec.Struct, frozen=True):
    """One write of the store; `writer` is who sent the request, or the host that wrote directly."""

    time: float
    writer: str
    table: str
    key: tuple[str, str]
    revision: int
    kind: Literal["created", "updated", "deleted"]
    before: Version | None
    after: Version | None

    def __str__(self) -> str:
        checksum = zlib.crc32(self.after.encoded) if self.after is not None else 0
        name = "/".join(filter(None, self.key))
        head = f"{self.time:12.6f} {self.writer:10} {self.kind} {self.table} {name}"
        return f"{head} @{self.revision} {checksum:08x}"


class Note(msgspec.Struct, frozen=True):
    """What the simulation did, or a line of a replica's log."""

    time: float
    host: str
    text: str

    def __str__(self) -> str:
        return f"{self.time:12.6f} {self.host:10} {self.text}"


Entry = Request | Write | Note


class _Arrived(msgspec.Struct, frozen=True):
    time: float
    host: str
    method: str
    path: str


class History:
    """All entries in order; a journal of the store and an audit of the API server."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self._now = now
        self._ended = False
        self._listeners: list[Callable[[Entry], None]] = []

    def listen(self, listener: Callable[[Entry], None]) -> None:
        """Tell of every entry at once. What the listener raises ends what was being done."""
        self._listeners.append(listener)

    def note(self, host: str, text: str) -> None:
        """Note what the simulation does."""
        self._add(Note(self._now(), host, text))

    def written(self, table: str, change: StoreChange) -> None:
        """A write has taken effect."""
        host = HOST.get()
        writer = PEER.get() or (host.name if host is not None else "")
        kind: Literal["created", "updated", "deleted"] = "updated"
        if change.before is None:
            kind = "created"
        elif change.after is None:
            kind = "deleted"
        self._add(
            Write(
                self._now(),
                writer,
                table,
                change.key,
                change.revision,
                kind,
                change.before,
                change.after,
            )
        )

    def arrived(self, method: str, path: str) -> object:
        """A request is here."""
        return _Arrived(self._now(), PEER.get(), method, path)

    def answered(self, request: object, status: int) -> None:
        """A request was answered."""
        assert isinstance(request, _Arrived), "made by `arrived`"
        self._add(
            Request(self._now(), request.host, request.method, request.path, status, request.time)
        )

    def text(self) -> str:
        """All entries, a line for each."""
        return "".join(f"{entry}\n" for entry in self.entries)

    def digest(self) -> str:
        """Equal for equal histories."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def end(self) -> None:
        """Note nothing any more: tasks are dropped now, in any order."""
        self._ended = True

    def _add(self, entry: Entry) -> None:
        if self._ended:
            return
        self.entries.append(entry)
        for listener in self._listeners:
            listener(entry)
