"""Answers as bytes: what is taken out of them, however they are cut, and what is refused."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube import http1
from scheduler.kube.errors import Ambiguous, Garbled, TooLarge
from scheduler.kube.http1 import HttpResponse, StreamReader


def read(*pieces: bytes) -> HttpResponse | None:
    """The answer that the pieces make; ``b""`` is the end of the connection."""
    reading = http1.reader()
    for number, piece in enumerate(pieces):
        try:
            reading.send(piece)
        except StopIteration as finished:
            assert number == len(pieces) - 1, "an answer ends with its last byte and not before"
            answer: HttpResponse = finished.value
            return answer
    return None


def ok(*headers: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        pytest.param(
            ok("Content-Length: 5", body=b"hello"), HttpResponse(200, b"hello", True), id="a length"
        ),
        pytest.param(
            ok("cOnTeNt-LeNgTh:5  ", "Date: now", body=b"hello"),
            HttpResponse(200, b"hello", True),
            id="headers in any case, with and without spaces",
        ),
        pytest.param(
            ok("Content-Length: 0", status="201"),
            HttpResponse(201, b"", True),
            id="no reason phrase",
        ),
        pytest.param(
            ok("Transfer-Encoding: chunked", body=b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"),
            HttpResponse(200, b"abc0123456789", True),
            id="chunks, one with an extension",
        ),
        pytest.param(
            ok("Transfer-Encoding: Chunked", body=b"1\r\na\r\n0\r\nTrailer: x\r\nMore: y\r\n\r\n"),
            HttpResponse(200, b"a", True),
            id="chunks and trailers",
        ),
        pytest.param(
            ok("Content-Length: 2", "Connection: close", body=b"{}"),
            HttpResponse(200, b"{}", False),
            id="the server wants to close",
        ),
        pytest.param(
            ok("Content-Length: 2", "Connection: x, Close", "Connection: y", body=b"{}"),
            HttpResponse(200, b"{}", False),
            id="the server wants to close, among other things",
        ),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            HttpResponse(200, b"{}", False),
            id="old",
        ),
        pytest.param(
            ok("Retry-After: 7", "Content-Length: 0", status="429 Too Many Requests"),
            HttpResponse(429, b"", True, "7"),
            id="come back later",
        ),
        pytest.param(
            ok(status="100 Continue") + ok(status="103 Hints") + ok("Content-Length: 1", body=b"x"),
            HttpResponse(200, b"x", True),
            id="announcements before the answer",
        ),
        pytest.param(ok(status="204 No Content"), HttpResponse(204, b"", True), id="no content"),
        pytest.param(
            ok("X-Content-Length: 9", "Content-Length: 1", body=b"x"),
            HttpResponse(200, b"x", True),
            id="a header whose name ends like another",
        ),
    ],
)
def test_an_answer_is_the_same_however_it_is_cut(raw: bytes, answer: HttpResponse) -> None:
    assert read(raw) == answer
    assert read(*(raw[at : at + 1] for at in range(len(raw)))) == answer
    for cut in range(1, len(raw)):
        assert read(raw[:cut], raw[cut:]) == answer


def test_a_body_without_a_length_goes_on_until_the_end() -> None:
    assert read(ok(), b"one", b"two", b"") == HttpResponse(200, b"onetwo", False)
    assert read(ok(body=b"all"), b"") == HttpResponse(200, b"all", False)


@given(
    body=st.binary(max_size=400),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=20),
)
def test_chunks_of_any_size_in_pieces_of_any_size(
    body: bytes, cuts: list[int], sizes: list[int]
) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in _pieces(body, sizes))
    raw = ok("Transfer-Encoding: chunked", body=chunks + b"0\r\n\r\n")
    assert read(*_pieces(raw, cuts)) == HttpResponse(200, body, True)


@given(noise=st.binary(min_size=1, max_size=200))
def test_noise_is_refused_or_waited_on_but_nothing_else(noise: bytes) -> None:
    try:
        answer = read(noise, b"")
    except Ambiguous:
        return
    assert answer is None or re.match(rb"HTTP/1\.[01] [1-5]\d\d", noise)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", id="a status of four digits"),
        pytest.param(ok("Content-Length: 1", body=b"xy"), id="more than announced"),
        pytest.param(ok("Content-Length: -1"), id="a negative length"),
        pytest.param(ok("Content-Length: 1_0"), id="a length as only Python writes it"),
        pytest.param(ok("Content-Length: 1e3"), id="a length with an exponent"),
        pytest.param(ok("Content-Length:"), id="an empty length"),
        pytest.param(ok("Content-Length: 9999999999999"), id="more than memory"),
        pytest.param(ok("Content-Length: 1", "Content-Length: 2", body=b"xy"), id="two lengths"),
        pytest.param(
            ok("Content-Length: 1", "Transfer-Encoding: chunked", body=b"x"), id="length and chunks"
        ),
        pytest.param(
            ok("Content-Encoding: gzip", "Content-Length: 1", body=b"x"), id="a compressed body"
        ),
        pytest.param(ok(status="100 Continue") * 9, id="announcements without end"),
        pytest.param(
            ok("Transfer-Encoding: chunked", body=b"0\r\n" + b"X: y\r\n" * 20_000),
            id="trailers without end",
        ),
        pytest.param(ok("Transfer-Encoding: gzip", body=gzip.compress(b"x")), id="compressed"),
        pytest.param(ok("Transfer-Encoding: chunked", body=b"x\r\n"), id="no chunk size"),
        pytest.param(ok("Transfer-Encoding: chunked", body=b"-1\r\n"), id="a negative chunk"),
        pytest.param(ok("Transfer-Encoding: chunked", body=b"1\r\nab\r\n"), id="too long a chunk"),
        pytest.param(
            ok("Transfer-Encoding: chunked", body=b"0\r\n\r\nHTTP"), id="bytes after the last chunk"
        ),
        pytest.param(ok(status="204 No Content", body=b"x"), id="content in spite of all"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, id="headers without end"),
        pytest.param(
            ok("Transfer-Encoding: chunked", body=b"1" * 70_000), id="a chunk size without end"
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(raw: bytes) -> None:
    with pytest.raises(Garbled):
        read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        ok("Content-Length: 3", body=b"ab"),
        ok("Transfer-Encoding: chunked", body=b"3\r\nab"),
        ok("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n"),
        ok(status="100 Continue"),
    ],
    ids=["at once", "in the headers", "in the body", "in a chunk", "between chunks", "announced"],
)
def test_a_connection_that_ends_too_early_is_no_answer(raw: bytes) -> None:
    with pytest.raises(Ambiguous, match="ended before"):
        read(*filter(None, (raw,)), b"")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(ok(body=b"x" * 101), id="until the end"),
        pytest.param(ok("Content-Length: 101"), id="announced"),
        pytest.param(ok("Transfer-Encoding: chunked", body=b"fffffffff\r\n"), id="a vast chunk"),
        pytest.param(
            ok("Transfer-Encoding: chunked", body=b"40\r\n" + b"x" * 64 + b"\r\n40\r\n"),
            id="in chunks",
        ),
    ],
)
def test_a_body_of_more_bytes_than_the_caller_takes_is_refused(raw: bytes) -> None:
    with pytest.raises(TooLarge, match="more than 100 bytes"):
        http1.reader(100).send(raw)


def stream(*pieces: bytes) -> tuple[bytes, bool]:
    """The body that a stream's pieces make, and whether it has ended."""
    reading = StreamReader()
    parts: list[bytes] = []
    for piece in pieces:
        reading.feed(piece, parts)
    return b"".join(parts), reading.ended


@given(
    body=st.binary(max_size=400),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=20),
)
def test_a_stream_is_read_as_the_whole_answer_is(
    body: bytes, cuts: list[int], sizes: list[int]
) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in _pieces(body, sizes))
    raw = ok("Transfer-Encoding: chunked", body=chunks + b"0\r\n\r\n")
    assert stream(*_pieces(raw, cuts)) == (body, True)
    counted = ok(f"Content-Length: {len(body)}", body=body)
    assert stream(*_pieces(counted, cuts)) == (body, True)
    assert stream(*_pieces(ok(body=body), cuts)) == (body, False)


@given(
    noise=st.binary(min_size=1, max_size=60) | st.text("0123456789abcdef\r\n;", min_size=1),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
def test_a_stream_and_a_whole_answer_refuse_the_same_noise(
    noise: bytes | str, cuts: list[int]
) -> None:
    raw = ok("Transfer-Encoding: chunked") + (noise if isinstance(noise, bytes) else noise.encode())
    whole: HttpResponse | None = None
    try:
        whole = read(raw)
    except Garbled:
        with pytest.raises(Garbled):
            stream(*_pieces(raw, cuts))
        return
    except AssertionError:
        return
    body, ended = stream(*_pieces(raw, cuts))
    assert ended == (whole is not None)
    assert whole is None or body == whole.body


def _pieces(whole: bytes, sizes: list[int]) -> list[bytes]:
    """The whole, cut into pieces of these sizes in turn."""
    pieces: list[bytes] = []
    while whole:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(whole[:size])
        whole = whole[size:]
    return pieces
