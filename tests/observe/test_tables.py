"""Tables of dictionaries become short again when their entries have gone."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

import pytest

from scheduler.observe.tables import ENTRY_BYTES, LARGE_BYTES, MOST_ENTRIES, TIMES_TOO_LONG, Tables
from tests.builders import make_pod, make_worker
from tests.cost.census import reached
from tests.pipeline.support import Stage

MANY = 3_000


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("left", [0, 7])
def test_a_table_is_as_long_as_its_entries_need(kind: type[dict[Any, Any]], left: int) -> None:
    table, tables = kind((n, str(n)) for n in range(100_000)), Tables()
    tables.follow(table)
    for n in range(100_000 - left):
        del table[n]
    expected = list(table.items())
    tables.shrink()
    assert sys.getsizeof(table) <= LARGE_BYTES
    assert list(table.items()) == expected


def test_a_table_with_many_entries_is_left_alone() -> None:
    table, tables = dict.fromkeys(range(1_000_000)), Tables()
    tables.follow(table)
    for n in range(1_000_000 - MOST_ENTRIES - 1):
        del table[n]
    before = sys.getsizeof(table)
    tables.shrink()
    assert sys.getsizeof(table) == before


async def test_no_table_of_a_core_stays_long_when_its_pods_are_gone() -> None:
    scene = Stage()
    scene.see(make_worker("n").pods(2 * MANY))
    pods = [make_pod(f"waiting-{n}").cpu("1000") for n in range(MANY)]
    pods += [make_pod(f"running-{n}").cpu("1m").on("n") for n in range(MANY)]
    scene.see(*pods)
    await scene.run()
    scene.lose(*pods)
    scene.metrics.tables.shrink()
    long = [
        (sys.getsizeof(each), len(each), list(each)[:2])
        for each in reached(scene.core)
        if isinstance(each, dict)
        and sys.getsizeof(each) > max(LARGE_BYTES, TIMES_TOO_LONG * ENTRY_BYTES * len(each))
    ]
    assert long == []
