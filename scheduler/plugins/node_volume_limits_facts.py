"""What NodeVolumeLimits knows about its rejections: how many volumes of a driver are attached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told, fact, told
from scheduler.plugins.volumes.claim_facts import claim_facts
from scheduler.state.attachments import Attachable
from scheduler.state.columns import Rows, Scores

_Full = tuple[tuple[str, int, int, int], ...]
"""Driver, attached, new, limit."""


def limits_reached(
    cycle: Cycle, rows: Rows, wanted: Collection[Attachable] | None
) -> Sequence[Told]:
    """The drivers whose limit the pod would exceed on each row; None: that cannot be told."""
    if wanted is None:
        return told([()] * len(rows), lambda _: claim_facts(cycle.pod, cycle.state.objects))
    ways: list[list[tuple[str, int, int, int]]] = [[] for _ in range(len(rows))]
    for driver, attached, new, limit in _by_driver(cycle, rows, wanted):
        for i in np.flatnonzero((new > 0) & (attached + new > limit)).tolist():
            ways[i].append((driver, int(attached[i]), int(new[i]), int(limit[i])))
    return told([tuple(way) for way in ways], _facts)


def _by_driver(
    cycle: Cycle, rows: Rows, wanted: Collection[Attachable]
) -> Iterator[tuple[str, Scores, Scores, Scores]]:
    attachments = cycle.state.attachments
    for driver, number in sorted(Counter(volume.driver for volume in wanted).items()):
        new = np.full(cycle.state.columns.capacity, number)
        for volume in wanted:
            if volume.driver == driver:
                new[list(attachments.users(volume))] -= 1
        yield driver, attachments.counts(driver)[rows], new[rows], attachments.limits(driver)[rows]


def _facts(way: _Full) -> Iterator[Fact]:
    for driver, attached, new, limit in way:
        message = f"has {attached} volumes of {driver}, {new} more exceed the limit {limit}"
        yield fact("volumeLimit", message, driver=driver, attached=attached, new=new, limit=limit)


def limits_in_cluster(
    cycle: Cycle, rows: Rows, wanted: Collection[Attachable] | None
) -> Iterator[Fact]:
    """How many nodes have reached the limit of each driver."""
    if wanted is None:
        for each in claim_facts(cycle.pod, cycle.state.objects):
            yield {**each, "nodes": len(rows)}
        return
    for driver, attached, new, limit in _by_driver(cycle, rows, wanted):
        full = int(np.count_nonzero((new > 0) & (attached + new > limit)))
        if full:
            total = cycle.state.node_count
            message = f"{full} of {total} nodes can attach no {int(new.max())} more of {driver}"
            yield fact("volumeLimit", message, driver=driver, nodes=full)
