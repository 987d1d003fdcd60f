"""One object of any kind, as bytes: decoded, or skipped by its name with a message."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from scheduler.kube.decoding import MAX_TOKENS, Identity, ObjectDecoder
from scheduler.kube.errors import UNREADABLE
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics
from tests.fuzz.drawing import draw_object, kinds
from tests.fuzz.mutating import as_text, encoded, mutate_bytes, mutate_object
from tests.fuzz.target import Input, as_bytes, said

SKIPPED = "Object could not be decoded, skipped"


class Decode:
    """Decodes one object."""

    name = "decode"
    what = "one object of a watched kind: decoded, or skipped under its own name with the field"
    share = 200

    def __init__(self) -> None:
        metrics = Metrics()
        self._decoders: dict[str, ObjectDecoder[Any]] = {
            kind.name: ObjectDecoder(kind.name, kind.type, metrics) for kind in KINDS.values()
        }

    def draw(self, rng: Random) -> Input:
        """A valid object, mostly mutated, seldom with garbled bytes."""
        kind = rng.choice(kinds())
        body: Any = draw_object(rng, kind)
        if rng.random() < 0.9:
            body = mutate_object(rng, body)
        if rng.random() < 0.06:
            return [kind.name, mutate_bytes(rng, encoded(body)).decode("latin-1")]
        return [kind.name, as_text(body)]

    def check(self, given: Input) -> list[str]:
        """No exception; the right identity and a message if it does not decode."""
        kind, text = given
        raw = msgspec.Raw(as_bytes(text))
        decoder = self._decoders[kind]
        decoder._logged.clear()
        decoded = decoder.decode(raw)
        if isinstance(decoded, Identity):
            return list(_skipped(decoded, as_bytes(text)))
        wrong = list(_kept(decoded, KINDS[kind].type, raw))
        return wrong + (_derived(decoded) if isinstance(decoded, Pod) else [])

    def close(self) -> None:
        """Nothing is held."""


def _skipped(identity: Identity, text: bytes) -> Iterator[str]:
    errors = [fields.get("error", "") for message, fields in said() if message == SKIPPED]
    if not errors or not errors[0]:
        yield "an object is skipped without a message"
    known = _metadata(text)
    if known is None or sum(map(text.count, (b"{", b"[", b",", b'"'))) > MAX_TOKENS // 2:
        return  # in a large one, not all is looked at for its identity
    if identity.name != known.get("name", ""):
        yield f"an object is skipped as {identity.name!r} and is {known['name']!r}"


def _metadata(text: bytes) -> dict[str, str] | None:
    """What an object says of its identity, if all of that can be read, by another parser."""
    try:
        with deep_recursion():
            document = json.loads(
                text.decode(errors="replace"), parse_constant=refuse, parse_int=any_number
            )
    except (ValueError, RecursionError):
        return None
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return None
    found = [metadata.get(field, "") for field in ("name", "namespace", "uid", "resourceVersion")]
    if not all(isinstance(each, str) and each.isascii() for each in found):
        return None
    return metadata


def any_number(text: str) -> int:
    """A number of any length, which counts as a number."""
    return 0


def refuse(text: str) -> None:
    """NaN and Infinity are no JSON, though Python's parser takes them."""
    raise ValueError(f"{text} is no JSON")


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let another parser follow what ours need not."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _kept(decoded: Any, type_: Any, raw: msgspec.Raw) -> Iterator[str]:
    """What was decoded must be the same on the slow path, and once it is written and read."""
    try:
        slow = from_dict(msgspec.json.decode(raw), type_)
    except UNREADABLE:
        return  # the fast path skips what it does not read
    force_setattr(slow.metadata, "json_bytes", decoded.metadata.json_bytes)
    if slow != decoded:
        yield "an object decodes to something else on the slow path"
    force_setattr(slow.metadata, "json_bytes", 0)
    if from_dict(msgspec.json.decode(msgspec.json.encode(slow)), type_) != slow:
        yield "an object is another one after it was written and read"


DERIVED = (
    "excess", "requests", "fit_requests", "score_requests", "nonzero", "pinning", "host_ports",
    "images", "volumes", "node_matcher", "node_preferences", "affinity", "spread", "faults",
)  # fmt: skip


def _derived(pod: Pod) -> list[str]:
    """Deriving what a scheduler reads must not raise, and faults must name their fields."""
    info = PodInfo(pod)
    for name in DERIVED:
        getattr(info, name)
    return [
        f"a fault of a pod names no field: {fault!r}"
        for fault in (*info.faults, *info.excess)
        if not fault.startswith(("spec", "metadata", "status"))
    ]
