"""From bytes of lists and watches to structs; objects that do not decode are skipped.

An event is decoded in two steps: an envelope that leaves the object as raw bytes, then the object
into the struct of its kind. So one malformed object costs itself and not the stream.
"""

import re
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import force_setattr

from scheduler.bounded import MEBIBYTE
from scheduler.kube.brackets import members
from scheduler.kube.errors import UNREADABLE, Garbled
from scheduler.kube.lenient import as_go_reads
from scheduler.model.objects import ObjectMeta, from_dict
from scheduler.model.packed import MANY, pack_labels
from scheduler.model.pods import Pod
from scheduler.model.sharing import share_status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics

log = get_logger(__name__)

# Far above what etcd stores in one object (1.5 MB by default); beyond, the stream is broken.
MAX_LINE_BYTES = 32 * 1024 * 1024
# How many undecodable versions are remembered so that each is logged once.
MAX_REMEMBERED = 1024
# So many brackets, commas and strings of an object that is nested too deeply are looked at for its
# identity, which is near its beginning: some milliseconds.
MAX_TOKENS = 20_000

# As API servers write it.
_EVENT = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z]+)"\s*,\s*"object"\s*:')


class KubeObject(Protocol):
    """Any struct of `scheduler.model.objects` that has metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid and resource version."""


T = TypeVar("T", bound=KubeObject)


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch, its object still raw."""

    type: str
    object: msgspec.Raw


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a list stands, and how to get its next page."""

    resource_version: str = ""
    next_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, kw_only=True, gc=False):
    """One page of a list, its items still raw. Go writes an empty list as null."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None
    """Required: an answer without them is no list, and not an empty one."""


class Identity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Who an object is, when nothing else of it can be read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Identified(msgspec.Struct, gc=False):
    metadata: Identity = Identity()


_IDENTITIES = msgspec.json.Decoder(_Identified)


class LineTooLong(Garbled):
    """A line of a watch that cannot be an object."""


class LineSplitter:
    """Cuts chunks into whole lines and keeps the rest. Copies each byte at most twice."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0

    @property
    def within_line(self) -> bool:
        """Whether a line has begun that has not ended."""
        return self._size > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their newlines."""
        cut = chunk.rfind(b"\n")
        if cut < 0:
            self._keep(chunk)
            return []
        self._pending.append(chunk[:cut])
        lines = b"".join(self._pending).split(b"\n")
        self._pending.clear()
        self._size = 0
        self._keep(chunk[cut + 1 :])
        return lines

    def _keep(self, rest: bytes) -> None:
        self._size += len(rest)
        if self._size > self._limit:
            raise LineTooLong(f"a line of a watch is longer than {self._limit} bytes")
        if rest:
            self._pending.append(rest)


class ObjectDecoder(Generic[T]):
    """Decodes objects of one kind; says once for each version what it could not decode."""

    def __init__(self, kind: str, type_: type[T], metrics: Metrics) -> None:
        self._kind = kind
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._errors = metrics.watch_decode_errors.labels(kind)
        self._logged: dict[tuple[str, str], None] = {}

    def decode(self, raw: msgspec.Raw) -> T | Identity:
        """The object; or, counted and logged, its identity if it does not decode or has no name."""
        try:
            decoded = self._decode(raw)
        except UNREADABLE as error:
            return self._skipped(raw, str(error))
        if not decoded.metadata.name:
            return self._skipped(raw, "metadata.name: missing")
        return _measured(decoded, raw)

    def _skipped(self, raw: msgspec.Raw, error: str) -> Identity:
        identity = self.identify(raw)
        self.skip(identity, error)
        return identity

    def identify(self, raw: msgspec.Raw) -> Identity:
        """Who the object is, from its metadata alone."""
        return identity_of(raw)

    def skip(self, identity: Identity, error: str) -> None:
        """Count an object that is passed over; log it if this version was not logged before."""
        self._errors.inc()
        version = (identity.key, identity.resource_version)
        if version in self._logged:
            return
        if len(self._logged) >= MAX_REMEMBERED:
            del self._logged[next(iter(self._logged))]
        self._logged[version] = None
        log.warning(
            "Object could not be decoded, skipped",
            kind=self._kind,
            object=identity.key,
            resourceVersion=identity.resource_version,
            error=error,
        )

    def _decode(self, raw: msgspec.Raw) -> T:
        try:
            return self._decoder.decode(raw)
        except UNREADABLE:
            # Explicit nulls, legal for what may be absent, come only from unusual writers: they are
            # worth a second pass over few objects, not optional types all over the structs.
            return from_dict(plain(raw), self._type)


def plain(raw: bytes | msgspec.Raw) -> Any:
    """JSON as plain values; strings that are no text are read as Go does. Raises `UNREADABLE`."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(as_go_reads(bytes(raw)))


def deep_event(line: bytes) -> WatchEvent:
    """A line of a watch whose object is nested deeper than a decoder follows.

    The object is not looked at, so this takes no longer for a large one. Raises DecodeError.
    """
    start, end = _EVENT.match(line), line.rfind(b"}")
    if start is None or end < start.end():
        raise msgspec.DecodeError("not an event of a watch, and nested too deeply")
    return WatchEvent(start[1].decode(), msgspec.Raw(line[start.end() : end]))


def read_event(decoder: msgspec.json.Decoder[WatchEvent], line: bytes) -> WatchEvent:
    """A line of a watch, whatever its object holds. Raises DecodeError if it is no event."""
    try:
        return decoder.decode(line)
    except RecursionError:
        return deep_event(line)
    except msgspec.DecodeError:
        readable = as_go_reads(line)
        if readable == line:
            raise
        return read_event(decoder, readable)


def identity_of(raw: msgspec.Raw) -> Identity:
    """The identity of an object, from its metadata alone; empty if that cannot be read."""
    try:
        return _IDENTITIES.decode(raw).metadata
    except UNREADABLE:  # something else than its identity, perhaps
        return _identity_by_brackets(bytes(raw))


def _identity_by_brackets(body: bytes) -> Identity:
    """The same for an object of which no decoder reads all."""
    try:
        metadata = next(value for name, value in members(body, MAX_TOKENS) if name == "metadata")
        fields = {f.encode_name for f in msgspec.structs.fields(Identity)}
        found = {
            name: msgspec.json.decode(value)
            for name, value in members(metadata, MAX_TOKENS)
            if name in fields
        }
        return msgspec.convert(found, Identity)
    except (StopIteration, *UNREADABLE):
        return Identity()


_SIZES = tuple(range(2048))


def _measured(decoded: T, raw: msgspec.Raw) -> T:
    metadata = decoded.metadata
    if len(metadata.labels) > MANY:
        pack_labels(metadata)
    size = len(memoryview(raw))
    # One number for all objects of that size: thousands of small pods are alike in it.
    force_setattr(metadata, "json_bytes", _SIZES[size] if size < len(_SIZES) else size)
    if isinstance(decoded, Pod):
        share_status(decoded)
    return decoded


def share_labels(old: ObjectMeta, new: ObjectMeta) -> None:
    """Keep the labels of two versions of an object once, if they are equal, as they mostly are."""
    if old.labels == new.labels:
        force_setattr(new, "labels", old.labels)


class PageSize:
    """How many objects to request at once, so that a page is of some bytes and not much more.

    The first page is a small one; each may have four times the objects of the one before, if these
    were small.
    """

    FIRST = 25
    MOST = 500
    BYTES = 8 * MEBIBYTE

    def __init__(self) -> None:
        self.limit = self.FIRST

    def learn(self, body: int, items: int) -> None:
        """A page of some bytes had so many items."""
        if items:
            fitting = self.BYTES * items // max(body, 1)
            self.limit = max(1, min(fitting, 4 * self.limit, self.MOST))
