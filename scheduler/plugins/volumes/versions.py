"""Version numbers of objects, for the keys of cached verdicts that depend on a few of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from scheduler.state.objects import ObjectStore


class Versions:
    """A number for each object of some kinds, which changes with the object; 0 if there is none.

    Numbers are never reused, and deleted objects take no memory. A change of ``resourceVersion``
    and the like alone does not count.
    """

    def __init__(self, objects: ObjectStore, *kinds: type) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._last = 0
        for kind in kinds:
            for key in objects.all(kind):
                self._renew(kind.__name__, key)
            objects.subscribe(kind, partial(self._changed, kind.__name__))

    def of(self, kind: type, key: str) -> int:
        """The number of one object."""
        return self._numbers.get((kind.__name__, key), 0)

    def _changed(self, kind: str, key: str, old: Any, new: Any) -> None:
        if new is None:
            self._numbers.pop((kind, key), None)
        elif old is None or differs(old, new):
            self._renew(kind, key)

    def _renew(self, kind: str, key: str) -> None:
        self._last += 1
        self._numbers[kind, key] = self._last


def differs(old: Any, new: Any) -> bool:
    """Whether two versions of an object differ in more than ``resourceVersion`` and the like."""
    fields, later = old.metadata, new.metadata
    same = msgspec.structs.replace(
        fields,
        resource_version=later.resource_version,
        generation=later.generation,
        json_bytes=later.json_bytes,
    )
    return bool(msgspec.structs.replace(old, metadata=same) != new)
