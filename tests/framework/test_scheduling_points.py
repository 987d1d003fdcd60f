"""From pre-enqueue to score: order, skipping, narrowing, and what a plugin must not return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework.faults import PluginFault
from scheduler.model.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from tests.framework import fakes
from tests.framework.fakes import FixedPreFilter, a_cycle, faults, framework_of


def codes(cycle: Cycle, diagnosis: Diagnosis) -> dict[str, Status]:
    return {
        cycle.state.name(int(row)): cycle.state.statuses.status(int(code))
        for row, code in zip(diagnosis.rows, diagnosis.codes, strict=True)
    }


def test_the_first_gate_that_closes_decides() -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.Gate("A", SUCCESS, diary),
        fakes.Gate("B", unschedulable("not yet"), diary),
        fakes.Gate("C", SUCCESS, diary),
    )
    assert framework.run_pre_enqueue(a_cycle().pod) == unschedulable("not yet").by("B")
    assert diary == ["A pre_enqueue", "B pre_enqueue"]


# PreFilter


def test_skip_leaves_out_this_plugins_filter_only() -> None:
    diary: list[str] = []
    framework = framework_of(
        FixedPreFilter("A", SKIP, diary=diary), FixedPreFilter("B", diary=diary)
    )
    evaluate(framework, a_cycle()).diagnosis()
    assert diary == ["A pre_filter", "B pre_filter", "B filter"]


def test_unschedulable_lets_the_others_prepare() -> None:
    diary: list[str] = []
    framework = framework_of(
        FixedPreFilter("A", unschedulable("no"), diary=diary), FixedPreFilter("B", diary=diary)
    )
    assert framework.run_pre_filter(a_cycle()).rejection == unschedulable("no").by("A")
    assert diary == ["A pre_filter", "B pre_filter"]


@pytest.mark.parametrize("status", [unresolvable("never"), Status(Code.PENDING)])
def test_any_other_refusal_ends_the_attempt(status: Status) -> None:
    diary: list[str] = []
    framework = framework_of(
        FixedPreFilter("A", status, diary=diary), FixedPreFilter("B", diary=diary)
    )
    assert framework.run_pre_filter(a_cycle()).rejection == status.by("A")
    assert diary == ["A pre_filter"]


def test_an_error_says_where_it_comes_from() -> None:
    framework = framework_of(FixedPreFilter("A", error("broken")))
    expected = error('running PreFilter plugin "A": broken').by("A")
    assert framework.run_pre_filter(a_cycle()).rejection == expected


def test_named_nodes_are_intersected_and_others_excluded() -> None:
    framework = framework_of(
        FixedPreFilter("Late", nodes=["n0", "n1", "elsewhere"]),
        FixedPreFilter("Early", nodes=["n1", "n2"]),
    )
    cycle = a_cycle()
    diagnosis = evaluate(framework, cycle).diagnosis()
    excluded = unresolvable("node(s) didn't satisfy plugin(s) [Early Late]").by("Late")
    assert codes(cycle, diagnosis) == {"n0": excluded, "n1": SUCCESS, "n2": excluded}


def test_a_pod_left_with_few_nodes_may_be_cured_by_each_plugin_that_narrowed() -> None:
    framework = framework_of(
        FixedPreFilter("A", nodes=["n0", "n1"]),
        FixedPreFilter("B", nodes=["n1"]),
        fakes.FalseFilter("C"),
    )
    diagnosis = evaluate(framework, a_cycle()).diagnosis()
    assert diagnosis.unschedulable_plugins == {"A", "B", "C"}


@pytest.mark.parametrize(
    ("plugins", "reason"),
    [
        pytest.param([("A", [])], "node(s) didn't satisfy plugin A", id="one"),
        pytest.param(
            [("B", ["n1"]), ("A", ["n2"])],
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
            id="two that exclude each other",
        ),
    ],
)
def test_no_node_left_by_names(plugins: list[tuple[str, list[str]]], reason: str) -> None:
    framework = framework_of(*(FixedPreFilter(name, nodes=nodes) for name, nodes in plugins))
    diagnosis = evaluate(framework, a_cycle()).diagnosis()
    assert diagnosis.pre_filter == unresolvable(reason).by(plugins[0][0])
    assert diagnosis.unschedulable_plugins == {name for name, _ in plugins}


def test_named_nodes_that_are_not_there_leave_all_others_excluded() -> None:
    cycle = a_cycle()
    diagnosis = evaluate(framework_of(FixedPreFilter("A", nodes=["elsewhere"])), cycle).diagnosis()
    excluded = unresolvable("node(s) didn't satisfy plugin(s) [A]").by("A")
    assert set(codes(cycle, diagnosis).values()) == {excluded}


# Filter


def test_each_filter_sees_only_what_passed_before_and_the_first_verdict_counts() -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.FalseFilter("A", ["n1", "n2"], diary),
        fakes.FalseFilter("B", ["n0", "n2"], diary),
        fakes.TrueFilter("C", diary),
    )
    cycle = a_cycle()
    got = codes(cycle, evaluate(framework, cycle).diagnosis())
    assert diary == ["A filter n0 n1 n2", "B filter n1 n2", "C filter n2"]
    assert {name: status.plugin for name, status in got.items()} == {"n0": "A", "n1": "B", "n2": ""}


def test_no_filter_is_asked_when_nothing_is_left() -> None:
    diary: list[str] = []
    framework = framework_of(fakes.FalseFilter("A", diary=diary), fakes.TrueFilter("B", diary))
    evaluate(framework, a_cycle()).diagnosis()
    assert diary == ["A filter n0 n1 n2"]


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (fakes.RaisingFilter("Bad"), "plugin 'Bad' failed at Filter: RuntimeError: boom"),
        (fakes.WrongShapeFilter("Bad"), "plugin 'Bad' failed at Filter: wrong number of verdicts"),
        (
            fakes.CodedFilter("Bad", np.zeros(3)),
            "plugin 'Bad' failed at Filter: verdicts are float64, not int32",
        ),
        (
            fakes.CodedFilter("Bad", np.full(3, 99, np.int32)),
            "plugin 'Bad' failed at Filter: a verdict is not the code of a status",
        ),
        (
            fakes.CodedFilter("Bad", np.full(3, -1, np.int32)),
            "plugin 'Bad' failed at Filter: a verdict is not the code of a status",
        ),
        (fakes.CodedFilter("Bad", None), "plugin 'Bad' failed at Filter: wrong number of verdicts"),
    ],
)
def test_a_filter_with_a_bug_is_a_fault_and_counted(plugin: Any, text: str) -> None:
    framework = framework_of(plugin)
    with pytest.raises(PluginFault) as raised:
        evaluate(framework, a_cycle()).diagnosis()
    assert str(raised.value) == text
    assert faults(framework, "Bad", "Filter") == 1


# PostFilter


def post_filters(diary: list[str], *results: tuple[Status, str | None]) -> list[Any]:
    return [fakes.FixedPostFilter(f"P{i}", *result, diary) for i, result in enumerate(results)]


def test_nothing_to_be_done_without_post_filters() -> None:
    cycle = a_cycle()
    assert (
        framework_of().run_post_filters(cycle, evaluate(framework_of(), cycle).diagnosis()) is None
    )


@pytest.mark.parametrize(
    ("first", "called"),
    [
        pytest.param(unschedulable("no victims"), 2, id="a no goes on"),
        pytest.param(SUCCESS, 1, id="success ends"),
        pytest.param(unresolvable("never"), 1, id="never ends"),
        pytest.param(error("broken"), 1, id="a fault ends"),
    ],
)
def test_post_filters_run_until_one_settles_it(first: Status, called: int) -> None:
    diary: list[str] = []
    framework = framework_of(*post_filters(diary, (first, "n1"), (unschedulable("nor I"), None)))
    cycle = a_cycle()
    result = framework.run_post_filters(cycle, evaluate(framework_of(), cycle).diagnosis())
    assert result is not None
    assert len(diary) == called
    assert result.nominated_node == "n1"
    assert result.status.reasons == (*first.reasons, *(("nor I",) if called == 2 else ()))


# Score


def test_scores_are_weighted_and_summed() -> None:
    framework = framework_of(
        fakes.FixedScore("A"), fakes.FixedScore("B", factor=10), weights={"B": 3}
    )
    cycle = a_cycle()
    scored = framework.run_scores(cycle, cycle.state.rows())
    assert {name: part.tolist() for name, part in scored.plugins.items()} == {
        "A": [0, 1, 2],
        "B": [0, 30, 60],
    }
    assert scored.totals.tolist() == [0, 31, 62]


def test_a_plugin_that_skips_scoring_is_absent() -> None:
    framework = framework_of(fakes.FixedScore("A", pre_score=SKIP), fakes.FixedScore("B"))
    cycle = a_cycle()
    assert list(framework.run_scores(cycle, cycle.state.rows()).plugins) == ["B"]
