"""Pods that are sent to a node are taken, in whatever order they arrive and whichever pods end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.numa.admission import (
    AdmissionCheck,
    AdmissionSearch,
    AdmissionStep,
    CellBounds,
    PodAdmission,
)
from tests.numa.test_admission_search import Naive, amounts, pods

SEARCH = AdmissionSearch([True, False])
Cell = tuple[int, int]

cells = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3)


def admission_check(
    free: Sequence[Cell],
    confirmed: Sequence[tuple[int, Cell]],
    coming: Sequence[PodAdmission],
    *,
    exact: bool = False,
) -> AdmissionCheck:
    """Of a node whose confirmed pods sit in known cells, which no scheduler can see."""
    used = [[0, 0] for _ in free]
    for home, held in confirmed:
        used[home] = [have + more for have, more in zip(used[home], held, strict=True)]
    return AdmissionCheck(
        SEARCH,
        tuple(CellBounds(cell, cell) for cell in free),
        [tuple(cell) for cell in used],
        [(steps, False) for steps in coming],
        [held for _, held in confirmed],
        exact=exact,
    )


def ever_refused(
    free: Sequence[Cell], confirmed: Sequence[tuple[int, Cell]], arrivals: Sequence[PodAdmission]
) -> bool:
    """Whether some pod is refused in some order, with at most one confirmed pod removed."""
    events: list[tuple[str, Any]] = [("comes", steps) for steps in arrivals]
    departures: list[list[tuple[str, Any]]] = [[], *([("goes", pod)] for pod in confirmed)]
    return any(
        _refused(Naive(free), list(order))
        for departure in departures
        for order in permutations([*events, *departure])
    )


def _refused(node: Naive, order: list[tuple[str, Any]]) -> bool:
    if not order:
        return False
    (what, subject), rest = order[0], order[1:]
    if what == "goes":
        home, held = subject
        after = Naive([tuple(cell) for cell in node.free])
        after.free[home] = [have + more for have, more in zip(node.free[home], held, strict=True)]
        return _refused(after, rest)
    return any(not taken or _refused(node, rest) for taken in node.admissions(subject))


@given(
    cells,
    st.lists(st.tuples(st.integers(0, 2), amounts), max_size=2),
    st.lists(pods, max_size=1),
    pods,
)
def test_what_is_accepted_is_taken(
    free: list[Cell],
    pinned: list[tuple[int, Cell]],
    coming: list[PodAdmission],
    newcomer: PodAdmission,
) -> None:
    confirmed = [(home % len(free), held) for home, held in pinned]
    if coming and not admission_check(free, confirmed, []).admits(coming[0]):
        return  # it would not have been sent
    if admission_check(free, confirmed, coming).admits(newcomer):
        assert not ever_refused(free, confirmed, [*coming, newcomer])


def test_room_that_somebody_leaves_can_be_a_trap_for_init_containers() -> None:
    steps = (AdmissionStep((2, 0), reusable=True), AdmissionStep((4, 0)))
    assert admission_check([(0, 9), (4, 9)], [], []).admits(steps)
    assert not admission_check([(0, 9), (4, 9)], [(0, (3, 0))], []).admits(steps)
    assert admission_check([(0, 9), (4, 9)], [(0, (4, 0))], []).admits(steps)


def test_and_for_pods_that_count_on_something_else_there() -> None:
    large, memory = (AdmissionStep((4, 1)),), (AdmissionStep((0, 9)),)
    free = [(0, 9), (4, 1)]
    assert admission_check(free, [], [large]).admits(memory)
    assert not admission_check(free, [(0, (4, 0))], [large]).admits(memory)


def test_and_where_somebody_else_has_made_a_cell_too_small() -> None:
    init_and_more, plain = (
        (AdmissionStep((2, 0), reusable=True), AdmissionStep((3, 0))),
        (AdmissionStep((3, 0)),),
    )
    assert admission_check([(4, 0), (3, 0)], [], [init_and_more]).admits(plain)
    # Between the two a pod goes, and the cell that was too small for an init container is so no
    # longer, but still is for what follows.
    assert not admission_check([(4, 0), (3, 0)], [(0, (1, 0))], [init_and_more]).admits(plain)


def test_a_pod_that_wants_nothing_of_cells_is_accepted() -> None:
    confirmed = [(0, (2, 0))]
    assert admission_check([(1, 0)], confirmed, []).admits(())
    assert admission_check([(1, 0)], confirmed, [()]).admits(())


def test_habits_count_only_where_all_is_known() -> None:
    steps = (AdmissionStep((3, 0)), AdmissionStep((6, 0)))
    free = [(3, 9), (8, 9)]
    assert not admission_check(free, [], []).admits(steps)
    assert admission_check(free, [], [], exact=True).admits(steps)
    assert not admission_check(free[::-1], [], [], exact=True).admits(steps)
