"""How much compiling and evaluating may do: what the API server allows, and what we can afford.

cel-go counts what a function costs after it has run, and compares values that share their parts
for as long as that takes. Within its limits an expression could still take hours or all memory,
so what would be too large is refused before it is built, and reading nested values is counted.
"""

from __future__ import annotations

from scheduler.cel.errors import CelCompileError, CostLimitExceeded
from scheduler.slices import checkpoint

COST_LIMIT = 1_000_000
"""The cost of one evaluation for one device, in cel-go's units."""

MAX_TEXT = 10 * COST_LIMIT
"""The length of a text that no evaluation within the limit can read: a unit pays for ten
characters."""

MAX_LIST = COST_LIMIT
"""How many elements a list may have: making them one by one costs a unit each."""

MAX_SORTED = 100_000
"""How many elements are sorted: where cel-go counts the cost of that at all, the limit is 700."""

MAX_NODES = 50_000
"""How many nodes a tree may have. Only macros that repeat their target make so many of 10 KiB."""

MAX_TYPE = 5_000
"""How many parts a type may have: types of maps of maps can double with each level."""

_MAX_WORK = 1_000_000
_PACE = 4096
_NODES_PACE = 8


def check_length(length: int) -> None:
    """Raise if a text would be too long."""
    if length > MAX_TEXT:
        raise CostLimitExceeded


def check_count(count: int) -> None:
    """Raise if a list would have too many elements."""
    if count > MAX_LIST:
        raise CostLimitExceeded


class Meter:
    """Counts work that no cost covers, and gives the event loop back in between.

    A unit is a list or map that is read, or ten of its elements.
    """

    __slots__ = ("_pause", "spent")

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.spent = 0
        self._pause = _PACE

    def work(self, length: int) -> None:
        """Something of so many elements is read."""
        self.spent += 1 + length // 10
        if self.spent > self._pause:
            if self.spent > _MAX_WORK:
                raise CostLimitExceeded
            self._pause = self.spent + _PACE
            checkpoint()


METER = Meter()
"""Of the evaluation under way. One that runs while another rests at a checkpoint starts it anew:
that one may then do so much again, which is a bound all the same."""


class Pace:
    """Gives the event loop back now and then while a tree is worked on."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def tick(self) -> None:
        self._count += 1
        if self._count % _NODES_PACE == 0:
            checkpoint()


class NodeCount:
    """Counts the nodes of a tree while it is made."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1
        if self.count % _NODES_PACE == 0:
            checkpoint()
        if self.count > MAX_NODES:
            raise CelCompileError(f"expression has more than {MAX_NODES} nodes")
