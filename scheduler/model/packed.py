"""Labels in one piece of memory, for objects that have very many.

A dictionary of short strings takes ten times the memory of its JSON, in small blocks that keep
large parts of the heap alive after most of them are gone. A pod may have 100,000 labels, of which
selectors ask about a few. So labels beyond some number are kept as their JSON, sorted by key, and
looked up by bisection.
"""

from __future__ import annotations

import hashlib
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import msgspec

from scheduler.model.meta import ObjectMeta

MANY = 64
"""Labels beyond which a dictionary is worth packing; hardly any object has as many."""

_BETWEEN = b'","'
"""Ends a value and begins a key. Found nowhere else, but for a label that is just a comma."""

encode_labels = msgspec.json.Encoder(order="deterministic").encode
"""Labels as JSON, sorted by key: equal for equal labels, packed or not."""
_decode = msgspec.json.Decoder(dict[str, str]).decode


class PackedLabels(Mapping[str, str]):
    """Labels as a read-only mapping. Looking one up is O(log n); anything else unpacks, O(n)."""

    __slots__ = ("_count", "_digest", "text")

    def __init__(self, text: bytes, count: int) -> None:
        self.text = text
        """Made by ``encode_labels``, of at least one label; see ``pack``."""
        self._count = count
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """Identifies the labels: a cryptographic hash of the text."""
        if not self._digest:
            self._digest = digest(self.text)
        return self._digest

    def __getitem__(self, key: str) -> str:
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpacked())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedLabels):
            return self.text == other.text
        if isinstance(other, Mapping):
            return len(other) == self._count and self.unpacked() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of a dictionary

    def __repr__(self) -> str:
        return f"PackedLabels({self._count})"

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a label."""
        found = self._find(key)
        return default if found is None else found

    def keys(self) -> KeysView[str]:
        """All keys."""
        return self.unpacked().keys()

    def values(self) -> ValuesView[str]:
        """All values."""
        return self.unpacked().values()

    def items(self) -> ItemsView[str, str]:
        """All labels."""
        return self.unpacked().items()

    def unpacked(self) -> dict[str, str]:
        """The same as a dictionary."""
        return _decode(self.text)

    def _find(self, key: str) -> str | None:
        text, wanted = self.text, key.encode(errors="replace")
        low, high = 2, len(text) - 2  # keys begin at low at the earliest, values end at high
        while True:
            # A key that begins in the second half, or else the one at low.
            middle = text.find(_BETWEEN, (low + high) // 2, high)
            begin = low if middle < 0 else middle + len(_BETWEEN)
            end = text.index(b'"', begin)
            found = text[begin:end]
            if found == wanted:
                return text[end + 3 : text.index(b'"', end + 3)].decode()
            if found < wanted:
                following = text.find(_BETWEEN, end, high)
                if following < 0:
                    return None
                low = following + len(_BETWEEN)
            elif begin == low:
                return None
            else:
                high = begin - len(_BETWEEN)


def labels_digest(labels: Mapping[str, str]) -> bytes:
    """Identifies labels: equal for equal labels, packed or not. O(labels)."""
    if isinstance(labels, PackedLabels):
        return labels.digest
    return digest(encode_labels(labels))


def digest(text: bytes) -> bytes:
    """A cryptographic hash: authors of labels cannot make two that are equal."""
    return hashlib.blake2b(text, digest_size=32).digest()


def pack(labels: dict[str, str]) -> Mapping[str, str]:
    """Labels in one piece; or as they are, if there are some that no API server accepts."""
    text = encode_labels(labels)
    unclear = b"\\" in text or "," in labels or "," in labels.values()
    return labels if unclear else PackedLabels(text, len(labels))


def pack_labels(metadata: ObjectMeta) -> None:
    """Pack the labels of a decoded object if there are many."""
    labels = metadata.labels
    if len(labels) > MANY and isinstance(labels, dict):
        msgspec.structs.force_setattr(metadata, "labels", pack(labels))


def plain(value: object) -> object:
    """What an encoder that meets packed labels makes of them: for ``enc_hook``."""
    if isinstance(value, PackedLabels):
        return value.unpacked()
    raise NotImplementedError(f"{type(value).__name__} has no JSON")


def as_text(value: object) -> bytes:
    """Packed labels as they are, for encodings that are never decoded: for ``enc_hook``."""
    if isinstance(value, PackedLabels):
        return value.text
    raise NotImplementedError(f"{type(value).__name__} has no encoding")
