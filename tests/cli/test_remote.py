"""Asking over HTTP: servers that are not ours, or not well."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.cli.remote import Refused, Unreachable, fetch


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that says the same to everyone and hangs up; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(timeout=30)


def test_a_page_is_not_an_answer() -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n<html>hello</html>") as url,
        pytest.raises(Refused, match="does not answer in JSON"),
    ):
        fetch(url, "/api/v1/queue")


def test_errors_of_other_servers_are_told_by_their_status() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\nspeak TLS") as url,
        pytest.raises(Refused, match="/api/v1/queue answers 400 Bad Request"),
    ):
        fetch(url, "/api/v1/queue")


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]
)
def test_a_broken_answer_is_none(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(Unreachable, match=f"no answer from {url}"):
        fetch(url, "/api/v1/queue")


def test_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with answering(b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}') as url:
        assert fetch(url, "/x", limit=1) == {"a": 1}
