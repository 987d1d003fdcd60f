"""Plugins made of functions, registered at a point by whatever spelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.equivalence.reads import Reads
from scheduler.framework.registry import points_of
from scheduler.framework.simple import completed
from scheduler.model.status import SUCCESS, Status, unresolvable, unschedulable
from scheduler.plugin_api import NodeView
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import POINTS, EquivalentFilter, PreFilterResult
from scheduler.plugin_api.registration import (
    RegistrationError,
    Registrations,
    collecting,
    register,
)
from scheduler.plugins.enqueueing import PrioritySort
from scheduler.state.columns import Rows
from tests.framework.fakes import a_cycle, framework_of


def made(registrations: Registrations) -> list[Any]:
    plugins = registrations.plugins().values()
    return [completed(each)(None, None) for each in plugins]  # type: ignore[arg-type]  # no handle


def agree(cycle: Cycle) -> PreFilterResult:
    return PreFilterResult()


@pytest.mark.parametrize("key", POINTS)
def test_every_point_has_three_spellings(key: str) -> None:
    point = POINTS[key]
    kebab = "".join(f"-{c.lower()}" if c.isupper() else c for c in key)
    for spelling in (kebab, key, kebab.replace("-", "_")):
        registrations = Registrations()
        registrations.register(spelling, lambda *args: None, name="A")
        assert key in points_of(registrations.plugins()["A"]), spelling
        assert hasattr(registrations.plugins()["A"], point.method)


def test_plugins_run_in_the_order_registered() -> None:
    diary: list[str] = []
    registrations = Registrations()

    def noting(name: str) -> Any:
        def pre_filter(cycle: Cycle) -> PreFilterResult:
            diary.append(name)
            return PreFilterResult()

        return pre_filter

    for name in ("second", "first", "third"):
        registrations.register("pre-filter", noting(name), name=name)
    framework_of(*made(registrations)).run_pre_filter(a_cycle())
    assert diary == ["second", "first", "third"]


class Quota:
    """An object whose methods are registered, as in the design's ``plugin.foo``."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def foo(self, cycle: Cycle) -> PreFilterResult:
        rejected = cycle.pod.pod.metadata.name in self.used
        return PreFilterResult(unresolvable("over quota") if rejected else SUCCESS)

    def book(self, cycle: Cycle, node: str) -> Status:
        self.used.append(cycle.pod.pod.metadata.name)
        return SUCCESS

    def give_back(self, cycle: Cycle, node: str) -> None:
        self.used.remove(cycle.pod.pod.metadata.name)


def test_methods_of_one_object_are_one_plugin() -> None:
    plugin, registrations = Quota(), Registrations()
    registrations.register("pre-filter", plugin.foo)
    registrations.register("reserve", plugin.book)
    registrations.register("reject", plugin.give_back)
    assert list(registrations.plugins()) == ["Quota"]
    framework, cycle = framework_of(*made(registrations)), a_cycle()
    assert framework.run_reserve(cycle, "n0").ok
    assert framework.run_pre_filter(cycle).rejection == unresolvable("over quota").by("Quota")
    framework.run_unreserve(cycle, "n0")
    assert framework.run_pre_filter(cycle).rejection is None


def test_what_belongs_to_a_point_is_filled_in() -> None:
    registrations = Registrations()
    registrations.register("score", lambda cycle, rows: np.full(len(rows), 7), name="Seven")
    registrations.register("reject", lambda cycle, node: None, name="Undoing")
    framework, cycle = framework_of(*made(registrations)), a_cycle()
    assert framework.run_scores(cycle, cycle.state.rows()).totals.tolist() == [7, 7, 7]
    assert framework.run_reserve(cycle, "n0").ok
    framework.run_unreserve(cycle, "n0")


def closed(cycle: Cycle, node: NodeView) -> Status:
    return unschedulable("closed") if node.name == "n1" else SUCCESS


def test_simple_functions_and_what_they_read() -> None:
    registrations = Registrations()
    registrations.register("filter-node", closed, reads=Reads(), key=lambda pod: "")
    (plugin,) = made(registrations)
    assert plugin.name == "closed"
    assert isinstance(plugin, EquivalentFilter)
    framework, cycle = framework_of(plugin), a_cycle()
    assert framework.run_filters(cycle, cycle.state.rows()).astype(bool).tolist() == [0, 1, 0]


def test_a_function_of_two_pods_sorts_by_comparison() -> None:
    registrations = Registrations()
    registrations.register("queue-sort", lambda a, b: a.info.key < b.info.key, name="ByName")
    registrations.register("queueSort", lambda queued: queued.info.key, name="ByKey")
    by_name, by_key = registrations.plugins().values()
    assert hasattr(by_name, "less")
    assert not hasattr(by_key, "less")
    assert points_of(by_name) == points_of(by_key) == points_of(PrioritySort)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("pre-filtre", agree), {}, "there is no extension point 'pre-filtre'; there are add-pod,"),
        (("pre-filter", "agree"), {}, "'agree' is registered at 'pre-filter' and is no function"),
        (("pre-bind", agree), {"reads": Reads()}, "reads and key go together, with a filter or"),
        (("filter", agree), {"reads": Reads()}, "reads and key go together, with a filter or"),
    ],
)
def test_what_cannot_be_registered(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        Registrations().register(*arguments, **options)


def test_a_point_has_one_function_of_a_name() -> None:
    registrations = Registrations()
    registrations.register("filter", lambda cycle, rows: None, name="A")
    with pytest.raises(RegistrationError, match="plugin 'A' has two functions at 'Filter'"):
        registrations.register("Filter", lambda cycle, rows: None, name="A")


def test_register_is_for_files_that_are_being_loaded() -> None:
    with pytest.raises(RegistrationError, match="works while a plugin file is loaded"):
        register("pre-filter", agree)
    with collecting() as found:
        assert register("pre-filter", agree) is agree
    assert list(found.plugins()) == ["agree"]


def test_rows_reach_a_registered_function_as_they_are() -> None:
    seen: list[Rows] = []
    registrations = Registrations()

    def look(cycle: Cycle, rows: Rows) -> Status:
        seen.append(rows)
        return SUCCESS

    registrations.register("after-filter", look)
    framework, cycle = framework_of(*made(registrations)), a_cycle()
    assert framework.run_after_filters(cycle, cycle.state.rows()).ok
    assert seen[0].tolist() == [0, 1, 2]
