"""What NodeDeclaredFeatures knows about its rejections: which feature is not declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact, Told, fact, told
from scheduler.state.columns import Rows


def missing_features(cycle: Cycle, rows: Rows, required: frozenset[str]) -> Sequence[Told]:
    """The features that each row does not declare."""
    declared = cycle.state.columns.features.interner.values
    numbers = cycle.state.columns.features.numbers[rows].tolist()

    def facts(number: int) -> Iterator[Fact]:
        for feature in sorted(required.difference(declared[number])):
            message = f"the node does not declare the feature {feature}"
            yield fact("feature", message, feature=feature)

    return told(numbers, facts)


def missing_in_cluster(cycle: Cycle, required: frozenset[str]) -> Iterator[Fact]:
    """How many nodes do not declare each feature."""
    columns, rows = cycle.state.columns, cycle.state.rows()
    numbers = columns.features.numbers[rows].tolist()
    for feature in sorted(required):
        without = sum(feature not in columns.features.interner.values[each] for each in numbers)
        if without:
            message = f"{without} of {len(rows)} nodes do not declare the feature {feature}"
            yield fact("feature", message, feature=feature, nodes=without)
