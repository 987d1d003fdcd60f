"""Strings that Kubernetes' own components read and a strict decoder refuses.

The API server keeps free fields, such as the parameters of a ResourceClaim, byte for byte. Their
strings may have halves of surrogate pairs or bytes that are not UTF-8: whoever may create a claim
can write them. Go reads U+FFFD in their place; so do we.
"""

import re

_SURROGATES = re.compile(
    rb"(\\\\)"
    rb"|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def as_go_reads(body: bytes) -> bytes:
    """The same JSON with U+FFFD for what is no character. O(bytes), and only for odd objects."""
    try:
        body.decode()
    except UnicodeDecodeError:
        body = body.decode(errors="replace").encode()
    return _SURROGATES.sub(_replaced, body)


def _replaced(found: re.Match[bytes]) -> bytes:
    """A pair and an escaped backslash stay; half a pair is no character."""
    return rb"\ufffd" if found[3] else found[0]
