"""Selectors for property tests, and what the API documents for one requirement."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from tests.builders import Json, requirement

KEYS = ("app", "zone", "gen")
VALUES = ("", "a", "b", "1", "7", "007", "-3", "+4", "1_0", "9" * 30, "2.5")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
numbers = st.integers(-9, 9).map(str)


def requirements(*, ordered: bool) -> st.SearchStrategy[Json]:
    keys = st.sampled_from(KEYS)
    some = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
    kinds = [
        st.builds(
            lambda o, k, v: requirement(k, o, *v), st.sampled_from(["In", "NotIn"]), keys, some
        ),
        st.builds(
            lambda o, k: requirement(k, o), st.sampled_from(["Exists", "DoesNotExist"]), keys
        ),
    ]
    if ordered:
        bounds = st.sampled_from(["Gt", "Lt"])
        kinds.append(st.builds(lambda o, k, n: requirement(k, o, n), bounds, keys, numbers))
    return st.one_of(kinds)


def satisfied(raw: Json, having: dict[str, str]) -> bool:
    """What the API documents for one requirement."""
    key, operator, values = raw["key"], raw["operator"], raw["values"]
    if operator in ("Gt", "Lt"):
        number = having.get(key, "")
        if not re.fullmatch(r"[+-]?[0-9]+", number) or abs(int(number)) >= 2**63:
            return False
        return int(number) > int(values[0]) if operator == "Gt" else int(number) < int(values[0])
    return {
        "In": key in having and having[key] in values,
        "NotIn": key not in having or having[key] not in values,
        "Exists": key in having,
        "DoesNotExist": key not in having,
    }[str(operator)]
