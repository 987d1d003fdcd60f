"""Bytes of a hostile API server to the readers of answers, cut anywhere."""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from scheduler.kube.errors import Ambiguous
from scheduler.kube.http1 import HttpResponse, StreamReader, reader
from tests.fuzz.mutating import mutate_bytes
from tests.fuzz.target import Input, as_bytes

HEADERS = (
    b"Content-Length: 5", b"content-length: 5", b"Content-Length: 0", b"Content-Length: 12",
    b"Transfer-Encoding: chunked", b"transfer-encoding: Chunked", b"Connection: close",
    b"Connection: keep-alive", b"Content-Type: application/json", b"Retry-After: 1", b"X: y",
    b"Content-Length: 5, 5", b"Content-Length: +5", b"Content-Length: 0x5", b"Content-Length : 5",
    b" Content-Length: 5", b"Content-Length: 5\r\n 7", b"Transfer-Encoding: gzip, chunked",
    b"Content-Encoding: identity", b"Content-Encoding: gzip", b"X: \xff\x00",
    b"X" * 66_000 + b": 1",
    b"Content-Length:\t5\t", b"Content-Length: \xb2", b"Content-Length: 5;", b"\tX: y", b"nonsense",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked", b"Connection: x, Close",
)  # fmt: skip
STATUS = (b"200 OK", b"201 Created", b"204 No Content", b"304 Not Modified", b"409 Conflict",
          b"429 Too Many Requests", b"500 Error", b"200", b"600 X", b"99 X", b"2000 X",
          b"101 Switching Protocols")  # fmt: skip
BODIES = (b"", b"hello", b"hello world!", b"{}", b"\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
SIZES = (b"5", b"0", b"05", b"C", b"c", b"5;x=y", b"5 ; x", b" 5", b"0x5", b"+5", b"-5", b"_5",
         b"5_0", b"FFFFFFFFFFFF", b"FFFFFFFFFFFFFFFF", b"5" + b";x" * 3000, b"", b"G",
         b"0" * 11 + b"5")  # fmt: skip
PIECES = (b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"\0", b": ",
          *HEADERS[:8], *SIZES)  # fmt: skip


class Answers:
    """Reads one answer in all ways there are."""

    name = "answers"
    what = "an HTTP answer to the client: the same however it is cut, and to another parser"
    share = 250

    def draw(self, rng: Random) -> Input:
        """An answer, mostly with something wrong, and where it is cut."""
        data = answer(rng)
        if rng.random() < 0.5:
            data = mutate_bytes(rng, data, PIECES)
        many = 1 if len(data) > 2000 else rng.choice((0, 1, 3, 12))
        cuts = sorted(rng.randint(0, len(data)) for _ in range(many))
        everywhere = len(data) < 1000 and rng.random() < 0.1
        return [data.decode("latin-1"), None if everywhere else cuts]

    def check(self, given: Input) -> list[str]:
        """Cuts change nothing; the stream reader and another parser agree."""
        data = as_bytes(given[0])
        cuts = [0, *given[1], len(data)] if given[1] is not None else list(range(len(data) + 1))
        pieces = [data[a:b] for a, b in pairwise(sorted(cuts)) if b > a]
        whole, cut = read_whole([data]), read_whole(pieces)
        wrong = []
        if whole != cut:
            wrong.append(f"cuts change an answer: {_brief(whole)} whole, {_brief(cut)} in pieces")
        streams = read_stream([data]), read_stream(pieces)
        if streams[0] != streams[1]:
            wrong.append(f"cuts change a stream: {_brief(streams[0])}, {_brief(streams[1])}")
        if _body(whole) != _body(streams[0]):
            wrong.append(f"a stream is read otherwise: {_brief(whole)}, {_brief(streams[0])}")
        if isinstance(whole, HttpResponse):
            wrong += _unlike_other_parser(whole, data)
        return wrong

    def close(self) -> None:
        """Nothing is held."""


def answer(rng: Random, body: bytes | None = None) -> bytes:
    """An answer of a server, mostly well-formed."""
    if body is None:
        body = rng.choice(BODIES)
    head = [
        b"HTTP/1.%d %s"
        % (rng.random() < 0.9, rng.choice(STATUS[:7] if rng.random() < 0.9 else STATUS))
    ]
    head += [rng.choice(HEADERS) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    if rng.random() < 0.4:
        head.append(b"Transfer-Encoding: chunked")
        body = b"".join(_chunks(rng, body))
    elif rng.random() < 0.8:
        head.append(b"Content-Length: %d" % len(body))
    if rng.random() < 0.1:
        head[:0] = [b"HTTP/1.1 100 Continue", b""] * rng.choice((1, 1, 3, 20))
    return b"\r\n".join([*head, b"", body])


def _chunks(rng: Random, body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        size = rng.randint(1, len(body) - at)
        written = rng.choice(SIZES) if rng.random() < 0.1 else b"%x" % size
        yield b"%s\r\n%s\r\n" % (written, body[at : at + size])
        at += size
    trailers = b"X: y\r\n" * rng.choice((0, 0, 0, 1, 3))
    yield b"0\r\n%s\r\n" % trailers


Outcome = HttpResponse | str
"""An answer, or the error that reading it ended with."""


def read_whole(pieces: list[bytes]) -> Outcome:
    """What comes of the bytes and the end of the connection."""
    reading = reader(limit=1 << 20)
    try:
        for number, piece in enumerate([*pieces, b""]):
            try:
                reading.send(piece)
            except StopIteration as finished:
                found: HttpResponse = finished.value
                if any(pieces[number + 1 :]):
                    return "Garbled"  # the connection refuses what comes without a request
                return found
    except Ambiguous as fault:
        return type(fault).__name__
    return "no answer and no error"


def read_stream(pieces: list[bytes]) -> Outcome:
    """The same as a stream, put together."""
    stream = StreamReader()
    found: list[bytes] = []
    try:
        for piece in pieces:
            if piece:
                stream.feed(piece, found)
        stream.feed_end()
    except Ambiguous as fault:
        return type(fault).__name__
    head = stream.head
    if head is None:
        return "no head and no error"
    reusable = head.reusable and (head.chunked or head.length is not None)
    return HttpResponse(head.status, b"".join(found), reusable, head.retry_after)


def _body(outcome: Outcome) -> object:
    return outcome if isinstance(outcome, HttpResponse) else "an error"


def _brief(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    return f"{outcome.status} with {len(outcome.body)} bytes, reusable {outcome.reusable}"


class _Socket:
    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)

    def makefile(self, mode: str) -> io.BytesIO:
        return self.file


def _unlike_other_parser(ours: HttpResponse, data: bytes) -> list[str]:
    """What the parser of the standard library reads otherwise of an answer that we take."""
    if not ours.reusable or ours.status in {204, 304}:  # no body, whatever the headers say
        return []
    source = _Socket(data)
    theirs = http.client.HTTPResponse(source)  # type: ignore[arg-type]  # it only makes a file
    try:
        theirs.begin()
        body = theirs.read()
    except (http.client.HTTPException, ValueError, OSError) as fault:
        if str(fault).startswith("got more than"):  # headers, or bytes of one: a limit of theirs
            return []
        return [f"another parser refuses an answer that we take: {type(fault).__name__}"]
    if (theirs.status, body) != (ours.status, ours.body):
        return [
            f"another parser reads {theirs.status} with {len(body)} bytes, we read {_brief(ours)}"
        ]
    return []
