"""Asks a running scheduler over HTTP; trouble ends the command with the exit code for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

import click

from scheduler.cli.exits import ERROR, UNREACHABLE, fail

DEFAULT_SERVER = "http://127.0.0.1:10259"
TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER = 256 << 20

Command = TypeVar("Command", bound=Callable[..., Any])


class Unreachable(Exception):
    """Nobody answers there; the text says where, and why not."""


class Refused(Exception):
    """The scheduler, or whoever answers in its place, has no good answer; the text is theirs."""


def _server_url(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
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


def server_option() -> Callable[[Command], Command]:
    """The ``--server`` option, which the environment may set."""
    return click.option(
        "--server",
        default=DEFAULT_SERVER,
        envvar="EQUIPOISE_SERVER",
        show_default=True,
        show_envvar=True,
        callback=_server_url,
        metavar="URL",
        help="Where the scheduler serves.",
    )


def ask(server: str, path: str, **query: object) -> Any:
    """The JSON answer to a GET; ends the command with 4 if nobody answers, 1 if the answer is no.

    Waits up to ten seconds for each part of the answer.
    """
    try:
        return fetch(server, path, **query)
    except Unreachable as fault:
        fail(f"{fault}\nIs it running? Name another address with --server.", UNREACHABLE)
    except Refused as fault:
        fail(str(fault), ERROR)


def fetch(server: str, path: str, **query: object) -> Any:
    """Like `ask`, but raises `Unreachable` or `Refused`."""
    url = f"{server}{path}"
    if query:
        url += f"?{urlencode(query, quote_via=quote, safe='/')}"
    # A scheduler is next door, most often behind a port-forward: a proxy would only be in the way.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_SECONDS) as response:
            body = response.read(LARGEST_ANSWER)
            if response.length:
                raise Unreachable(f"no answer from {url}: it was cut off after {len(body)} bytes")
    except HTTPError as fault:
        with fault:
            raise Refused(_explained(fault)) from None
    except URLError as fault:
        raise Unreachable(f"no answer from {url}: {_cause(fault.reason)}") from None
    except (OSError, HTTPException) as fault:
        raise Unreachable(f"no answer from {url}: {_cause(fault)}") from None
    try:
        return json.loads(body)
    except ValueError:
        raise Refused(f"{url} does not answer in JSON: is it a scheduler of ours?") from None


def _explained(fault: HTTPError) -> str:
    """The words of an error answer: those of our endpoints, or the HTTP status of others."""
    try:
        return str(json.loads(fault.read(LARGEST_ANSWER))["error"]["message"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return f"{fault.url} answers {fault.code} {fault.reason}"


def _cause(fault: object) -> str:
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
