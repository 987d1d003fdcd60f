"""What VolumeZone knows about its rejections: where the volume is, and where the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.model.selectors import Requirement
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, Fact, Told, fact, requirement_text, told
from scheduler.plugins.volumes.claim_facts import claim_facts
from scheduler.state.columns import Mask, Rows


class VolumePlace(NamedTuple):
    """A zone or region of the volume of a claim."""

    claim: str
    volume: str
    place: Requirement
    nodes: Mask
    """Which of all rows are there."""


def places(cycle: Cycle, rows: Rows, found: Sequence[VolumePlace] | None) -> Sequence[Told]:
    """The places in which each row is not; None if PreFilter has rejected the pod."""
    if found is None:
        return told([()] * len(rows), lambda _: claim_facts(cycle.pod, cycle.state.objects))
    at = np.searchsorted(cycle.state.rows(), rows)
    labels, found = cycle.state.columns.labels, found[:MAX_FACTS]
    table = []
    for each in found:
        column = labels.column(each.place.key)
        values = [column.values.values[id_] or "" for id_ in column.ids.take(rows).tolist()]
        inside = each.nodes[at].tolist()
        pairs = zip(values, inside, strict=True)
        table.append([None if is_there else value for value, is_there in pairs])

    def facts(way: tuple[str | None, ...]) -> Iterator[Fact]:
        for each, has in zip(found, way, strict=True):
            if has is not None:
                where = f"the node in {has}" if has else "the node elsewhere"
                yield _fact(each, f"{_text(each)}, {where}", has=has or None)

    return told(list(zip(*table, strict=True)), facts)


def places_in_cluster(
    cycle: Cycle, rows: Rows, found: Sequence[VolumePlace] | None
) -> Iterator[Fact]:
    """How many nodes are in each place."""
    if found is None:
        for each in claim_facts(cycle.pod, cycle.state.objects):
            yield {**each, "nodes": len(rows)}
        return
    total = cycle.state.node_count
    for place in found[:MAX_FACTS]:
        inside = int(np.count_nonzero(place.nodes))
        there = "no node is there" if not inside else f"{inside} of {total} nodes are there"
        if inside < total:
            yield _fact(place, f"{_text(place)}; {there}", nodes=len(rows))


def _text(each: VolumePlace) -> str:
    return f"volume {each.volume} of claim {each.claim} is in {requirement_text(each.place)}"


def _fact(each: VolumePlace, message: str, **values: object) -> Fact:
    return fact(
        "volumeZone",
        message,
        claim=each.claim,
        volume=each.volume,
        key=each.place.key,
        values=sorted(each.place.values)[:MAX_FACTS],
        **values,
    )
