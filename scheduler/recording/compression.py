"""zstd, from wherever this Python has it."""

from __future__ import annotations

import sys
from typing import Any


def zstd() -> Any:
    """The module of the standard library, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd as module
    else:
        from backports import zstd as module
    return module
