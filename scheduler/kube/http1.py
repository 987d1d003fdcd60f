"""HTTP/1.1 as far as an API server's answers need it: bytes in, one whole answer out.

Strict where a guess could pair an answer with the wrong request: what is not understood raises
`Garbled`, and the connection is then good for nothing any more.
"""

import re
from collections.abc import Generator

import msgspec

# Answers of API servers have some hundred bytes of headers.
MAX_HEAD_BYTES = 64 * 1024
# Far above any page of a list; a body without end must not take all memory.
MAX_BODY_BYTES = 1 << 30

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)\b")
_LENGTH = re.compile(rb"\d{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?")

Reader = Generator[None, bytes, "Answer"]
"""Takes the bytes as they come, and nothing (``b""``) for the end of the connection."""


class Garbled(Exception):
    """The bytes are not the HTTP that we speak, or end too early."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came back. `reusable`: the connection may carry another request."""

    status: int
    body: bytes
    reusable: bool
    retry_after: str | None = None


def reader() -> Reader:
    """A reader of one answer, ready for its first bytes.

    ``send`` them; the answer is the value of its StopIteration. Copies each byte of a body at most
    twice, however it is cut. Raises Garbled, also for bytes after the end of the answer.
    """
    reading = _read_answer(_Buffer())
    next(reading)
    return reading


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
            raise Garbled("the connection ended before the answer")
        self.data = self.data[self.at :] + piece
        self.at = 0

    def until(self, mark: bytes) -> Generator[None, bytes, bytes]:
        """Everything up to `mark`, which is passed over."""
        while (end := self.data.find(mark, self.at)) < 0:
            if len(self.data) - self.at > MAX_HEAD_BYTES:
                raise Garbled("headers without end")
            yield from self.more()
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


def _read_answer(buffer: _Buffer) -> Reader:
    minor, status, headers = yield from _read_head(buffer)
    while status < 200:  # 100 Continue and the like only announce the answer
        minor, status, headers = yield from _read_head(buffer)
    length, coding = _header(headers, b"content-length"), _header(headers, b"transfer-encoding")
    reusable = minor == b"1" and b"close" not in (_header(headers, b"connection") or b"")
    if status in {204, 304}:
        body = b""
    elif coding is not None:
        if coding != b"chunked" or length is not None:
            raise Garbled("a transfer encoding other than chunked")
        body = yield from _read_chunks(buffer)
    elif length is not None:
        body = yield from buffer.exactly(_length(length))
    else:
        body, reusable = (yield from _read_to_the_end(buffer)), False
    if buffer.at < len(buffer.data):
        raise Garbled("bytes after the end of the answer")
    retry_after = _header(headers, b"retry-after")
    return Answer(status, body, reusable, retry_after.decode("latin-1") if retry_after else None)


def _read_head(buffer: _Buffer) -> Generator[None, bytes, tuple[bytes, int, bytes]]:
    """HTTP's minor version, the status, and all headers in lower case."""
    head = yield from buffer.until(b"\r\n\r\n")
    line = _STATUS_LINE.match(head)
    if line is None:
        raise Garbled(f"not HTTP: {head[:40]!r}")
    return line[1], int(line[2]), head.lower()


def _header(headers: bytes, name: bytes) -> bytes | None:
    """The value of a header, in lower case as everything here; more than one joined by commas."""
    mark = b"\r\n" + name + b":"
    if mark not in headers:
        return None
    _, *rest = headers.split(mark)
    return b", ".join(each.partition(b"\r\n")[0].strip() for each in rest)


def _read_chunks(buffer: _Buffer) -> Generator[None, bytes, bytes]:
    chunks: list[bytes] = []
    total = 0
    while size := _chunk_size((yield from buffer.until(b"\r\n"))):
        total += size
        if total > MAX_BODY_BYTES:
            raise Garbled("a body without end")
        chunks.append((yield from buffer.exactly(size)))
        if (yield from buffer.exactly(2)) != b"\r\n":
            raise Garbled("a chunk of another size than announced")
    while (yield from buffer.until(b"\r\n")):
        pass  # trailers, up to an empty line; nobody needs them
    return b"".join(chunks)


def _read_to_the_end(buffer: _Buffer) -> Generator[None, bytes, bytes]:
    pieces, total = [buffer.data[buffer.at :]], 0
    buffer.at = len(buffer.data)
    while piece := (yield):
        pieces.append(piece)
        total += len(piece)
        if total > MAX_BODY_BYTES:
            raise Garbled("a body without end")
    return b"".join(pieces)


def _chunk_size(line: bytes) -> int:
    match = _CHUNK_SIZE.fullmatch(line)
    if match is None:
        raise Garbled(f"not the size of a chunk: {line[:40]!r}")
    return int(match[1], 16)


def _length(text: bytes) -> int:
    length = int(text) if _LENGTH.fullmatch(text) else -1
    if not 0 <= length <= MAX_BODY_BYTES:
        raise Garbled(f"not a content length: {text[:40]!r}")
    return length
