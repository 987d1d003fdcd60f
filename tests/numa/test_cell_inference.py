"""Where pods must be, from two objects: never wrong, and found where there is just one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.pinning import Pinning, pinning_of
from scheduler.numa.node_pods import CellInference, keeps_init_resources_in_cell
from tests.builders import PodBuilder
from tests.numa.support import GIB, pinned, with_container

NAMES = ("cpu", "memory")


def one(cpu: int) -> Pinning:
    return pinning_of(pinned("p", cpu, f"{cpu}Gi").struct())


def cells(*cpus: int) -> list[tuple[int, int]]:
    return [(cpu * 1000, cpu * GIB) for cpu in cpus]


def cells_of(
    before: list[tuple[int, int]],
    after: list[tuple[int, int]],
    came: list[Pinning],
    went: list[Pinning] | None = None,
) -> list[int | None]:
    return CellInference(NAMES, before, after).cells_of(came, went or [], whole_pod=False)


@pytest.mark.parametrize(
    ("before", "after", "came", "went", "expected"),
    [
        pytest.param((8, 8), (8, 5), (3,), (), [1], id="one pod"),
        pytest.param((8, 8), (6, 5), (3, 2), (), [1, 0], id="two pods of different size"),
        pytest.param((8, 8), (6, 6), (2, 2), (), [None, None], id="two alike"),
        pytest.param((8, 8), (4, 8), (2, 2), (), [0, 0], id="two alike in one cell"),
        pytest.param((8, 8), (8, 6), (4,), (2,), [1], id="one came to where another went from"),
        pytest.param((8, 4), (4, 6), (4,), (2,), [0], id="one came, another went elsewhere"),
        pytest.param((8, 8), (8, 8), (3,), (3,), [None], id="in the place of another, wherever"),
        pytest.param((8, 8), (8, 8), (3,), (), [None], id="nothing changed"),
        pytest.param((8, 8), (8, 1), (3,), (), [None], id="more is gone than it takes"),
    ],
)
def test_cells(
    before: tuple[int, ...],
    after: tuple[int, ...],
    came: tuple[int, ...],
    went: tuple[int, ...],
    expected: list[int | None],
) -> None:
    found = cells_of(cells(*before), cells(*after), [one(n) for n in came], [one(n) for n in went])
    assert found == expected


def test_a_pod_in_two_cells_is_not_located() -> None:
    pod = with_container(pinned("p", 2, "2Gi"), {"cpu": 3, "memory": "3Gi"})
    assert cells_of(cells(8, 8), cells(6, 5), [pinning_of(pod.struct())]) == [None]
    assert cells_of(cells(8, 8), cells(8, 3), [pinning_of(pod.struct())]) == [1]


def test_too_many_arrangements_are_not_tried() -> None:
    many = [one(1) for _ in range(16)]
    assert cells_of(cells(16, 16, 16, 16), cells(12, 12, 12, 12), many) == [None] * 16


placed = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=4)


@given(placed, placed)
def test_a_cell_that_is_found_is_the_right_one(
    came: list[tuple[int, int]], went: list[tuple[int, int]]
) -> None:
    before, after = [20, 20, 20], [20, 20, 20]
    for size, cell in came:
        after[cell] -= size
    for size, cell in went:
        after[cell] += size
    found = cells_of(
        cells(*before), cells(*after), [one(size) for size, _ in came], [one(s) for s, _ in went]
    )
    for at, (_, cell) in zip(found, came, strict=True):
        assert at in (None, cell)


def _with(kind: str, pod: PodBuilder, cpu: str = "4") -> PodBuilder:
    return with_container(pod, {"cpu": cpu, "memory": "1Gi"}, **{kind: True})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pinned("p", 2), False, id="nothing is hidden"),
        pytest.param(_with("init", pinned("p", 2)), True, id="the app takes over"),
        pytest.param(_with("init", pinned("p", "500m")), False, id="the app has shared CPUs"),
        pytest.param(
            _with("init", _with("sidecar", pinned("p", "500m"), "1")),
            False,
            id="the sidecar was there before",
        ),
        pytest.param(
            _with("sidecar", _with("init", pinned("p", "500m")), "1"),
            True,
            id="the sidecar follows",
        ),
    ],
)
def test_which_pods_are_where_their_init_containers_were(pod: PodBuilder, expected: bool) -> None:
    assert keeps_init_resources_in_cell(pinning_of(pod.struct())) is expected
