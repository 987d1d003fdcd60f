"""Free volumes of a storage class, dealt to the claims of one pod on all rows at once.

On each row a claim gets the first volume that suits it, can be used there, and that no earlier
claim has got. Rows on which the same volumes can be used are dealt to together: so many claims for
volumes of a zone cost little, and so do many nodes with a few local volumes each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.plugins.volumes.catalog import Alternatives, AvailableVolume
from scheduler.state.columns import Mask

Positions = NDArray[np.intp]

NONE = -1
_MOST_CELLS = 1 << 20
"""Of the table of volumes by kind of row; beyond, volumes that no claim comes to are left out."""


class RowLabels(Protocol):
    """Which rows have a label, and which satisfy requirements."""

    def spread(self, key: str, numbers: dict[str, int], default: int) -> Positions:
        """For each row the number that belongs to the value of its label."""

    def mask(self, alternatives: Alternatives) -> Mask:
        """Whether each row satisfies one of the alternatives."""


class Deal:
    """What is left of some volumes on each row. A claim costs O(kinds of rows x volumes of each).

    ``wishes`` are what all claims accept, which bounds how many volumes are looked at: a mask over
    the volumes for each claim.
    """

    def __init__(
        self, nodes: RowLabels, volumes: Sequence[AvailableVolume], wishes: Sequence[Mask]
    ) -> None:
        groups, of_row = _groups(nodes, volumes)
        kinds, self._kind_of_row = np.unique(of_row, axis=0, return_inverse=True)
        lists = [_together(groups, kind) for kind in kinds.tolist()]
        if len(kinds) * max(map(len, lists), default=0) > _MOST_CELLS:
            lists = _trimmed(lists, wishes)
        width = max(1, *map(len, lists)) if lists else 1
        self._none = len(volumes)
        self._lists = np.full((len(lists), width), self._none, np.int32)
        for kind, numbers in enumerate(lists):
            self._lists[kind, : len(numbers)] = numbers
        self._left: NDArray[np.bool_] = self._lists != self._none

    def pick(self, suits: Mask) -> Positions:
        """The volume that a claim gets on each row, or `NONE`; it is taken from now on."""
        # What is beyond the last volume suits no claim.
        free = self._left & np.append(suits, False)[self._lists]
        first = free.argmax(axis=1)
        kinds = np.arange(len(first))
        found = free[kinds, first]
        self._left[kinds[found], first[found]] = False
        picked = np.where(found, self._lists[kinds, first], NONE)
        return picked[self._kind_of_row].astype(np.intp)


def _groups(
    nodes: RowLabels, volumes: Sequence[AvailableVolume]
) -> tuple[list[list[int]], NDArray[np.int32]]:
    """Volumes that can be used on the same nodes, and the groups of each row, one a column.

    A label is one column, as a row has one value of it.
    """
    by_label: dict[str, dict[str, list[int]]] = {}
    others: dict[Alternatives, list[int]] = {}
    for number, available in enumerate(volumes):
        if available.label is None:
            others.setdefault(available.nodes, []).append(number)
        else:
            key, value = available.label
            by_label.setdefault(key, {}).setdefault(value, []).append(number)
    groups: list[list[int]] = []
    columns = []
    for key, values in by_label.items():
        numbers = {value: len(groups) + place for place, value in enumerate(values)}
        groups += values.values()
        columns.append(nodes.spread(key, numbers, NONE))
    for alternatives, members in others.items():
        columns.append(np.where(nodes.mask(alternatives), len(groups), NONE))
        groups.append(members)
    return groups, np.stack(columns, axis=1).astype(np.int32)


def _together(groups: Sequence[list[int]], kind: Sequence[int]) -> list[int]:
    """The volumes of all groups of a kind of rows, in the order of all volumes."""
    here = [groups[group] for group in kind if group != NONE]
    if len(here) == 1:
        return here[0]
    return sorted(number for members in here for number in members)


def _trimmed(lists: Sequence[list[int]], wishes: Sequence[Mask]) -> list[list[int]]:
    """Without volumes that no claim comes to: of those that suit it, as many as there are claims.

    Lists that are equal are one object mostly, and trimmed once.
    """
    distinct = list({wish.tobytes(): wish for wish in wishes}.values())
    trim = _Trimming(distinct, len(wishes)).trim
    return [trim(each) for each in lists]


class _Trimming:
    def __init__(self, wishes: Sequence[Mask], depth: int) -> None:
        self._wishes = wishes
        self._depth = depth
        self._known: dict[int, list[int]] = {}

    def trim(self, numbers: list[int]) -> list[int]:
        known = self._known.get(id(numbers))
        if known is None:
            listed = np.array(numbers, np.intp)
            wanted = [listed[wish[listed]][: self._depth] for wish in self._wishes]
            known = self._known[id(numbers)] = np.unique(np.concatenate(wanted)).tolist()
        return known


def first_of_each(
    nodes: RowLabels,
    volumes: Sequence[AvailableVolume],
    suits: Callable[[AvailableVolume], bool],
    rows: int,
) -> Positions:
    """The same for a single claim: only the first volume of each group is looked for."""
    by_label: dict[str, dict[str, int]] = {}
    others: dict[Alternatives, int] = {}
    for number, available in enumerate(volumes):
        if available.label is None:
            if available.nodes not in others and suits(available):
                others[available.nodes] = number
        else:
            values = by_label.setdefault(available.label[0], {})
            if available.label[1] not in values and suits(available):
                values[available.label[1]] = number
    none = len(volumes)
    found = [nodes.spread(key, numbers, none) for key, numbers in by_label.items()]
    found += [np.where(nodes.mask(where), number, none) for where, number in others.items()]
    picked: Positions = found[0] if found else np.full(rows, none)
    for each in found[1:]:
        picked = np.minimum(picked, each)
    return np.where(picked == none, NONE, picked)
