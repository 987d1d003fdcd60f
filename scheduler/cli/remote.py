"""Requests to a running scheduler over HTTP; an error ends the command with its exit code."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import click

from scheduler.cli.exits import ERROR, UNREACHABLE, fail
from scheduler.cli.output import note

DEFAULT_SERVER = "http://127.0.0.1:10259"
TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER = 256 << 20

_OTHERS = "Name the leader's address with --server, or those of all replicas."

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Remote:
    """The addresses of a scheduler's replicas, and how to be let in there."""

    urls: tuple[str, ...]
    token: str = ""
    authority: str = ""
    """A file with the certificates to trust; else those that the system trusts."""
    verified: bool = True


@dataclass(frozen=True)
class AnsweringReplica:
    """The replica that answered, and the leader."""

    identity: str = ""
    leading: bool = True
    leader: str = ""

    @staticmethod
    def of(answer: Any) -> AnsweringReplica:
        """What an answer says of it; without a word, as of older versions, it is the leader."""
        said = answer.get("replica", {}) if isinstance(answer, dict) else {}
        return AnsweringReplica(
            said.get("identity", ""), said.get("leading", True), said.get("leader", "")
        )

    def standby(self) -> str:
        """In words, for a replica that does not lead."""
        known = f"the leader is {self.leader}" if self.leader else "there is no leader yet"
        return f"{self.identity} is a standby: {known}"


class NoAnswer(Exception):
    """No server answers; the text says where, and why not."""


class Refused(Exception):
    """The server answers with an error; the text is its own."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


def _server_urls(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(map(_server_url, given or (DEFAULT_SERVER,)))


def _server_url(given: str) -> str:
    """The address with a scheme and without a trailing slash."""
    url = (given if "://" in given else f"http://{given}").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise click.BadParameter(f"expected an address like {DEFAULT_SERVER}, not {given!r}")
    return url


_OPTIONS = (
    click.option(
        "--server",
        multiple=True,
        envvar="EQUIPOISE_SERVER",
        show_default=DEFAULT_SERVER,
        show_envvar=True,
        callback=_server_urls,
        metavar="URL",
        help="Where the scheduler serves. Repeat it for each replica: the leader is asked.",
    ),
    click.option(
        "--token",
        default="",
        envvar="EQUIPOISE_TOKEN",
        show_envvar=True,
        help="A bearer token of the cluster, if it serves to known callers only.",
    ),
    click.option(
        "--certificate-authority",
        default="",
        envvar="EQUIPOISE_CERTIFICATE_AUTHORITY",
        show_envvar=True,
        metavar="FILE",
        help="Who signed its certificate; default: whom the system trusts.",
    ),
    click.option(
        "--insecure-skip-tls-verify", is_flag=True, help="Trust any certificate, as self-signed."
    ),
)


def server_option() -> Callable[[Command], Command]:
    """The options that name a scheduler; the command gets them as one `Remote`, `server`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_remote(
            *args: Any,
            server: tuple[str, ...],
            token: str,
            certificate_authority: str,
            insecure_skip_tls_verify: bool,
            **others: Any,
        ) -> Any:
            remote = Remote(server, token, certificate_authority, not insecure_skip_tls_verify)
            return command(*args, server=remote, **others)

        for option in reversed(_OPTIONS):
            with_remote = option(with_remote)
        return with_remote  # type: ignore[return-value]  # the options changed the signature

    return decorate


def ask(server: Remote, path: str, **query: object) -> Any:
    """The JSON answer to a GET; ends the command with 4 without an answer, 1 if it is an error.

    Waits up to ten seconds for each part of the answer of each replica.
    """
    try:
        return fetch(server, path, **query)
    except NoAnswer as fault:
        fail(f"{fault}\nIs it running? Name another address with --server.", UNREACHABLE)
    except Refused as fault:
        fail(str(fault), ERROR)


def ask_leader(server: Remote, path: str, **query: object) -> Any:
    """Like `ask`, for what only the leader has: ends the command with 1 if a standby answers.

    As long as no replica leads, as right after a start, any replica is asked, and a note says so.
    """
    answer = ask(server, path, **query)
    replica = AnsweringReplica.of(answer)
    if not replica.leading and replica.leader:
        fail(f"{replica.standby()}\n{_OTHERS}", ERROR)
    _note_standby(replica)
    return answer


def ask_any_replica(server: Remote, path: str, **query: object) -> Any:
    """Like `ask`, for what a standby has too; a note says if one has answered."""
    answer = ask(server, path, **query)
    _note_standby(AnsweringReplica.of(answer))
    return answer


def tell_leader(server: Remote, path: str, **query: object) -> Any:
    """The JSON answer of the leader to a POST; ends the command as `ask` does."""
    try:
        return fetch(server, path, "POST", **query)
    except NoAnswer as fault:
        fail(f"{fault}\nIs it running? Name another address with --server.", UNREACHABLE)
    except Refused as fault:
        fail(str(fault), ERROR)


def _note_standby(replica: AnsweringReplica) -> None:
    if not replica.leading:
        note(replica.standby())


def fetch(server: Remote, path: str, method: str = "GET", /, **query: object) -> Any:
    """Like `ask`, but raises `NoAnswer` or `Refused`.

    Replicas are asked in turn until the leader answers. Without the leader, a standby's answer
    counts for more than a refusal, and a refusal for more than silence.
    """
    answers: list[Any] = []
    refusals: list[Refused] = []
    silences: list[NoAnswer] = []
    for url in server.urls:
        try:
            answer = _fetch(url, server, path, method, query)
        except Refused as refusal:
            refusals.append(refusal)
        except NoAnswer as silence:
            silences.append(silence)
        else:
            if AnsweringReplica.of(answer).leading:
                return answer
            answers.append(answer)
    if answers:
        return answers[0]
    if refusals:
        # What only the leader does, a standby cannot (503).
        raise min(refusals, key=lambda refusal: refusal.code == HTTPStatus.SERVICE_UNAVAILABLE)
    raise NoAnswer("\n".join(map(str, silences)))


def _fetch(url: str, server: Remote, path: str, method: str, query: dict[str, object]) -> Any:
    url = f"{url}{path}"
    if query:
        url += f"?{urlencode(query, quote_via=quote, safe='/')}"
    # A scheduler is next door, most often behind a port-forward: a proxy would only disturb.
    tls = [HTTPSHandler(context=_trust(server))] if url.startswith("https:") else []
    opener = build_opener(ProxyHandler({}), *tls)
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    try:
        request = Request(url, headers=headers, method=method)
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            body = response.read(LARGEST_ANSWER)
            if response.length:
                raise NoAnswer(f"no answer from {url}: it was cut off after {len(body)} bytes")
    except HTTPError as fault:
        with fault:
            hint = "\nName who you are with --token." if fault.code in (401, 403) else ""
            raise Refused(_explained(fault) + hint, fault.code) from None
    except URLError as fault:
        raise NoAnswer(f"no answer from {url}: {_cause(fault.reason)}") from None
    except (OSError, HTTPException) as fault:
        raise NoAnswer(f"no answer from {url}: {_cause(fault)}") from None
    try:
        return json.loads(body)
    except ValueError:
        raise Refused(f"{url} does not answer in JSON: is it a scheduler of ours?") from None


def _trust(server: Remote) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=server.authority or None)
    except OSError as fault:
        raise NoAnswer(f"{server.authority}: {_cause(fault)}") from None
    if not server.verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _explained(fault: HTTPError) -> str:
    """The words of an error answer: those of our endpoints, or the HTTP status of others."""
    try:
        return str(json.loads(fault.read(LARGEST_ANSWER))["error"]["message"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return f"{fault.url} answers {fault.code} {fault.reason}"


def _cause(fault: object) -> str:
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
