"""Mutations of valid objects and of bytes: what hostile or broken writers send.

A mutated object still encodes as JSON, or nearly so: `msgspec.Raw` stands for text that no Python
value encodes to, such as a number out of range or a key that is written twice.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

MOST_BYTES = 1_500_000
"""As much as etcd stores in one object."""
MOST_TRIES = 5
"""How often an object is mutated anew that became larger."""

Place = tuple[Any, Any]
"""A container and the key or the index of a value in it."""


def copied(value: Any) -> Any:
    """A copy of plain JSON; `copy.deepcopy` takes several times as long."""
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    if type(value) is list:
        return [copied(each) for each in value]
    return value


def _raw(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text)


def nested(depth: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> msgspec.Raw:
    """A value in so many others."""
    return _raw(opening * depth + b"1" + closing * depth)


TEXTS: tuple[Any, ...] = (
    "", " ", "/", "a/b", "a/b/c", "..", "\u0000", "\u202e\U0001f4a9", "é" * 40, "x" * 300,
    "x" * 70_000,
    "-5", "9" * 200, "1e9999999", "1e99999999999999999999", "1e-99999999", "NaN", "Infinity",
    "null",
    "true", "0x10", "1_000", "١٢", "1Ki ", "+1", "-0", "1e", ".", "1.", ".5", "0." + "0" * 60 + "1",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1Ei", "8Ei", "1e18",
    "9e18",
    "Exists", "In", "NoExecute", "DoNotSchedule", "*", "equipoise", "n0", "c0", "metadata.name",
    "%s%n", "{}", "\n", "a\nb", "\r\n\r\n", "$ref", "__proto__",
    _raw(b'"\\ud800"'), _raw(b'"\\udc00\\ud800"'), _raw(b'"\xff\xfe"'), _raw(b'"\xed\xa0\x80"'),
    _raw(b'"\\u0000"'), _raw(b'"\\x"'),
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40, 10**300,
    0.1, -0.5, 1e308, 1.0, 5e-324, 65_535, 65_536, 1_000_000,
    _raw(b"1e400"), _raw(b"-1e400"), _raw(b"NaN"), _raw(b"Infinity"), _raw(b"-0"), _raw(b"-0.0"),
    _raw(b"1e5"), _raw(b"1E+2"), _raw(b"01"), _raw(b"9" * 5000), _raw(b"1" + b"0" * 400),
)  # fmt: skip
LISTS: tuple[Any, ...] = ([], [None], [[]], [{}], ["a"] * 40, [1, "a", None], [""], ["a", "a"])
OBJECTS: tuple[Any, ...] = (
    {}, {"": None}, {"": ""}, {"a": {}}, {"a/b": "c"}, {"x" * 70_000: "y"}, {"\u0000": "1"},
    _raw(b'{"a":1,"a":"2"}'), nested(60), nested(300),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, nested(1100), nested(1100, b"[", b"]"))
ANY = (*TEXTS, *NUMBERS, *LISTS, *OBJECTS, *OTHERS)


def mutate_object(rng: Random, body: Any, most: int = 3) -> Any:
    """A copy with one or a few places changed, no larger than any; what it is called stays."""
    for _ in range(MOST_TRIES):
        changed = copied(body)
        for _ in range(rng.randint(1, most)):
            found = places(changed)
            if not found:
                break
            rng.choice(_MUTATIONS)(rng, found)
        if len(encoded(changed)) <= MOST_BYTES:
            return changed
    return copied(body)


_NAMES = frozenset({"apiVersion", "kind"})


def places(body: Any) -> list[Place]:
    """Where values may be changed."""
    found: list[Place] = []
    left = [body]
    add = found.append
    while left:
        each = left.pop()
        pairs = each.items() if type(each) is dict else enumerate(each)
        for key, value in pairs:
            if key not in _NAMES:
                add((each, key))
            if type(value) is dict or type(value) is list:
                left.append(value)
    return found


def _alike(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return OTHERS
    if isinstance(value, str):
        return TEXTS
    if isinstance(value, int | float):
        return NUMBERS
    return LISTS if isinstance(value, list) else OBJECTS


def _replace_alike(rng: Random, found: list[Place]) -> None:
    container, key = rng.choice(found)
    container[key] = copied(rng.choice(_alike(container[key])))


def _replace_by_any(rng: Random, found: list[Place]) -> None:
    container, key = rng.choice(found)
    container[key] = copied(rng.choice(ANY))


def _remove(rng: Random, found: list[Place]) -> None:
    container, key = rng.choice(found)
    del container[key]


def _null(rng: Random, found: list[Place]) -> None:
    container, key = rng.choice(found)
    container[key] = None


def _swap(rng: Random, found: list[Place]) -> None:
    (one, here), (other, there) = rng.choice(found), rng.choice(found)
    value = copied(other[there])
    one[here] = value


def _repeat(rng: Random, found: list[Place]) -> None:
    lists = [(c, k) for c, k in found if isinstance(c[k], list) and c[k]]
    if not lists:
        return _null(rng, found)
    container, key = rng.choice(lists)
    times = rng.choice((2, 2, 5, 40)) if rng.random() < 0.97 else rng.choice((400, 5000))
    size = len(encoded(container[key]))
    container[key] = container[key] * max(1, min(times, MOST_BYTES // (size + 1)))
    return None


def _widen(rng: Random, found: list[Place]) -> None:
    maps = [(c, k) for c, k in found if isinstance(c[k], dict) and c[k]]
    if not maps:
        return _null(rng, found)
    container, key = rng.choice(maps)
    name, value = rng.choice(list(container[key].items()))
    for number in range(rng.choice((3, 30)) if rng.random() < 0.97 else 3000):
        container[key][f"{name}{number}"] = value
    return None


def _rename(rng: Random, found: list[Place]) -> None:
    maps = [(c, k) for c, k in found if isinstance(c, dict)]
    if not maps:
        return _null(rng, found)
    container, key = rng.choice(maps)
    container[rng.choice((key.upper(), "", f"{key} ", key[:-1], "x" * 300))] = container.pop(key)
    return None


def _twice(rng: Random, found: list[Place]) -> None:
    container, key = rng.choice(found)
    value = encoded(container[key])
    other = encoded(rng.choice(ANY))
    container[key] = _raw(b'{"a":%s,"a":%s}' % (value, other))


_MUTATIONS: tuple[Callable[[Random, list[Place]], None], ...] = (
    _replace_alike, _replace_alike, _replace_alike, _replace_alike, _replace_by_any, _remove, _null,
    _swap, _swap, _repeat, _widen, _rename, _twice,
)  # fmt: skip


def encoded(body: Any) -> bytes:
    """The JSON of a value, with what `msgspec.Raw` stands for as it is."""
    return msgspec.json.encode(body)


def as_text(body: Any) -> str:
    """The same as a text that a JSON file can hold: one character for each byte."""
    return encoded(body).decode("latin-1")


def mutate_bytes(rng: Random, data: bytes, pieces: tuple[bytes, ...] = ()) -> bytes:
    """Bytes with a few changes: flipped, cut, repeated, moved, or with a piece put in."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = _one_change(rng, data, pieces)
    return data


def _one_change(rng: Random, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
    at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    if rng.random() < 0.7:
        to = min(to, at + rng.randint(0, 8))
    match rng.randrange(7):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:to] + data[at:to] * rng.choice((1, 2, 50)) + data[to:]
        case 3:
            return data[:at]
        case 4:
            return data[:at] + rng.randbytes(rng.randint(1, 6)) + data[at:]
        case 5 if pieces:
            return data[:at] + rng.choice(pieces) + data[at:]
        case _:
            moved = data[at:to]
            rest = data[:at] + data[to:]
            there = rng.randint(0, len(rest))
            return rest[:there] + moved + rest[there:]
