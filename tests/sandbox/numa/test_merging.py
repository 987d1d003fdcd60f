"""Merging hints: as if every combination had been tried one after the other."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sandbox.numa.hints import CellHint, cells_in, masks
from sandbox.numa.topology_manager import merge

EVERYTHING = 0b1011
"""Cells 0, 1 and 3."""

a_mask = st.sampled_from(list(masks((0, 1, 3))))
a_hint = st.builds(CellHint, st.none() | a_mask, st.booleans())
some_lists = st.lists(st.lists(a_hint, min_size=0, max_size=4), max_size=4)


def naive(lists: list[list[CellHint]]) -> CellHint:
    """Try all combinations, and keep the better of two by the kubelet's rules."""
    narrowest = [
        min((h.mask for h in hints if h.mask is not None), key=lambda m: (m.bit_count(), m))
        for hints in lists
        if any(h.mask is not None for h in hints)
    ]
    wide = max((mask.bit_count() for mask in narrowest), default=0)
    best: CellHint | None = None
    for combination in product(*lists):
        named = [hint.mask for hint in combination if hint.mask is not None]
        mask = EVERYTHING
        for each in named:
            mask &= each
        if not mask:
            continue
        preferred = all(hint.preferred for hint in combination) and len(set(named)) <= 1
        best = better(best, CellHint(mask, preferred), wide)
    return best or CellHint(EVERYTHING, False)


def better(current: CellHint | None, candidate: CellHint, wide: int) -> CellHint:
    if current is None:
        return candidate
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    assert current.mask is not None
    assert candidate.mask is not None
    old, new = current.mask.bit_count(), candidate.mask.bit_count()
    narrower = min(current, candidate, key=lambda hint: (cells(hint), hint.mask))
    if current.preferred or old > wide:
        return narrower
    if old == wide:
        return narrower if new == wide else current
    if new > wide:
        return current
    if new != old:
        return candidate if new > old else current
    return narrower


def cells(hint: CellHint) -> int:
    return 0 if hint.mask is None else hint.mask.bit_count()


@given(some_lists)
def test_merging_equals_trying_everything(lists: list[list[CellHint]]) -> None:
    assert merge(lists, EVERYTHING) == naive(lists)


def test_all_sets_of_cells_come_small_ones_first() -> None:
    found = list(masks((0, 2, 5)))
    assert [cells_in(mask) for mask in found] == [
        [0],
        [2],
        [5],
        [0, 2],
        [0, 5],
        [2, 5],
        [0, 2, 5],
    ]
