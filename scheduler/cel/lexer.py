"""Characters to tokens: the lexical grammar of CEL, with literals already read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduler.cel.errors import CelCompileError
from scheduler.cel.values import Uint, Value

MAX_INT = 2**63 - 1
MIN_INT = -(2**63)
MAX_UINT = 2**64 - 1

_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_PLAIN = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_RAW = "|".join(
    (r'[rR]"""(?s:.*?)"""', r"[rR]'''(?s:.*?)'''", r'[rR]"[^"\n\r]*"', r"[rR]'[^'\n\r]*'")
)
# Every alternative begins differently or is ordered by length, and no repetition contains
# another: matching is linear in the text.
_TOKEN = re.compile(
    rf"""
      (?P<skip>[\t \r\n\f]+|//[^\n]*)
    | (?P<bytes>[bB](?:{_RAW}|{_PLAIN}))
    | (?P<string>{_RAW}|{_PLAIN})
    | (?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<escaped>`[A-Za-z0-9_./\- ]+`)
    | (?P<mark>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}


@dataclass(slots=True, frozen=True)
class LexToken:
    """`kind` is a mark or operator itself, or name, escaped, literal, end."""

    kind: str
    text: str
    position: int
    value: Value = None


def tokens(text: str) -> list[LexToken]:
    """All tokens of a text, the last one of kind `end`. Raises `CelCompileError`."""
    found: list[LexToken] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise syntax_error(text, position, f"token recognition error at: '{text[position]}'")
        kind = match.lastgroup or ""
        word = match.group()
        if kind != "skip":
            found.append(_token(text, kind, word, position))
        position = match.end()
    found.append(LexToken("end", "<EOF>", len(text)))
    return found


def _token(text: str, kind: str, word: str, position: int) -> LexToken:
    if kind == "name":
        if word in _WORDS:
            return LexToken("literal", word, position, _WORDS[word])
        return LexToken("in" if word == "in" else "name", word, position)
    if kind in {"mark", "escaped"}:
        return LexToken(word if kind == "mark" else kind, word, position)
    if kind == "int":  # the sign before it decides whether it is too large
        return LexToken("int", word, position)
    if kind == "float":
        return LexToken("float", word, position)
    return LexToken("literal", word, position, _literal(text, kind, word, position))


def _literal(text: str, kind: str, word: str, position: int) -> Value:
    if kind == "uint":
        number = number_of(word[:-1])
        if number > MAX_UINT:
            raise located(text, position, "invalid uint literal")
        return Uint(number)
    body = word[1:] if kind == "bytes" else word
    raw = body[0] in "rR"
    body = body[1:] if raw else body
    quotes = 3 if len(body) >= 6 and body[:3] in {'"""', "'''"} else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    try:
        if kind == "bytes":
            return body.encode() if raw or "\\" not in body else _unescape_bytes(body)
        return body if raw or "\\" not in body else _unescape(body)
    except (ValueError, OverflowError):
        raise located(text, position, "invalid unicode code point") from None


def number_of(word: str) -> int:
    """The number that digits, or 0x and hexadecimal digits, say; more than 64 bits is enough."""
    digits = word[2:] if word.startswith("0x") else word
    if len(digits.lstrip("0")) > 20:
        return MAX_UINT + 1
    return int(digits, 16 if word.startswith("0x") else 10)


def _unescape(body: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group()[1:]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        code = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
        if 0xD800 <= code <= 0xDFFF:
            raise ValueError(escape)
        return chr(code)

    return re.sub(_ESCAPE, replace, body)


def _unescape_bytes(body: str) -> bytes:
    parts: list[bytes] = []
    position = 0
    for match in re.finditer(_ESCAPE, body):
        parts.append(body[position : match.start()].encode())
        escape = match.group()[1:]
        if escape in _ESCAPES:
            parts.append(_ESCAPES[escape].encode())
        elif escape[0] in "uU":
            raise ValueError(escape)
        else:
            code = int(escape[1:], 16) if escape[0] in "xX" else int(escape, 8)
            parts.append(bytes((code,)))
        position = match.end()
    parts.append(body[position:].encode())
    return b"".join(parts)


def located(text: str, position: int, message: str) -> CelCompileError:
    """An error at a place of the text, shown as cel-go shows it."""
    return CelCompileError(f"compilation failed: {display(text, position, message)}")


def syntax_error(text: str, position: int, message: str) -> CelCompileError:
    return located(text, position, f"Syntax error: {message}")


def display(text: str, position: int, message: str) -> str:
    """`message` with line and column, the line, and a mark below the place."""
    line = text.count("\n", 0, position)
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    source = text[start : len(text) if end < 0 else end].replace("\t", " ")
    column = position - start
    return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {source}\n | {'.' * column}^"
