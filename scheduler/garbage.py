"""Work that the collector of cycles is to leave alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Put collections off while objects of a cluster are read: they are many, and in no cycles.

    For programs that end soon; each would look at all of them again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
