"""What TaintToleration knows about its rejections: which taint, which toleration is nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from scheduler.model.nodes import Taint
from scheduler.model.pods import Toleration
from scheduler.model.tolerations import HARD_EFFECTS, Cover
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, Fact, closest, fact, have
from scheduler.state.columns import Rows

Failure = tuple[Taint, ...]
"""The taints of a node, tolerated or not: which are not is found out when they are told."""

_SETS = 256
"""Of so many sets of taints, those of most nodes, the taints are counted for the cluster."""
_COMPARED = 8
"""So many tolerations are compared with a taint to find one of a similar key."""


def taints_of(cycle: Cycle, rows: Rows) -> Sequence[Failure]:
    """The taints of each row."""
    taints = cycle.state.columns.taints
    values = taints.interner.values
    return [values[number] for number in taints.numbers[rows].tolist()]


def facts_of(tolerations: tuple[Toleration, ...], failure: Failure) -> Iterator[Fact]:
    """Each taint of one node that is not tolerated, and the toleration that comes near."""
    for taint in _repelling(_cover(tolerations), failure):
        near = _near_miss(tolerations, taint)
        message = f"taint {_text(taint)} is not tolerated{near and f'; {near}'}"
        yield fact("taint", message, **_plain(taint), near=near or None)


def _repelling(cover: Cover, taints: Iterable[Taint]) -> Iterator[Taint]:
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not cover.covers(taint):
            yield taint


@lru_cache(maxsize=4)
def _cover(tolerations: tuple[Toleration, ...]) -> Cover:
    return Cover(tolerations)


def facts_of_cluster(cycle: Cycle, rows: Rows) -> Iterator[Fact]:
    """Each taint with the number of nodes that it closes."""
    tolerations, total = cycle.pod.pod.spec.tolerations, cycle.state.node_count
    taints, cover = cycle.state.columns.taints, Cover(tolerations)
    closed: Counter[Taint] = Counter()
    for number, count in Counter(taints.numbers[rows].tolist()).most_common(_SETS):
        for taint in dict.fromkeys(_repelling(cover, taints.interner.values[number])):
            closed[taint] += count
    for taint, number in closed.most_common(MAX_FACTS):
        near = _near_miss(tolerations, taint) or _similar(tolerations, taint)
        message = f"{have(number, total)} the taint {_text(taint)}, which is not tolerated"
        message += near and f"; {near}"
        yield fact("taint", message, **_plain(taint), near=near or None, nodes=number)


def _plain(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def _text(taint: Taint | Toleration) -> str:
    """As kubectl writes it: ``key=value:Effect``."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}" if taint.effect else f"{taint.key}{value}"


def _near_miss(tolerations: Sequence[Toleration], taint: Taint) -> str:
    """The toleration that comes nearest to covering a taint, and what it lacks; empty if none."""
    own = [each for each in tolerations if each.key == taint.key]
    for each in own:
        if each.operator == "Exists" or each.value == taint.value:
            return f"its toleration {_text(each)} is for another effect"
    if own:
        return f"its toleration {_text(own[0])} is for another value"
    return ""


def _similar(tolerations: Sequence[Toleration], taint: Taint) -> str:
    """A toleration of a similar key; empty if there is none."""
    meant = closest(taint.key, [each.key for each in tolerations[:_COMPARED]])
    return f"its toleration is for the key {meant}" if meant else ""
