"""Requests to a scheduler at a given address, over HTTP or TLS."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

from scheduler.config.trust import tls_context

TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER = 256 << 20


class NoAnswer(Exception):
    """No server answers; the text says where, and why not."""


class Refused(Exception):
    """The server answers with an error; the text is its own."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class ProxiedCall:
    """One request to the serving API, wherever it is sent."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    method: str = "GET"
    body: Any = None
    """Encoded as JSON; None if there is none."""

    @property
    def target(self) -> str:
        """Path and query."""
        if not self.query:
            return self.path
        return f"{self.path}?{urlencode(self.query, quote_via=quote, safe='/')}"


_NOBODY_IS_KNOWN = "callers are not authenticated"
"""How a scheduler refuses decisions that looks at no credentials (`serve.endpoints`)."""


@dataclass(frozen=True)
class CallerCredentials:
    """Credentials, and the authority to trust."""

    token: str = ""
    authority: str = ""
    """A file with the certificates to trust; else those that the system trusts."""
    verified: bool = True


class _NoRedirects(HTTPRedirectHandler):
    """A token goes to the server that was named and to no other: redirects are errors."""

    def redirect_request(self, *_: Any) -> None:
        """Nothing to follow."""


def send(url: str, credentials: CallerCredentials, call: ProxiedCall) -> Any:
    """The JSON answer of the server at an address; raises `NoAnswer` or `Refused`."""
    url = f"{url}{call.target}"
    # A scheduler is next door, most often behind a port-forward: a proxy would only disturb.
    tls = [HTTPSHandler(context=_trust(credentials))] if url.startswith("https:") else []
    opener = build_opener(ProxyHandler({}), _NoRedirects(), *tls)
    headers = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
    data = None if call.body is None else json.dumps(call.body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    try:
        request = Request(url, data, headers, method=call.method)
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            body = response.read(LARGEST_ANSWER)
            if response.length:
                raise NoAnswer(f"no answer from {url}: it was cut off after {len(body)} bytes")
    except HTTPError as fault:
        with fault:
            raise refusal(url, fault.code, fault.reason, _rest(fault)) from None
    except URLError as fault:
        raise NoAnswer(f"no answer from {url}: {cause(fault.reason)}") from None
    except (OSError, HTTPException) as fault:
        raise NoAnswer(f"no answer from {url}: {cause(fault)}") from None
    return decoded(url, body)


def decoded(url: str, body: bytes) -> Any:
    """The JSON of an answer; raises `Refused` for any other."""
    try:
        return json.loads(body)
    except ValueError:
        raise Refused(f"{url} does not return JSON: is it an Equipoise scheduler?") from None


def refusal(url: str, code: int, phrase: str, body: bytes) -> Refused:
    """An error answer: in the words of our endpoints or, of others, by its HTTP status."""
    said = own_words(body)
    token_helps = code in (401, 403) and not said.startswith(_NOBODY_IS_KNOWN)
    hint = "\nName who you are with --token." if token_helps else ""
    return Refused((said or f"{url} answers {code} {phrase}") + hint, code)


def own_words(body: bytes) -> str:
    """What our endpoints say in an error answer; empty if it is not one of ours."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def cause(fault: object) -> str:
    """Why something failed, in a few words."""
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__


def _rest(fault: HTTPError) -> bytes:
    try:
        return fault.read(LARGEST_ANSWER)
    except (OSError, HTTPException):
        return b""


def _trust(credentials: CallerCredentials) -> ssl.SSLContext:
    try:
        context = tls_context(cafile=credentials.authority or None)
    except OSError as fault:
        raise NoAnswer(f"{credentials.authority}: {cause(fault)}") from None
    if not credentials.verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
