"""Names that are spelt nearly alike."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher

from scheduler.slices import checkpoint

LONGEST = 320
"""No name in Kubernetes is longer; to compare longer texts takes too long."""


def close_to(name: str, known: Iterable[str], most: int, cutoff: float) -> list[str]:
    """As `difflib.get_close_matches`, in slices: the best few of the known names that are close."""
    if len(name) > LONGEST:
        return []
    matcher = SequenceMatcher(b=name)
    found: list[tuple[float, str]] = []
    for each in known:
        checkpoint()
        if len(each) > LONGEST:
            continue
        matcher.set_seq1(each)
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            ratio = matcher.ratio()
            if ratio >= cutoff:
                found.append((ratio, each))
    return [each for _, each in heapq.nlargest(most, found)]
