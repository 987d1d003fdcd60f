"""URLs, read as Go's net/url reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, unquote_to_bytes

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.network import parse_address
from scheduler.cel.values import CelMap, Url, Value, type_name

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(:[0-9]*)?")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*")
_HOST_ESCAPE = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_VALID_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*")
_PATH_SAFE = "/$&+,:;=@~"


class _Bad(ValueError):
    """The text is not a URL."""


def parse(text: str) -> Url:
    """The URL that a text is, if a request could name it. Raises `_Bad`."""
    if _CONTROL.search(text):
        raise _Bad("net/url: invalid control character in URL")
    if not text:
        raise _Bad("empty url")
    if text == "*":
        return Url("*", "", "", "*", "")
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise _Bad("missing protocol scheme")
    scheme = match[1].lower() if match else ""
    rest, _, query = (text[match.end() :] if match else text).partition("?")
    rest, query = _without_fragment(rest, query, text, match.end() if match else 0)
    if not rest.startswith("/"):
        if not scheme:
            raise _Bad("invalid URI for request")
        return Url(text, scheme, "", "", query)
    host = ""
    # Without a scheme, url() reads the text again as a reference, where //host is an authority.
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host = _authority(scheme, authority)
        rest = slash + path
    if _BAD_ESCAPE.search(rest):
        raise _Bad("invalid URL escape")
    return Url(text, scheme, host, rest, query)


def _without_fragment(rest: str, query: str, text: str, start: int) -> tuple[str, str]:
    if "#" not in text:
        return rest, query
    before = text[start:].partition("#")[0]
    rest, _, query = before.partition("?")
    return rest, query


def _authority(scheme: str, authority: str) -> str:
    user, _, host = authority.rpartition("@")
    if _USER.fullmatch(user) is None or _BAD_ESCAPE.search(user):
        raise _Bad("net/url: invalid userinfo")
    if _BAD_ESCAPE.search(host):
        raise _Bad("invalid URL escape")
    if "[" in host:
        return _literal_host(host)
    first = host.find(":")
    if first >= 0:
        colon = first if scheme in {"http", "https"} else host.rfind(":")
        if _PORT.fullmatch(host[colon:]) is None:
            raise _Bad(f'invalid port "{host[colon:]}" after host')
    if _HOST.fullmatch(host) is None or _HOST_ESCAPE.search(host):
        raise _Bad("invalid character in host name")
    return unquote(host)


def _literal_host(host: str) -> str:
    close = host.rfind("]")
    if host.rfind("[") > 0:
        raise _Bad("invalid IP-literal")
    if close < 0:
        raise _Bad("missing ']' in host")
    if _PORT.fullmatch(host[close + 1 :]) is None:
        raise _Bad(f'invalid port "{host[close + 1 :]}" after host')
    name, _, _zone = unquote(host[1:close]).partition("%")
    address = parse_address(name)
    mapped = re.fullmatch(r"::ffff:[0-9.]+", name, re.IGNORECASE)
    if mapped is None and (address is None or address.version == 4):
        raise _Bad("invalid host")
    return f"[{unquote(host[1:close])}]{host[close + 1 :]}"


def request_uri_problem(text: str) -> str | None:
    """Why Go's ParseRequestURI does not take a text, if so: it does not know fragments."""
    try:
        parse(text.replace("#", "%23"))
    except _Bad as error:
        return str(error)
    return None


def url(value: Value) -> Url:
    if type(value) is not str:
        raise no_such_overload("url", type_name(value))
    try:
        parse(value.replace("#", "%23"))
        return parse(value)
    except _Bad as error:
        message = f'URL parse error during conversion from string: parse "{value}": {error}'
        raise CelRuntimeError(message) from None


def is_url(value: Value) -> bool:
    if type(value) is not str:
        raise no_such_overload("isURL", type_name(value))
    return request_uri_problem(value) is None


def _split_port(host: str) -> tuple[str, str]:
    port = ""
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def _escaped_path(value: Url) -> str:
    path = value.path
    if path == "*" or _VALID_PATH.fullmatch(path):
        return path
    return quote(unquote_to_bytes(path), safe=_PATH_SAFE)


def _query(value: Url) -> CelMap:
    found: dict[str, tuple[str, list[str]]] = {}
    for part in value.query.split("&"):
        key, _, content = part.partition("=")
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        name = unquote(key.replace("+", " "))
        values = found.setdefault(name, (name, []))[1]
        values.append(unquote(content.replace("+", " ")))
    return CelMap(found)


_OF_URL: dict[str, Callable[[Url], Value]] = {
    "getScheme": lambda value: value.scheme,
    "getHost": lambda value: value.host,
    "getHostname": lambda value: _split_port(value.host)[0],
    "getPort": lambda value: _split_port(value.host)[1],
    "getEscapedPath": _escaped_path,
    "getQuery": _query,
}


def _accessor(function: str) -> Callable[[Value], Value]:
    def access(value: Value) -> Value:
        if type(value) is not Url:
            raise no_such_overload(function, type_name(value))
        return _OF_URL[function](value)

    return access


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{function: _accessor(function) for function in _OF_URL},
    "isURL": is_url,
    "url": url,
}
