"""Volumes that are dealt to claims on all rows at once, against one row and one claim at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.selectors import Requirement
from scheduler.model.storage import PersistentVolume
from scheduler.plugins.volumes import dealing
from scheduler.plugins.volumes.catalog import Alternatives, AvailableVolume
from scheduler.plugins.volumes.dealing import NONE, Deal
from scheduler.state.columns import Mask

ROWS = 6


class Labelled:
    """Rows whose label ``host`` is their number and ``zone`` whether that is odd."""

    def __init__(self) -> None:
        self.values = {
            "host": [str(row) for row in range(ROWS)],
            "zone": [str(row % 2) for row in range(ROWS)],
        }

    def spread(self, key: str, numbers: dict[str, int], default: int) -> dealing.Positions:
        return np.array([numbers.get(value, default) for value in self.values[key]], np.intp)

    def mask(self, alternatives: Alternatives) -> Mask:
        return np.array([self.allows(alternatives, row) for row in range(ROWS)], np.bool_)

    def allows(self, alternatives: Alternatives, row: int) -> bool:
        return any(all(r.accepts(self.values[r.key][row]) for r in each) for each in alternatives)


def usable(key: str, *values: str) -> AvailableVolume:
    nodes: Alternatives = ((Requirement(key, "In", frozenset(values)),),) if values else ((),)
    label = (key, values[0]) if len(values) == 1 else None
    return AvailableVolume(PersistentVolume(), 1, nodes, label)


volumes = st.sampled_from(
    [
        *(usable("host", str(row)) for row in range(ROWS)),
        *(usable("zone", value) for value in "01"),
        usable("zone", "0", "1"),
        usable("host", "1", "4"),
        usable("host"),
    ]
)


def naive(
    nodes: Labelled, offered: Sequence[AvailableVolume], wishes: Sequence[Mask], row: int
) -> list[int]:
    taken: list[int] = []
    for suits in wishes:
        fitting = (
            number
            for number, volume in enumerate(offered)
            if suits[number] and number not in taken and nodes.allows(volume.nodes, row)
        )
        taken.append(next(fitting, NONE))
    return taken


@given(st.data(), st.lists(volumes, min_size=1, max_size=10), st.booleans())
def test_each_row_gets_what_it_would_get_alone(
    data: st.DataObject, offered: list[AvailableVolume], trimmed: bool
) -> None:
    mask = st.lists(st.booleans(), min_size=len(offered), max_size=len(offered))
    wishes = [
        np.array(each, np.bool_) for each in data.draw(st.lists(mask, min_size=1, max_size=5))
    ]
    nodes = Labelled()
    most, dealing._MOST_CELLS = dealing._MOST_CELLS, 0 if trimmed else dealing._MOST_CELLS
    try:
        deal = Deal(nodes, offered, wishes)
    finally:
        dealing._MOST_CELLS = most
    picked = [deal.pick(suits).tolist() for suits in wishes]
    for row in range(ROWS):
        assert [each[row] for each in picked] == naive(nodes, offered, wishes, row)


def test_rows_that_can_use_the_same_volumes_are_one() -> None:
    """However many nodes a zone has, and however many claims there are."""
    offered = [usable("zone", value) for value in "01" for _ in range(100)]
    wishes = [np.ones(len(offered), np.bool_)] * 100
    deal = Deal(Labelled(), offered, wishes)
    assert deal._lists.shape == (2, 100)
