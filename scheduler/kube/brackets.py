"""Parts of JSON that is nested deeper than a decoder follows, found by their brackets.

A user who may create an object with free fields, such as a ResourceClaim, can nest it deeper than
any decoder follows. What lies around it can still be read: slower, and as deep as it may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_KEY = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)


def spans(body: bytes, start: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Where the values of an array, or the members of an object, begin and end.

    ``start`` is behind its bracket. Raises DecodeError at the end of the body, or after ``most``
    brackets, commas and strings.
    """
    depth, begins = 0, start
    for number, token in enumerate(_TOKENS.finditer(body, start)):
        if number == most:
            raise msgspec.DecodeError("a part begins too late to be looked for")
        match token.group():
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}":
                depth -= 1
            case b",":
                if depth == 0:
                    yield begins, token.start()
                    begins = token.end()
            case _:
                pass
        if depth < 0:
            if body[begins : token.start()].strip():
                yield begins, token.start()
            return
    raise msgspec.DecodeError("the body ends within a value")


def members(body: bytes, most: int | None = None) -> Iterator[tuple[str, bytes]]:
    """The members of an object, their values still raw. Raises as `spans`."""
    opening = body.find(b"{")
    if opening < 0 or body[:opening].strip():
        raise msgspec.DecodeError("expected an object")
    for first, last in spans(body, opening + 1, most):
        key = _KEY.match(body, first, last)
        if key is None:
            raise msgspec.DecodeError("expected a member of an object")
        yield key[1].decode(errors="replace"), body[key.end() : last]
