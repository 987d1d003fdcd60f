"""Best fit: what is taken, what is left, and that the verdict stays the same."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.devices import BOARD, by_memory, churn, fewest_boards, partitioned
from scheduler.devices import DeviceError, DeviceIndex, DeviceSelection
from scheduler.model.devices import ResourceClaim
from tests.devices.support import (
    DRIVER,
    ask,
    boards,
    claim,
    device,
    hold,
    index_of,
    names,
    profile,
    slice_of,
)
from tests.devices.test_law import indexed
from tests.devices.worlds import World

FIRST, BEST = DeviceSelection.FIRST_FIT, DeviceSelection.BEST_FIT


def best(index: DeviceIndex, wanted: ResourceClaim, row: int = 0) -> list[str]:
    return names(index, wanted, row=row, selection=BEST)


def test_the_smallest_device_that_suffices() -> None:
    index = index_of()
    sizes = {"large": "80Gi", "small": "20Gi", "medium": "40Gi"}
    devices = [device(name, capacity={"memory": {"value": v}}) for name, v in sizes.items()]
    index.set_slice(None, slice_of("n0", devices))
    memory = f'device.capacity["{DRIVER}"].memory'
    wanted = claim(ask(expression=f'{memory}.compareTo(quantity("30Gi")) >= 0'))
    assert names(index, wanted) == ["large"]
    assert best(index, wanted) == ["medium"]


def test_the_board_with_the_least_left() -> None:
    index = index_of()
    for each in boards("n0", 3):
        index.set_slice(None, each)
    hold(index, "a", "n0", "b1-half-0")
    hold(index, "b", "n0", "b2-half-0", "b2-quarter-0")
    assert names(index, claim(profile("r", "quarter"))) == ["b0-quarter-0"]
    assert best(index, claim(profile("r", "quarter"))) == ["b2-quarter-1"]
    assert best(index, claim(profile("r", "half"))) == ["b1-half-1"]
    assert best(index, claim(profile("r", "whole"))) == ["b0-whole-0"]


def test_the_fullest_shared_device() -> None:
    index = index_of()
    policy = {"value": "8", "requestPolicy": {"default": "8"}}
    devices = [
        device(f"d{i}", allowMultipleAllocations=True, capacity={"units": policy}) for i in range(3)
    ]
    index.set_slice(None, slice_of("n0", devices))
    hold(index, "a", "n0", "d1", shareID="1", consumedCapacity={"units": "2"})
    hold(index, "b", "n0", "d2", shareID="2", consumedCapacity={"units": "5"})
    two = claim(ask(capacity={"requests": {"units": "2"}}))
    four = claim(ask(capacity={"requests": {"units": "4"}}))
    assert names(index, two) == ["d0"]
    assert best(index, two) == ["d2"]
    assert best(index, four) == ["d1"]


def test_sets_of_near_devices_are_kept_whole() -> None:
    index = index_of()
    cells = (0, 0, 0, 0, 1, 1, 2, 2, 2)
    devices = [device(f"d{i}", attributes={"numa": cell}) for i, cell in enumerate(cells)]
    index.set_slice(None, slice_of("n0", devices))
    assert names(index, claim(ask(count=2))) == ["d0", "d1"]
    assert best(index, claim(ask(count=2))) == ["d4", "d5"]
    assert best(index, claim(ask(count=3))) == ["d6", "d7", "d8"]
    hold(index, "a", "n0", "d1")
    assert best(index, claim(ask())) == ["d0"]


def test_the_node_that_is_used_up_scores_highest() -> None:
    index = index_of("n0", "n1", "n2")
    for node in ("n0", "n1", "n2"):
        for each in boards(node, 1):
            index.set_slice(None, each)
    hold(index, "a", "n1", "b0-half-0")
    hold(index, "b", "n2", "b0-half-0", "b0-quarter-2")
    scores = index.judge([claim(profile("r", "quarter"))], range(3), BEST).fit_scores
    assert scores.tolist() == sorted(scores.tolist())
    assert len(set(scores.tolist())) == 3
    assert not index.judge([claim(profile("r", "quarter"))], range(3)).fit_scores.any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_verdict_is_that_of_first_fit(seed: int) -> None:
    world = World(Random(seed))
    index = indexed(world)
    for _ in range(3):
        claims = world.claims()
        for row in range(len(world.nodes)):
            found: list[list[str] | str | None] = []
            for selection in (FIRST, BEST):
                try:
                    allocations = index.allocate(claims, row, selection)
                    found.append(None if allocations is None else _requests(allocations))
                except DeviceError as fault:
                    found.append(str(fault))
            assert found[0] == found[1]


def _requests(allocations: object) -> list[str]:
    assert isinstance(allocations, tuple)
    return [each.request for one in allocations for each in one.devices.results]


def test_a_churn_strands_less_than_first_fit_and_refuses_nothing_needlessly() -> None:
    found = {
        selection: churn(partitioned(6, 3), 6, 3, by_memory, selection, 600)
        for selection in DeviceSelection
    }
    assert found[BEST].needless < found[FIRST].needless
    assert found[BEST].mean < found[FIRST].mean / 2


def test_the_fewest_boards_are_counted_exactly() -> None:
    assert fewest_boards([]) == 0
    assert fewest_boards([BOARD, 4, 4, 2]) == 3
    # First fit by falling size needs three boards here.
    assert fewest_boards([4, 3, 3, 2, 2, 2]) == 2
