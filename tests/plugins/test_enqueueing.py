"""PrioritySort and SchedulingGates."""

from __future__ import annotations

from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.enqueueing import PrioritySort, SchedulingGates
from scheduler.queueing.queued_pod import QueuedPod
from tests.builders import make_pod
from tests.plugins.support import Bench


def test_higher_priority_goes_first_and_equals_in_order_of_arrival() -> None:
    framework = Bench(PrioritySort, []).framework
    queued = [
        QueuedPod(make_pod("late").info(), timestamp=3.0),
        QueuedPod(make_pod("low").priority(-5).info(), timestamp=1.0),
        QueuedPod(make_pod("early").info(), timestamp=2.0),
        QueuedPod(make_pod("high").priority(1000).info(), timestamp=4.0),
    ]
    queued.sort(key=framework.sort_key)
    assert [each.key.split("/")[1] for each in queued] == ["high", "early", "late", "low"]


def test_gates_hold_a_pod_and_are_named() -> None:
    framework = Bench(SchedulingGates, []).framework
    assert framework.run_pre_enqueue(make_pod("p").info()) == SUCCESS
    gated = make_pod("p").gate("example.com/quota").gate("example.com/review").info()
    text = "waiting for scheduling gates: [example.com/quota example.com/review]"
    assert framework.run_pre_enqueue(gated) == unresolvable(text).by("SchedulingGates")
