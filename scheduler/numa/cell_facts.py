"""What NodeResourceTopologyMatch knows about its rejections: what one cell must give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from scheduler.model.amounts import distinct, exact, rounded
from scheduler.model.pinning import Need, Pinning
from scheduler.numa.cells import CellColumns, KubeletKind
from scheduler.numa.filtering import any_cell, cells_with_room
from scheduler.plugin_api.facts import MAX_FACTS, Fact, LaterFacts, fact
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows, Scores

Failure = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""The kind of kubelet, the number of the need that has no cell, the ids of the cells, and for each
resource of the need and each cell what may be free, what surely is, and what is allocatable."""

_CELLS = 8
"""So many cells of a node are told."""
_NOT_ALIGNED = -1
_UNKNOWN_KINDS: Mapping[int, str] = {
    int(KubeletKind.UNKNOWN): "the node has not published its NUMA cells",
    int(KubeletKind.WITHDRAWN): "the node no longer publishes its NUMA cells",
}
_BY_POD = (int(KubeletKind.SINGLE_PODS), int(KubeletKind.RESTRICTED_PODS))


def failures_of(cells: CellColumns, pinning: Pinning, rows: Rows) -> Sequence[Failure]:
    """What the cells of each row have of the first need that finds no cell there."""
    kinds = cells.kind[rows]
    ids = [cells.ids.of(row)[:_CELLS] for row in rows.tolist()]
    parts: list[tuple[int, Rows, Sequence[Scores]]] = []
    for whole_pod in (False, True):
        needs = _needs(pinning, whole_pod=whole_pod)
        among = np.isin(kinds, _BY_POD) == whole_pod
        among &= kinds > int(KubeletKind.NOT_ENFORCED)
        for number, need in enumerate(needs):
            lacking = among & ~any_cell(cells_with_room(cells, rows, need, cells.sure))
            if number == len(needs) - 1:
                lacking = among  # each would fit alone, but not all together
            at = np.flatnonzero(lacking)
            among = among & ~lacking
            parts.append((number, at, _amounts(cells, rows[at], need)))

    def made() -> list[Failure]:
        found: list[Failure] = [(kind, 0, (), ()) for kind in kinds.tolist()]
        for number, at, table in parts:
            amounts = zip(*(column.tolist() for column in table), strict=True)
            for i, each in zip(at.tolist(), amounts, strict=True):
                found[i] = found[i][0], number, ids[i], each
        return found

    return LaterFacts(len(rows), made)


def _needs(pinning: Pinning, *, whole_pod: bool) -> Sequence[Need]:
    return pinning.needs(whole_pod=whole_pod)[:MAX_FACTS]


def _amounts(cells: CellColumns, rows: Rows, need: Need) -> Sequence[Scores]:
    """For each resource and each cell three columns over the rows."""
    width = min(_CELLS, cells.exists.shape[0])
    table: list[Scores] = []
    nothing: Scores = np.full(len(rows), _NOT_ALIGNED, np.int64)
    for name, _ in need.amounts:
        index = cells.resources.find(name)
        for cell in range(width):
            for column in (cells.free, cells.sure, cells.allocatable):
                if index is None:
                    table.append(nothing)
                else:
                    ignored = cells.ignores[index, rows]
                    table.append(np.where(ignored, _NOT_ALIGNED, column[index, cell, rows]))
    return table


def facts_of(pinning: Pinning, failure: Failure) -> Iterator[Fact]:
    """The same in words: one fact for each resource, cell by cell."""
    kind, number, ids, amounts = failure
    if pinning.fault:
        yield fact("numa", pinning.fault)
        return
    if kind in _UNKNOWN_KINDS:
        yield fact("numa", _UNKNOWN_KINDS[kind])
        return
    needs = _needs(pinning, whole_pod=kind in _BY_POD)
    if not amounts or number >= len(needs):
        yield fact("numa", "another pod is being bound to the node")
        return
    if not ids:
        yield fact("numa", "the node has no NUMA cells")
        return
    need = needs[number]
    width = len(amounts) // (3 * len(need.amounts))
    for i, (name, asked) in enumerate(islice(need.amounts, MAX_FACTS)):
        start = 3 * width * i
        triples = [amounts[start + 3 * c : start + 3 * c + 3] for c in range(len(ids))]
        if triples and triples[0][0] != _NOT_ALIGNED:
            yield _resource(need, name, asked, dict(zip(ids, triples, strict=True)))


def _resource(need: Need, name: str, asked: int, cells: Mapping[int, tuple[int, ...]]) -> Fact:
    told = [
        {
            "cell": f"node-{number}",
            "free": exact(name, free),
            "sure": exact(name, sure),
            "allocatable": exact(name, allocatable),
        }
        for number, (free, sure, allocatable) in cells.items()
    ]
    texts = [_cell(name, asked, number, free, sure) for number, (free, sure, _) in cells.items()]
    wanted = rounded(name, asked)
    message = f"the {need.role.value} requests {wanted} {name} of one NUMA cell: {', '.join(texts)}"
    return fact(
        "numa", message, role=need.role.value, resource=name, asked=exact(name, asked), cells=told
    )


def _cell(name: str, asked: int, number: int, free: int, sure: int) -> str:
    left = distinct(name, asked, free)[1] if free < asked else rounded(name, free)
    text = f"node-{number} has {left} free"
    if free >= asked > sure:
        text += " (perhaps taken by pods not settled yet)"
    return text


def facts_of_cluster(
    state: ClusterState, cells: CellColumns, pinning: Pinning, rows: Rows
) -> Iterator[Fact]:
    """What is free in the cell that has most, among the nodes that are rejected for their cells."""
    if pinning.fault:
        yield fact("numa", pinning.fault, nodes=len(rows))
        return
    kinds = cells.kind[rows]
    for kind, message in _UNKNOWN_KINDS.items():
        number = int(np.count_nonzero(kinds == kind))
        if number:
            text = f"{number} of {state.node_count} nodes: {message}"
            yield fact("numa", text, nodes=number)
    for whole_pod in (False, True):
        aligned = np.isin(kinds, _BY_POD) == whole_pod
        among = rows[aligned & (kinds > int(KubeletKind.NOT_ENFORCED))]
        if len(among):
            for need in _needs(pinning, whole_pod=whole_pod):
                yield from _most_free(state, cells, need, among)


def _most_free(state: ClusterState, cells: CellColumns, need: Need, rows: Rows) -> Iterator[Fact]:
    for name, asked in need.amounts:
        index = cells.resources.find(name)
        if index is None:
            continue
        free = np.where(cells.ignores[index, rows], -1, cells.free[index][:, rows])
        cell, at = np.unravel_index(int(free.argmax()), free.shape)
        most, row = int(free[cell, at]), int(rows[at])
        if not 0 <= most < asked:
            continue
        number = cells.ids.of(row)[int(cell)]
        wanted, left = distinct(name, asked, most)
        node = state.name(row)
        message = (
            f"the {need.role.value} requests {wanted} {name} of one NUMA cell, "
            f"at most {left} free, in node-{number} of {node}"
        )
        yield fact(
            "numa",
            message,
            role=need.role.value,
            resource=name,
            asked=exact(name, asked),
            free=exact(name, most),
            node=node,
            cell=f"node-{number}",
            nodes=len(rows),
        )
