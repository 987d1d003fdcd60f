"""What is certain of a node, against a naive kubelet that tries everything it might do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.numa.admission import (
    MAX_ARRANGEMENTS,
    AdmissionSearch,
    AdmissionStep,
    Arrangement,
    CellBounds,
    PodAdmission,
)

SEARCH = AdmissionSearch([True, False])


def rooms(*cells: tuple[int, int]) -> Arrangement:
    return tuple(CellBounds(cell, cell) for cell in cells)


def pod(*containers: tuple[int, int]) -> PodAdmission:
    return tuple(AdmissionStep(amounts) for amounts in containers)


class Naive:
    """Cells of a kubelet, and what the init containers of the current pod have left."""

    def __init__(self, cells: Sequence[tuple[int, ...]]) -> None:
        self.free = [list(cell) for cell in cells]

    def admissions(self, steps: PodAdmission) -> Iterator[bool]:
        """For each way in which a pod may be put: whether it is taken; the cells are as then."""
        yield from self._admit(steps, {})

    def _admit(self, steps: PodAdmission, left: dict[tuple[int, int], int]) -> Iterator[bool]:
        if not steps:
            yield True
            return
        step, rest = steps[0], steps[1:]
        options = [c for c in range(len(self.free)) if self._has_room(c, step, left)]
        if not options:
            yield False
        for c in options:
            before, kept = [list(cell) for cell in self.free], dict(left)
            for r, want in enumerate(step.amounts):
                old = kept.get((c, r), 0)
                self.free[c][r] -= max(0, want - old)
                kept[c, r] = max(old, want) if step.reusable else max(0, old - want)
            yield from self._admit(rest, kept)
            self.free = before

    def _has_room(self, c: int, step: AdmissionStep, left: dict[tuple[int, int], int]) -> bool:
        for r, want in enumerate(step.amounts):
            elsewhere = any(n and kept == r and home != c for (home, kept), n in left.items())
            if want and r == 0 and elsewhere:
                return False
            if want > self.free[c][r] + left.get((c, r), 0):
                return False
        return True


def always_taken(cells: Sequence[tuple[int, ...]], pods: Sequence[PodAdmission]) -> bool:
    """Whether none of the pods is ever refused, in any order, in whatever cells they are put."""
    node = Naive(cells)
    return all(_never_refused(node, list(order)) for order in permutations(pods))


def _never_refused(node: Naive, order: list[PodAdmission]) -> bool:
    if not order:
        return True
    return all(taken and _never_refused(node, order[1:]) for taken in node.admissions(order[0]))


amounts = st.tuples(st.integers(0, 3), st.integers(0, 2)).filter(any)
containers = st.builds(AdmissionStep, amounts, st.booleans(), st.just(1))
pods = st.lists(containers, min_size=1, max_size=2).map(tuple)
cells = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=3)


@given(cells, st.lists(pods, max_size=2), pods)
def test_what_is_accepted_is_never_refused(
    sizes: list[tuple[int, int]], others: list[PodAdmission], newcomer: PodAdmission
) -> None:
    if _accepts(rooms(*sizes), others, newcomer):
        assert always_taken(sizes, [*others, newcomer])


@given(cells, st.lists(st.builds(lambda a: (AdmissionStep(a),), amounts), max_size=3), amounts)
def test_pods_of_one_container_are_accepted_whenever_they_are_never_refused(
    sizes: list[tuple[int, int]], coming: list[PodAdmission], wanted: tuple[int, int]
) -> None:
    newcomer = (AdmissionStep(wanted),)
    accepted = _accepts(rooms(*sizes), coming, newcomer)
    assert accepted == always_taken(sizes, [*coming, newcomer])


def _accepts(start: Arrangement, coming: Sequence[PodAdmission], newcomer: PodAdmission) -> bool:
    return SEARCH.admits_in_any_order([start], [*coming, newcomer])


@given(
    cells, st.lists(st.builds(lambda a: (AdmissionStep(a),), amounts), max_size=2), pods, amounts
)
def test_what_went_may_have_made_room_anywhere(
    sizes: list[tuple[int, int]],
    coming: list[PodAdmission],
    newcomer: PodAdmission,
    gone: tuple[int, int],
) -> None:
    """A confirmed pod was removed from one of the cells; which one, and when, is not known."""
    start = tuple(
        CellBounds(cell, tuple(have + back for have, back in zip(cell, gone, strict=True)))
        for cell in sizes
    )
    if not _accepts(start, coming, newcomer):
        return
    for home in range(len(sizes)):
        freed = [
            tuple(have + back for have, back in zip(cell, gone, strict=True)) if c == home else cell
            for c, cell in enumerate(sizes)
        ]
        assert always_taken(freed, [*coming, newcomer])
    assert always_taken(sizes, [*coming, newcomer])


@pytest.mark.parametrize(
    ("cells", "unsettled", "wanted", "certain"),
    [
        pytest.param([(6, 9), (6, 9)], [(4, 1)], (4, 1), True, id="two cells, one of them taken"),
        pytest.param([(6, 9), (6, 9)], [(4, 1)] * 2, (4, 1), False, id="both may be taken"),
        pytest.param([(4, 9)] * 3, [(2, 1)], (4, 1), True, id="2 in one of three leaves two for 4"),
        pytest.param([(4, 9)] * 3, [(2, 1), (4, 1)], (4, 1), True, id="and one after that"),
        pytest.param([(4, 9)] * 3, [(2, 1), (4, 1), (4, 1)], (4, 1), False, id="but no more"),
        pytest.param([(2, 9), (6, 9)], [(4, 1)], (4, 1), False, id="only one cell is that large"),
        pytest.param([(2, 9), (6, 9)], [(4, 1)], (2, 1), True, id="the rest is still there"),
        pytest.param([(3, 9), (5, 9)], [(4, 1)], (3, 1), False, id="the first would lose its cell"),
        pytest.param([(8, 1), (8, 9)], [(2, 2)], (6, 1), True, id="memory tells where it must be"),
        pytest.param(
            [(0, 2), (2, 2)], [(1, 1)] * 2, (0, 2), False, id="the first to come may take all"
        ),
    ],
)
def test_what_is_certain(
    cells: list[tuple[int, int]],
    unsettled: list[tuple[int, int]],
    wanted: tuple[int, int],
    certain: bool,
) -> None:
    assert _accepts(rooms(*cells), [pod(each) for each in unsettled], pod(wanted)) is certain


def test_containers_are_put_one_after_the_other_and_never_back() -> None:
    assert not SEARCH.always_admits([rooms((3, 9), (8, 9))], pod((3, 1), (6, 1)))
    assert SEARCH.always_admits([rooms((3, 9), (9, 9))], pod((3, 1), (6, 1)))


def test_an_init_container_ties_those_after_it_to_its_cell() -> None:
    steps = (AdmissionStep((2, 1), reusable=True), AdmissionStep((8, 1)))
    assert not SEARCH.always_admits([rooms((4, 9), (10, 9))], steps)
    assert SEARCH.always_admits([rooms((1, 9), (10, 9))], steps)


def test_what_an_init_container_held_is_there_for_the_next() -> None:
    steps = (AdmissionStep((8, 4), reusable=True), AdmissionStep((8, 4)))
    assert SEARCH.always_admits([rooms((8, 4))], steps)
    assert not SEARCH.always_admits([rooms((8, 4))], pod((8, 4), (8, 4)))


def test_memory_of_an_init_container_ties_nobody() -> None:
    steps = (AdmissionStep((0, 2), reusable=True), AdmissionStep((8, 2)))
    assert SEARCH.always_admits([rooms((0, 2), (8, 4))], steps)


def test_a_pod_that_is_spread_takes_from_all_cells() -> None:
    wide = (AdmissionStep((6, 0), span=2),)
    states = SEARCH.arrangements_after([rooms((4, 9), (4, 9))], [wide])
    assert states is not None
    assert SEARCH.always_admits([rooms((4, 9), (4, 9))], wide)
    assert not SEARCH.always_admits(states, pod((1, 1)))


def test_nothing_is_certain_when_there_are_too_many_arrangements() -> None:
    large = rooms(*((1000 + 100 * i, 9) for i in range(8)))
    many = [pod((2**i, 0)) for i in range(8)]
    assert SEARCH.arrangements_after([large], many) is None
    assert MAX_ARRANGEMENTS < 8**8


@pytest.mark.parametrize("order", list(product((False, True), repeat=2)))
def test_the_order_of_cells_does_not_matter(order: tuple[bool, bool]) -> None:
    sizes = [(6, 9), (3, 9)] if order[0] else [(3, 9), (6, 9)]
    assert _accepts(rooms(*sizes), [pod((3, 1))], pod((3, 1))) is True
