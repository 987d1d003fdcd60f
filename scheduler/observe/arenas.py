"""Objects that floods are made of, kept out of the interpreter's arenas.

Python places small objects in arenas of a megabyte and frees an arena when nothing in it is left.
A single counter that was renewed amid a flood keeps an arena allocated, so most memory of a flood
would never be freed. The C library has no such rule: it returns every page in which nothing is
left (`allocator.py`). So what lives as long as a watched object is placed there: the object as it
is decoded, and what the state and the queue make of it. All that attempts make and drop stays in
arenas, which are faster.

CPython's object allocator takes requests of more than 512 bytes from the C library already, and
passes every block that is in no arena on to the C library when it is freed or resized. This module
extends that to small requests for the length of a ``with``, so such blocks are freed in the
ordinary way, by any thread. ``usable`` refuses every allocator for which this does not hold: debug
allocators, builds without the GIL or without pymalloc, a running tracemalloc. The one effect that
can be seen is that ``sys.getallocatedblocks`` counts too few.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Callable
from functools import partial

_RAW, _BUFFERS, _OBJECTS = 0, 1, 2
"""Domains of PyMemAllocatorDomain: the C library's memory, that of buffers (the attributes of an
object, the links of an ordered dictionary), and that of objects. The last two share arenas."""


class _Functions(ctypes.Structure):
    """PyMemAllocatorEx: a context, and four functions of C."""

    _fields_ = [
        (name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")
    ]

    @classmethod
    def of(cls, domain: int) -> _Functions:
        found = cls()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found))
        return found


def usable() -> bool:
    """Whether objects are in arenas now, by the one allocator that takes others' blocks back."""
    plain = os.environ.get("PYTHONMALLOC") in (None, "", "default", "pymalloc")
    return (
        plain
        and sys.implementation.name == "cpython"
        and not sys.flags.dev_mode
        and not hasattr(sys, "gettotalrefcount")  # a debug build
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and bool(sysconfig.get_config_var("WITH_PYMALLOC"))
        and not any(_Functions.of(each).context for each in (_BUFFERS, _OBJECTS))  # a profiler
    )


class OutsideArenas:
    """What is made within ``with`` is outside arenas, where the interpreter allows that.

    Not to be held across an ``await``: others' objects would be placed there too, to no harm but
    their speed. Entering and leaving together take a microsecond, by ``with`` a half more.
    """

    def __init__(self) -> None:
        self._enter = _setters(outside=True)
        self._leave = _setters(outside=False)

    def enter(self) -> None:
        """Place outside arenas what is made from now on."""
        objects, buffers = self._enter
        objects()
        buffers()

    def leave(self) -> None:
        """Place it in arenas again."""
        objects, buffers = self._leave
        objects()
        buffers()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()


def _setters(*, outside: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """The calls that have objects and buffers placed so, where that can be changed."""
    objects, buffers = (_setter(each, outside=outside) for each in (_OBJECTS, _BUFFERS))
    return objects, buffers


def _setter(domain: int, *, outside: bool) -> Callable[[], object]:
    functions, raw = _Functions.of(domain), _Functions.of(_RAW)
    if outside and usable():
        functions = _Functions(
            functions.context, raw.malloc, raw.calloc, functions.realloc, functions.free
        )
    put = ctypes.pythonapi.PyMem_SetAllocator
    return partial(put, ctypes.c_int(domain), ctypes.byref(functions))


def own_copy(text: str) -> str:
    """An equal string in memory of its own, for what may outlive the watched object it is from.

    A name of 80 bytes would keep the page on which the object was: thousands of names, all memory
    of a flood. Takes a tenth of a microsecond.
    """
    return "".join((text[:1], text[1:]))
