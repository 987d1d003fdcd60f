"""What NodeConditions knows about its rejections: which condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told, fact, told
from scheduler.state.columns import Rows

_States = Set[tuple[str, str]]


def bad_conditions(cycle: Cycle, rows: Rows, watched: _States) -> Sequence[Told]:
    """The conditions of each row that keep the pod away."""
    known = cycle.state.columns.conditions.interner.values

    def facts(number: int) -> Iterator[Fact]:
        for condition, status in sorted(watched & known[number]):
            message = f"its condition {condition} is {status}"
            yield fact("condition", message, condition=condition, status=status)

    return told(cycle.state.columns.conditions.numbers[rows].tolist(), facts)


def bad_in_cluster(cycle: Cycle, rows: Rows, watched: _States) -> Iterator[Fact]:
    """How many nodes are in each condition."""
    known, total = cycle.state.columns.conditions.interner.values, cycle.state.node_count
    numbers: Counter[tuple[str, str]] = Counter()
    for number, count in Counter(cycle.state.columns.conditions.numbers[rows].tolist()).items():
        for state in watched & known[number]:
            numbers[state] += count
    for (condition, status), count in numbers.most_common():
        message = f"on {count} of {total} nodes the condition {condition} is {status}"
        yield fact("condition", message, condition=condition, status=status, nodes=count)
