"""``python -m tests.fuzz.coverage_guided TARGET``: the same inputs, led by what code they reach.

Needs atheris (``pip install atheris``), which is no dependency of the project. Its bytes stand for
the random choices of a target, so that inputs stay well-formed; further arguments are libFuzzer's,
such as ``-max_total_time=600``. A finding is printed with the input, and ends the run.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from random import Random
from typing import Any

MANY_BITS = 53


class BytesAsChoices(Random):
    """A random source that takes its numbers from bytes, and zeros when there are no more."""

    def __new__(cls, data: bytes) -> BytesAsChoices:
        """Random seeds itself by what it is made with; the seed is not used."""
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._at = 0

    def random(self) -> float:
        """A number from 0 to below 1, from two bytes: targets choose among few."""
        return self._next(2) / 65_536

    def getrandbits(self, k: int, /) -> int:
        """So many bits."""
        size = -(-k // 8)
        return self._next(size) >> (8 * size - k)

    def _next(self, size: int) -> int:
        piece = self._data[self._at : self._at + size].ljust(size, b"\0")
        self._at += size
        return int.from_bytes(piece, "big")


def main() -> None:
    """Fuzz one target until something is found or libFuzzer's limits end it."""
    try:
        atheris: Any = import_module("atheris")  # it is optional
    except ModuleNotFoundError:
        sys.exit("this needs atheris: pip install atheris")
    with atheris.instrument_imports(include=["scheduler"]):
        from tests.fuzz.target import findings
        from tests.fuzz.targets import TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"which target? {', '.join(TARGETS)}")
    target: Any = TARGETS[sys.argv[1]]()

    def check(data: bytes) -> None:
        given = target.draw(BytesAsChoices(data))
        if wrong := findings(target, given):
            text = json.dumps({"target": target.name, "found": wrong[0], "input": given})
            raise AssertionError(text)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
