"""HTTP/1.1 as far as an API server's answers need it: bytes in, answers out.

Strict where a guess could pair an answer with the wrong request: what is not understood raises
`Garbled`, and the connection is then good for nothing any more. `reader` puts one answer together;
`StreamReader` hands out the body of a watch as it comes.
"""

import re
from collections.abc import Generator
from typing import Protocol

import msgspec

from scheduler.kube.errors import Ambiguous, Garbled, TooLarge

# Answers of API servers have some hundred bytes of headers.
MAX_HEAD_BYTES = 64 * 1024
# 100 Continue and the like; API servers send none, proxies may send a few.
MAX_ANNOUNCEMENTS = 8
# The line before a chunk: a number, and perhaps an extension.
MAX_CHUNK_LINE_BYTES = 4096
# A whole list of a large cluster, when it cannot be had in pages; a body without end must not take
# all memory.
MAX_BODY_BYTES = 1 << 30

# A bare line feed, a header that goes on in the next line or a space before a colon may mean
# something else to another reader on the way.
_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?"
    rb"(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*)*"
)
_LENGTH = re.compile(rb"\d{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?")

Reader = Generator[None, bytes, "HttpResponse"]
"""Takes the bytes as they come, and nothing (``b""``) for the end of the connection."""


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """A response. `reusable`: the connection may carry another request."""

    status: int
    body: bytes
    reusable: bool
    retry_after: str | None = None


class Head(msgspec.Struct, frozen=True, gc=False):
    """What an answer begins with.

    Neither `length` nor `chunked`: the body ends with the connection.
    """

    status: int
    length: int | None
    chunked: bool
    reusable: bool
    retry_after: str | None


def reader(limit: int = MAX_BODY_BYTES) -> Reader:
    """A reader of one answer of at most `limit` bytes, ready for its first bytes.

    ``send`` them; the answer is the value of its StopIteration. Copies each byte of a body at most
    twice, however it is cut. Raises Garbled, also for bytes after the end of the answer, TooLarge,
    and Ambiguous if the connection ends too early.
    """
    reading = _read_answer(_Buffer(), limit)
    next(reading)
    return reading


class StreamReader:
    """Reads one answer as it comes: `head`, once that is complete, and the pieces of its body."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self._buffer = _Buffer()
        self._reading_head = _read_head(self._buffer)
        next(self._reading_head)
        self._body: _Body = _UntilEnd()

    @property
    def ended(self) -> bool:
        """Whether the answer is complete."""
        return self.head is not None and self._body.ended

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        """Add the pieces of the body in `data`. Raises Garbled, after those that came before."""
        if self.head is None:
            try:
                self._reading_head.send(data)
            except StopIteration as finished:
                self.head = finished.value
                self._body = _body_of(finished.value)
                data = self._buffer.data[self._buffer.at :]
            else:
                return
        if data:
            self._body.feed(data, pieces)

    def feed_end(self) -> None:
        """The connection has ended. Raises Ambiguous if the answer has not."""
        if self.head is None or not (self._body.ended or isinstance(self._body, _UntilEnd)):
            raise Ambiguous("the connection ended before the answer")
        self._body.ended = True


class _Body(Protocol):
    """How the end of a response body is found."""

    ended: bool

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        """Add the pieces of the body in `data`, which is not empty."""


class _UntilEnd:
    def __init__(self) -> None:
        self.ended = False

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        pieces.append(data)


class _Counted:
    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = not length

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        if len(data) > self._left:
            raise Garbled("bytes after the end of the answer")
        self._left -= len(data)
        self.ended = not self._left
        pieces.append(data)


class _Chunked:
    """Copies each byte once; of the lines between chunks, the begun one waits for its rest."""

    def __init__(self) -> None:
        self.ended = False
        self._rest = b""
        self._left = 0
        """How much of a chunk is still to come; its line end not counted."""
        self._in_chunk = False
        self._in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes, pieces: list[bytes]) -> None:
        if self.ended:
            raise Garbled("bytes after the end of the answer")
        data, self._rest = self._rest + data, b""
        at = 0 if self._in_chunk or self._in_trailers else _whole_chunks(data, pieces)
        end = len(data)
        while at < end:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            cut = data.find(b"\r\n", at)
            if cut < 0:
                self._keep(data[at:])
                break
            self._take_line(data[at:cut])
            at = cut + 2
            if self.ended and at < end:
                raise Garbled("bytes after the end of the answer")

    def _take_line(self, line: bytes) -> None:
        if self._in_chunk:
            if line:
                raise Garbled("a chunk of another size than announced")
            self._in_chunk = False
        elif self._in_trailers:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_HEAD_BYTES:
                raise Garbled("trailers without end")
            self.ended = not line
        else:
            self._left = _chunk_size(line)
            self._in_chunk = bool(self._left)
            self._in_trailers = not self._left

    def _keep(self, rest: bytes) -> None:
        if self._in_chunk and rest != b"\r":
            raise Garbled("a chunk of another size than announced")
        if len(rest) > MAX_CHUNK_LINE_BYTES:
            raise Garbled(f"not the size of a chunk: {rest[:40]!r}")
        self._rest = rest


def _whole_chunks(data: bytes, pieces: list[bytes]) -> int:
    """Add the chunks that `data` begins with, as far as they are complete; returns where they end.

    The usual case, at half the price: a watch has a chunk for every event.
    """
    at = 0
    while (cut := data.find(b"\r\n", at)) > 0:
        match = _CHUNK_SIZE.fullmatch(data, at, cut)
        stop = cut + 2 + (int(match[1], 16) if match is not None else 0)
        long = cut - at > MAX_CHUNK_LINE_BYTES
        if long or stop == cut + 2 or not data.startswith(b"\r\n", stop):
            break
        pieces.append(data[cut + 2 : stop])
        at = stop + 2
    return at


def _body_of(head: Head) -> _Body:
    if head.chunked:
        return _Chunked()
    return _UntilEnd() if head.length is None else _Counted(head.length)


class _Buffer:
    """What has come and was not read yet, begins at `at`."""

    __slots__ = ("at", "data")

    def __init__(self) -> None:
        self.data = b""
        self.at = 0

    def more(self) -> Generator[None, bytes, None]:
        """Wait for more bytes."""
        piece = yield
        if not piece:
            raise Ambiguous("the connection ended before the answer")
        self.data = self.data[self.at :] + piece
        self.at = 0

    def until(self, mark: bytes, limit: int = MAX_HEAD_BYTES) -> Generator[None, bytes, bytes]:
        """Everything up to `mark`, which is passed over."""
        while (end := self.data.find(mark, self.at)) < 0:
            if len(self.data) - self.at > limit + len(mark):
                raise Garbled("headers without end")
            yield from self.more()
        if end - self.at > limit:
            raise Garbled("headers without end")
        found = self.data[self.at : end]
        self.at = end + len(mark)
        return found

    def exactly(self, size: int) -> Generator[None, bytes, bytes]:
        """So many bytes."""
        pieces, missing = [], size
        while (there := len(self.data) - self.at) < missing:
            pieces.append(self.data[self.at :])
            missing -= there
            self.at = len(self.data)
            yield from self.more()
        pieces.append(self.data[self.at : self.at + missing])
        self.at += missing
        return b"".join(pieces)


def _read_answer(buffer: _Buffer, limit: int) -> Reader:
    head = yield from _read_head(buffer)
    reusable = head.reusable
    if head.chunked:
        body = yield from _read_chunks(buffer, limit)
    elif head.length is not None:
        if head.length > limit:
            raise TooLarge(f"the answer has more than {limit} bytes")
        body = yield from buffer.exactly(head.length)
    else:
        body, reusable = (yield from _read_to_the_end(buffer, limit)), False
    if buffer.at < len(buffer.data):
        raise Garbled("bytes after the end of the answer")
    return HttpResponse(head.status, body, reusable, head.retry_after)


def _read_head(buffer: _Buffer) -> Generator[None, bytes, Head]:
    """The head of the answer, past the few that only announce it."""
    for _ in range(MAX_ANNOUNCEMENTS + 1):
        head = yield from buffer.until(b"\r\n\r\n")
        line = _HEAD.fullmatch(head)
        if line is None:
            raise Garbled(f"not HTTP: {head[:40]!r}")
        if (status := int(line[2])) >= 200:
            return _head(line[1], status, head.lower())
    raise Garbled("announcements of an answer without end")


def _head(minor: bytes, status: int, headers: bytes) -> Head:
    """What matters of the headers, which are in lower case."""
    length, coding = _header(headers, b"content-length"), _header(headers, b"transfer-encoding")
    reusable = minor == b"1" and b"close" not in (_header(headers, b"connection") or b"")
    if _header(headers, b"content-encoding") not in {None, b"identity"}:
        # It is never requested, and a small body could become any size.
        raise Garbled("a compressed answer")
    retry_after = _header(headers, b"retry-after")
    after = retry_after.decode("latin-1") if retry_after else None
    if status in {204, 304}:
        return Head(status, 0, False, reusable, after)
    if coding is not None:
        if coding != b"chunked" or length is not None:
            raise Garbled("a transfer encoding other than chunked")
        return Head(status, None, True, reusable, after)
    return Head(status, None if length is None else _length(length), False, reusable, after)


def _header(headers: bytes, name: bytes) -> bytes | None:
    """The value of a header, in lower case as everything here; more than one joined by commas."""
    mark = b"\r\n" + name + b":"
    if mark not in headers:
        return None
    _, *rest = headers.split(mark)
    return b", ".join(each.partition(b"\r\n")[0].strip(b" \t") for each in rest)


def _read_chunks(buffer: _Buffer, limit: int) -> Generator[None, bytes, bytes]:
    chunks: list[bytes] = []
    total = 0
    line = buffer.until(b"\r\n", MAX_CHUNK_LINE_BYTES)
    while size := _chunk_size((yield from line)):
        total += size
        if total > limit:
            raise TooLarge(f"the answer has more than {limit} bytes")
        chunks.append((yield from buffer.exactly(size)))
        if (yield from buffer.exactly(2)) != b"\r\n":
            raise Garbled("a chunk of another size than announced")
        line = buffer.until(b"\r\n", MAX_CHUNK_LINE_BYTES)
    trailers = 0
    while trailer := (yield from buffer.until(b"\r\n")):
        trailers += len(trailer)  # not used
        if trailers > MAX_HEAD_BYTES:
            raise Garbled("trailers without end")
    return b"".join(chunks)


def _read_to_the_end(buffer: _Buffer, limit: int) -> Generator[None, bytes, bytes]:
    pieces: list[bytes] = []
    total = 0
    piece = buffer.data[buffer.at :]
    buffer.at = len(buffer.data)
    while piece or not pieces:
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise TooLarge(f"the answer has more than {limit} bytes")
        piece = yield
    return b"".join(pieces)


def _chunk_size(line: bytes) -> int:
    match = _CHUNK_SIZE.fullmatch(line)
    if match is None or len(line) > MAX_CHUNK_LINE_BYTES:
        raise Garbled(f"not the size of a chunk: {line[:40]!r}")
    return int(match[1], 16)


def _length(text: bytes) -> int:
    length = int(text) if _LENGTH.fullmatch(text) else -1
    if not 0 <= length <= MAX_BODY_BYTES:
        raise Garbled(f"not a content length: {text[:40]!r}")
    return length
