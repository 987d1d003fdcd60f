"""Tables of dictionaries that are far longer than their entries need.

Python lengthens the table of a dictionary when entries come, and leaves it as it is when they go:
a hundred bytes for each object that there was, in each index that knew it. So dictionaries whose
length others decide are looked at from time to time, and filled anew once most entries are gone.
"""

from __future__ import annotations

import sys
from typing import Any

LARGE_BYTES = 64 << 10
"""A shorter table is left alone."""
ENTRY_BYTES = 128
"""More than an entry takes in any table that has just been filled, an ordered one included."""
TIMES_TOO_LONG = 4
MOST_ENTRIES = 8_192
"""Of more entries no table is filled anew: it would take a millisecond, and what is kept for the
entries is many times as large."""


class Tables:
    """The tables of one scheduler; they belong to the thread of its event loop."""

    def __init__(self) -> None:
        self._tables: list[dict[Any, Any]] = []

    def follow(self, *tables: dict[Any, Any]) -> None:
        """Look at these from now on. They are never replaced, nor read across checkpoints."""
        self._tables.extend(tables)

    def shrink(self) -> None:
        """Fill those anew that are too long. Costs a tenth of a microsecond for each other one."""
        for table in self._tables:
            if _too_long(table):
                entries = list(table.items())
                table.clear()
                table.update(entries)


def _too_long(table: dict[Any, Any]) -> bool:
    held, entries = sys.getsizeof(table), len(table)
    needed = max(ENTRY_BYTES * entries, LARGE_BYTES // TIMES_TOO_LONG)
    return held > TIMES_TOO_LONG * needed and entries <= MOST_ENTRIES
