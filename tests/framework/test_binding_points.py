"""From reserve to post-bind: who is asked, what is undone, and how long a pod may wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from scheduler.plugin_api import PluginTraits
from tests.framework import fakes
from tests.framework.fakes import WAIT, FixedPermit, a_cycle, faults, framework_of


def test_reserve_stops_at_the_first_refusal() -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.Booking("A", diary),
        fakes.Booking("B", diary, unschedulable("taken")),
        fakes.Booking("C", diary),
    )
    assert framework.run_reserve(a_cycle(), "n0") == unschedulable("taken").by("B")
    assert diary == ["A reserve", "B reserve"]


def test_undo_asks_everyone_in_reverse_whatever_the_others_do() -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.Booking("A", diary), fakes.Booking("B", diary, broken=True), fakes.Booking("C", diary)
    )
    with pytest.raises(PluginFault, match="plugin 'B' failed at Reserve: RuntimeError: boom"):
        framework.run_unreserve(a_cycle(), "n0")
    assert diary == ["C unreserve", "B unreserve", "A unreserve"]
    assert faults(framework, "B", "Reserve") == 1


# Permit


async def test_permit_without_objections() -> None:
    framework = framework_of(FixedPermit("A", SUCCESS), FixedPermit("B", SUCCESS))
    cycle = a_cycle()
    assert framework.run_permit(cycle, "n0") == SUCCESS
    assert framework.waiting == {}
    assert await framework.wait_on_permit(cycle) == SUCCESS


async def test_a_rejection_beats_a_wait() -> None:
    framework = framework_of(FixedPermit("A", WAIT, 60), FixedPermit("B", unschedulable("no")))
    assert framework.run_permit(a_cycle(), "n0") == unschedulable("no").by("B")
    assert framework.waiting == {}


async def waiting(*timeouts: float) -> tuple[Framework, asyncio.Task[Status]]:
    """A pod for which P0, P1, … have asked to wait, and the task that waits."""
    framework = framework_of(*(FixedPermit(f"P{i}", WAIT, t) for i, t in enumerate(timeouts)))
    cycle = a_cycle()
    assert framework.run_permit(cycle, "n0").code is Code.WAIT
    return framework, asyncio.create_task(framework.wait_on_permit(cycle))


async def test_the_last_plugin_to_allow_lets_the_pod_go() -> None:
    framework, verdict = await waiting(60, 60)
    pod = framework.waiting["uid-p"]
    pod.allow("P1")
    assert pod.pending_plugins == ["P0"]
    await asyncio.sleep(0)
    assert not verdict.done()
    pod.allow("P0")
    assert await verdict == SUCCESS
    assert framework.waiting == {}


async def test_a_pod_may_be_allowed_before_its_binding_task_first_runs() -> None:
    """As when the last member of a gang lets the others go within the same slice."""
    framework, verdict = await waiting(60)
    framework.waiting["uid-p"].allow("P0")
    assert await verdict == SUCCESS


async def test_one_rejection_decides() -> None:
    framework, verdict = await waiting(60, 60)
    pod = framework.waiting["uid-p"]
    pod.allow("P0")
    pod.reject("P1", "gang is incomplete")
    pod.allow("P1")  # too late
    assert await verdict == unschedulable("gang is incomplete").by("P1")


async def test_the_first_plugin_to_run_out_of_time_rejects() -> None:
    _, verdict = await waiting(60, 0)
    timeout = unschedulable("pod default/p timed out waiting on permit").by("P1")
    assert await verdict == timeout


async def test_a_plugin_that_allowed_the_pod_cannot_time_out_any_more() -> None:
    framework, verdict = await waiting(60, 0)
    pod = framework.waiting["uid-p"]
    pod.allow("P1")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not verdict.done()
    pod.allow("P0")
    assert await verdict == SUCCESS


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    framework, verdict = await waiting(60)
    pod = framework.waiting["uid-p"]
    await asyncio.sleep(0)
    verdict.cancel()
    with pytest.raises(asyncio.CancelledError):
        await verdict
    assert framework.waiting == {}
    pod.allow("P0")  # nothing awaits it any more, and that is no fault


# Bind


class Holding(fakes.Booking):
    """Writes what it has reserved, which is nothing for pods that its filter skips."""

    traits = PluginTraits(skips_reserve=True)

    def pre_bind_pre_flight(self, cycle: Any, node: str) -> Status:
        self.diary.append(f"{self.name} pre-flight")
        return SUCCESS

    async def pre_bind(self, cycle: Any, node: str) -> Status:
        self.diary.append(f"{self.name} pre-bind")
        return SUCCESS


@pytest.mark.parametrize(
    ("skipped", "asked"), [({"A"}, ["B"]), ({"A", "B"}, []), (set(), ["A", "B"])]
)
async def test_plugins_that_skip_reserve_are_asked_for_no_work_before_binding(
    skipped: set[str], asked: list[str]
) -> None:
    diary: list[str] = []
    framework = framework_of(Holding("A", diary), Holding("B", diary))
    cycle = a_cycle()
    cycle.skipped["filter"] = frozenset(skipped)
    assert framework.has_pre_bind_work(cycle, "n0") == bool(asked)
    assert await framework.run_pre_bind(cycle, "n0") == SUCCESS
    assert diary == [f"{name} {step}" for step in ("pre-flight", "pre-bind") for name in asked]


async def test_pre_bind_stops_at_the_first_refusal_and_skips_are_no_refusal() -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.Binder("A", diary, SKIP),
        fakes.Binder("B", diary, unschedulable("no volume")),
        fakes.Binder("C", diary),
    )
    assert await framework.run_pre_bind(a_cycle(), "n0") == unschedulable("no volume").by("B")
    assert diary == ["A pre_bind", "B pre_bind"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (SUCCESS, SUCCESS),
        (error("conflict"), error('running Bind plugin "B": conflict').by("B")),
        (unschedulable("taken"), unschedulable("taken").by("B")),
    ],
)
async def test_the_first_plugin_that_does_not_skip_binds(status: Status, expected: Status) -> None:
    diary: list[str] = []
    framework = framework_of(
        fakes.Binder("A", diary, SKIP), fakes.Binder("B", diary, status), fakes.Binder("C", diary)
    )
    assert await framework.run_bind(a_cycle(), "n0") == expected
    assert diary == ["A bind", "B bind"]


async def test_somebody_must_bind() -> None:
    framework = framework_of(fakes.Binder("A", [], SKIP))
    assert await framework.run_bind(a_cycle(), "n0") == error("no bind plugin acted on the pod")


async def test_bugs_around_binding_are_faults_and_counted() -> None:
    framework = framework_of(fakes.RaisingBinder("Bad"))
    cycle = a_cycle()
    with pytest.raises(PluginFault, match="failed at PreBind: RuntimeError: boom"):
        await framework.run_pre_bind(cycle, "n0")
    with pytest.raises(PluginFault, match="failed at Bind: RuntimeError: boom"):
        await framework.run_bind(cycle, "n0")
    with pytest.raises(PluginFault, match="failed at PostBind: RuntimeError: boom"):
        framework.run_post_bind(cycle, "n0")
    assert [faults(framework, "Bad", p) for p in ("PreBind", "Bind", "PostBind")] == [1, 1, 1]


# What is measured, and who is woken


def sample(framework: Framework, name: str, **labels: Any) -> float | None:
    return framework.runner.metrics.registry.get_sample_value(name, labels)


def test_points_are_timed_under_their_outcome() -> None:
    framework = framework_of(fakes.Booking("A", [], unschedulable("no")))
    framework.run_reserve(a_cycle(), "n0")
    labels = {"extension_point": "Reserve", "status": "Unschedulable", "profile": "fakes"}
    name = "scheduler_framework_extension_point_duration_seconds_count"
    assert sample(framework, name, **labels) == 1


def test_only_the_points_that_judge_nodes_count_as_evaluations() -> None:
    framework = framework_of(fakes.TrueFilter("A"), fakes.Booking("B", []))
    cycle = a_cycle()
    framework.run_filters(cycle, cycle.state.rows())
    framework.run_reserve(cycle, "n0")
    name = "scheduler_plugin_evaluation_total"
    assert sample(framework, name, plugin="A", extension_point="Filter", profile="fakes") == 1
    assert sample(framework, name, plugin="B", extension_point="Reserve", profile="fakes") is None


def test_a_plugin_that_does_not_say_what_it_listens_to_is_woken_by_everything() -> None:
    (hint,) = framework_of(fakes.TrueFilter("A")).hints()["A"]
    assert hint.kind == "*"
    assert hint.hint is None
