"""Asking over HTTP: servers that are not ours, or not well."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from scheduler.cli.addresses import CallerCredentials, NoAnswer, Refused
from scheduler.cli.main import cli
from scheduler.cli.remote import Remote, fetch
from scheduler.serve.endpoints import build_app
from scheduler.serve.server import Server
from tests.patience import PATIENCE
from tests.serve.fake_backend import FakeBackend


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that sends the same response to every client and closes; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(timeout=PATIENCE)


def test_a_page_is_not_an_answer() -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n<html>hello</html>") as url,
        pytest.raises(Refused, match="does not return JSON"),
    ):
        fetch(Remote((url,)), "/api/v1/queue")


def test_errors_of_other_servers_are_told_by_their_status() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\nspeak TLS") as url,
        pytest.raises(Refused, match="/api/v1/queue answers 400 Bad Request"),
    ):
        fetch(Remote((url,)), "/api/v1/queue")


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]
)
def test_a_broken_answer_is_none(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(NoAnswer, match=f"no answer from {url}"):
        fetch(Remote((url,)), "/api/v1/queue")


def ok(body: object) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(body).encode()


LEADER = {"replica": {"identity": "a", "leading": True, "leader": "a"}, "limit": 1}
STANDBY = {"replica": {"identity": "b", "leading": False, "leader": "a"}, "limit": 1}
NOBODY = "http://127.0.0.1:1"
NO = b'HTTP/1.1 404 Not Found\r\n\r\n{"error": {"message": "unknown pod"}}'


def test_of_all_replicas_the_leader_is_asked() -> None:
    with answering(ok(STANDBY)) as standby, answering(ok(LEADER)) as leader:
        assert fetch(Remote((NOBODY, standby, leader)), "/x") == LEADER


def test_without_the_leader_a_standby_answers() -> None:
    with answering(NO) as other, answering(ok(STANDBY)) as standby:
        assert fetch(Remote((NOBODY, other, standby)), "/x") == STANDBY


def test_a_refusal_says_more_than_silence() -> None:
    with answering(NO) as other, pytest.raises(Refused, match="unknown pod"):
        fetch(Remote((NOBODY, other)), "/x")


def test_everybody_who_does_not_answer_is_named() -> None:
    with pytest.raises(NoAnswer, match=r"(?s)127\.0\.0\.1:1/x.*127\.0\.0\.2:1/x"):
        fetch(Remote((NOBODY, "http://127.0.0.2:1")), "/x")


def test_an_older_scheduler_that_names_no_leader_is_believed() -> None:
    with answering(ok({"a": 1})) as url:
        assert fetch(Remote((url,)), "/x") == {"a": 1}


def test_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with answering(b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}') as url:
        assert fetch(Remote((url,)), "/x", limit=1) == {"a": 1}


def test_a_redirect_is_not_followed() -> None:
    """A token that was meant for one server would go to another."""
    with (
        answering(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n") as url,
        pytest.raises(Refused, match="answers 302 Found"),
    ):
        fetch(Remote((url,), CallerCredentials("secret")), "/x")


@contextmanager
def protected(authority: trustme.CA) -> Iterator[tuple[str, list[str]]]:
    """A TLS server that requires a token; yields its address and the tokens that it got."""
    shown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization", ""))
            known = shown[-1] == "Bearer secret"
            body = {"a": 1} if known else {"error": {"code": 403, "message": "who are you"}}
            self.send_response(200 if known else 403)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object, **__: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", shown
    finally:
        server.shutdown()
        thread.join(timeout=PATIENCE)
        server.server_close()


def test_tokens_are_shown_over_tls_that_is_verified(tmp_path: Path) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(trusted)
    with protected(authority) as (url, shown):
        with pytest.raises(NoAnswer, match="certificate verify failed"):
            fetch(Remote((url,), CallerCredentials("secret")), "/x")
        assert shown == [], "the token was not told to somebody unknown"
        assert fetch(Remote((url,), CallerCredentials("secret", str(trusted))), "/x") == {"a": 1}
        assert fetch(Remote((url,), CallerCredentials("secret", verified=False)), "/x") == {"a": 1}
        with pytest.raises(Refused, match="who are you\nName who you are with --token"):
            fetch(Remote((url,), CallerCredentials(authority=str(trusted))), "/x")


async def test_no_token_is_asked_for_by_a_scheduler_that_looks_at_none() -> None:
    async with Server(build_app(FakeBackend())) as server:
        asked = ["approve", "p", "--server", server.url]
        result = await asyncio.to_thread(CliRunner().invoke, cli, asked)
    assert result.exit_code == 1
    assert "callers are not authenticated: set server.protection" in result.output
    assert "--token" not in result.output


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    given = CallerCredentials(authority=str(tmp_path / "none.crt"))
    with pytest.raises(NoAnswer, match=r"none\.crt: No such file"):
        fetch(Remote(("https://127.0.0.1:1",), given), "/x")


def test_the_options_reach_the_server(tmp_path: Path) -> None:
    with protected(trustme.CA()) as (url, _):
        asked = ["queue", "--server", url, "--insecure-skip-tls-verify", "-o", "json"]
        result = CliRunner().invoke(cli, asked, env={"EQUIPOISE_TOKEN": "secret"})
        assert (result.exit_code, json.loads(result.output)) == (0, {"a": 1})
        assert CliRunner().invoke(cli, asked).exit_code == 1
