"""What ServiceAffinity knows about its rejections: the labels that the service's pods have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.model.selectors import Requirement
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told, fact, requirement_text, told
from scheduler.state.columns import Rows


def apart(cycle: Cycle, rows: Rows, wanted: Sequence[Requirement]) -> Sequence[Told]:
    """The labels in which each row differs."""
    labels = cycle.state.columns.labels
    table = [(~labels.column(each.key).matches(each, rows)).tolist() for each in wanted]

    def facts(way: tuple[bool, ...]) -> Iterator[Fact]:
        for each, fails in zip(wanted, way, strict=True):
            if fails:
                yield _fact(each, f"pods of its service are on nodes with {requirement_text(each)}")

    return told(list(zip(*table, strict=True)) if table else [()] * len(rows), facts)


def apart_in_cluster(cycle: Cycle, wanted: Sequence[Requirement]) -> Iterator[Fact]:
    """How many nodes have each of the labels."""
    rows, labels = cycle.state.rows(), cycle.state.columns.labels
    for each in wanted:
        other = len(rows) - int(np.count_nonzero(labels.column(each.key).matches(each, rows)))
        if other:
            text = requirement_text(each)
            message = f"{other} of {len(rows)} nodes are not among those of its service: {text}"
            yield _fact(each, message, nodes=other)


def _fact(each: Requirement, message: str, **values: int) -> Fact:
    (value,) = each.values
    return fact("serviceAffinity", message, key=each.key, value=value, **values)
