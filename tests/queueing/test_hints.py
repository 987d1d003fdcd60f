"""Who listens to what."""

from __future__ import annotations

import logging

import pytest

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, Event
from scheduler.observe.metrics import Metrics
from scheduler.queueing.hints import ANY_KIND, HintRegistration, HintTable, Requeue
from scheduler.queueing.queued_pod import QueuedPod

from .support import PROFILE, FakeClock, broken, make_pod, never

LABEL_AND_TAINT = Action.NODE_LABEL | Action.NODE_TAINT


def table(*registrations: HintRegistration, metrics: Metrics | None = None) -> HintTable:
    return HintTable({PROFILE: {"P": registrations}}, metrics or Metrics(), FakeClock())


@pytest.mark.parametrize(
    ("registration", "event", "listens"),
    [
        pytest.param(
            HintRegistration("Node", Action.ADD), Event("Node", Action.ADD), True, id="the same"
        ),
        pytest.param(
            HintRegistration("Node", Action.ADD), Event("Node", Action.DELETE), False, id="action"
        ),
        pytest.param(
            HintRegistration("Node", Action.DELETE), Event("Pod", Action.DELETE), False, id="kind"
        ),
        pytest.param(
            HintRegistration("Node", Action.NODE_LABEL),
            Event("Node", LABEL_AND_TAINT),
            True,
            id="an event that carries several actions is heard for each",
        ),
        pytest.param(
            HintRegistration("Node", Action.UPDATE),
            Event("Node", Action.NODE_LABEL),
            True,
            id="Update includes finer updates",
        ),
        pytest.param(
            HintRegistration("Node", Action.NODE_LABEL),
            Event("Node", Action.UPDATE),
            False,
            id="a finer registration does not hear a plain update",
        ),
        pytest.param(
            HintRegistration("Node", Action.UPDATE),
            Event("Node", Action.DELETE),
            False,
            id="Update does not include Delete",
        ),
        pytest.param(
            HintRegistration("Pod", Action.DELETE),
            Event(ASSIGNED_POD, Action.DELETE),
            True,
            id="Pod includes assigned pods",
        ),
        pytest.param(
            HintRegistration("Pod", Action.POD_LABEL),
            Event(UNSCHEDULABLE_POD, Action.POD_LABEL),
            True,
            id="Pod includes waiting pods",
        ),
        pytest.param(
            HintRegistration(ANY_KIND, Action.ADD),
            Event("CSINode", Action.ADD),
            True,
            id="the star includes all kinds",
        ),
        pytest.param(
            HintRegistration("Node", Action.ADD),
            Event("Node", Action.NODE_TAINT),
            True,
            id="who waits for nodes also hears of taints",
        ),
    ],
)
def test_matching(registration: HintRegistration, event: Event, listens: bool) -> None:
    assert ((PROFILE, "P") in table(registration).matching(event)) is listens


def test_the_taint_rule_does_not_overrule_a_hint_of_the_plugin() -> None:
    registration = HintRegistration("Node", Action.ADD | Action.NODE_TAINT, never)
    hints = table(registration)
    assert hints.matching(Event("Node", Action.NODE_TAINT)) == {(PROFILE, "P"): (registration,)}


def rejected_by(*plugins: str, pending: tuple[str, ...] = ()) -> QueuedPod:
    queued = QueuedPod(make_pod("a"), 0.0)
    queued.unschedulable_plugins = set(plugins)
    queued.pending_plugins = set(pending)
    return queued


@pytest.mark.parametrize(
    ("queued", "verdict"),
    [
        pytest.param(rejected_by("Yes"), Requeue.AFTER_BACKOFF, id="a cure"),
        pytest.param(rejected_by("No"), Requeue.SKIP, id="no cure"),
        pytest.param(rejected_by("No", "Yes"), Requeue.AFTER_BACKOFF, id="one of two"),
        pytest.param(rejected_by("Other"), Requeue.SKIP, id="a plugin that does not listen"),
        pytest.param(rejected_by(pending=("Yes",)), Requeue.AT_ONCE, id="a pending plugin"),
        pytest.param(
            rejected_by("Yes", pending=("No",)), Requeue.AFTER_BACKOFF, id="the pending one says no"
        ),
        pytest.param(rejected_by("Yes", pending=("Yes2",)), Requeue.AT_ONCE, id="both say yes"),
    ],
)
def test_verdicts(queued: QueuedPod, verdict: Requeue) -> None:
    yes = [HintRegistration("Node", Action.ADD)]
    no = [HintRegistration("Node", Action.ADD, never)]
    hints = HintTable({PROFILE: {"Yes": yes, "Yes2": yes, "No": no}}, Metrics(), FakeClock())
    assert hints.verdict(queued, Event("Node", Action.ADD)) is verdict


def test_hints_of_another_profile_are_not_asked() -> None:
    hints = HintTable(
        {"other": {"P": [HintRegistration("Node", Action.ADD)]}}, Metrics(), FakeClock()
    )
    assert hints.verdict(rejected_by("P"), Event("Node", Action.ADD)) is Requeue.SKIP


def test_a_broken_hint_counts_as_a_cure_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    hints = table(HintRegistration("Node", Action.ADD, broken), metrics=metrics)
    with caplog.at_level(logging.ERROR, logger="scheduler"):
        for _ in range(3):
            verdict = hints.verdict(rejected_by("P"), Event("Node", Action.ADD))
            assert verdict is Requeue.AFTER_BACKOFF
    assert [record.getMessage() for record in caplog.records] == ["Queueing hint failed"]
    value = metrics.registry.get_sample_value
    labels = {"plugin": "P", "extension_point": "QueueingHint"}
    assert value("equipoise_plugin_errors_total", labels) == 3
    labels = {"plugin": "P", "event": "NodeAdd", "hint": "Error"}
    assert value("scheduler_queueing_hint_execution_duration_seconds_count", labels) == 3
