"""Small changes of objects that fit: another version that differs in one thing the scheduler reads.

What is mutated is seldom another valid version. What is kept of earlier versions is found to be
stale by valid changes alone: another taint, a label that is gone, a device that is in use.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.drawing import Json
from tests.fuzz.scenes import draw_fitting

MOST_TRIES = 4
"""How often another object is drawn that may be no different."""
Path = tuple[str, ...]


def tweak(rng: Random, kind: str, body: Json) -> Json | None:
    """The object with one part as another of its kind has it, or None where none differs."""
    for _ in range(MOST_TRIES):
        other = draw_fitting(rng, kind)[1]
        places = [path for path in _places(body, other) if path[0] not in {"apiVersion", "kind"}]
        differing = [path for path in places if _at(body, path) != _at(other, path)]
        if differing:
            return _with(body, rng.choice(differing), other)
    return None


def _places(body: Json, other: Json) -> list[Path]:
    """Fields of metadata, spec and status, single labels and resources; of others whole fields."""
    found: list[Path] = []
    for part in sorted({*body, *other}):
        inner = [each.get(part) for each in (body, other)]
        if part not in {"metadata", "spec", "status"} or not all(
            isinstance(each, dict | None) for each in inner
        ):
            found.append((part,))
            continue
        fields = sorted({field for each in inner if each for field in each} - _IDENTITY)
        for field in fields:
            keys = {
                key
                for each in inner
                if each and isinstance(each.get(field), dict)
                for key in each[field]
            }
            single = field in {"labels", "allocatable"} and keys
            found += [(part, field, key) for key in sorted(keys)] if single else [(part, field)]
    return found


_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion"})


def _at(body: Any, path: Path) -> Any:
    for key in path:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _with(body: Json, path: Path, other: Json) -> Json:
    """A copy of the body that has at a path what another has there."""
    key, *rest = path
    copy = dict(body)
    value = _at(other, path)
    if rest:
        within = copy.get(key)
        inner = within if isinstance(within, dict) else {}
        copy[key] = _with(inner, tuple(rest), other.get(key) or {})
    elif value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy
