"""How many bytes a structure keeps: exact, and the same on any machine.

Every object that can be reached is counted once, with the tables of its containers and the data of
its arrays. Modules, types and what functions find in their modules are no part of a structure.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

_NO_PART = (
    type,
    types.ModuleType,
    types.CodeType,
    types.FrameType,
    types.BuiltinFunctionType,
    asyncio.AbstractEventLoop,
)


_CONTAINER_BYTES = 64
_PLACE_BYTES = 64


def kept_bytes(root: object, *, tables: bool) -> int:
    """The bytes of all that can be reached from an object.

    A container is counted with its whole ``tables``, or as if they were no longer than its entries
    need: Python does not make them shorter when entries go.
    """
    measure = sys.getsizeof if tables else _by_entries
    return sum(map(measure, reached(root)))


def reached(root: object) -> Iterator[Any]:
    """All that can be reached from an object."""
    seen = {id(root)}
    left: list[Any] = [root]
    while left:
        each = left.pop()
        yield each
        for other in _parts(each):
            if id(other) not in seen and not isinstance(other, _NO_PART):
                seen.add(id(other))
                left.append(other)


def _by_entries(each: Any) -> int:
    if isinstance(each, list | deque):
        return _CONTAINER_BYTES + 8 * len(each)
    if isinstance(each, dict | set):
        return _CONTAINER_BYTES + _PLACE_BYTES * len(each)
    return sys.getsizeof(each)


def _parts(each: Any) -> Iterable[Any]:
    if isinstance(each, types.FunctionType):
        return (*(each.__closure__ or ()), *(each.__defaults__ or ()))
    if isinstance(each, np.ndarray):
        inside = each.tolist() if each.dtype == object and each.base is None else ()
        return (each.base, inside)
    if isinstance(each, msgspec.Struct):
        return [getattr(each, name) for name in each.__struct_fields__]
    return gc.get_referents(each)
