"""Pods of ours that a kubelet refused are counted, by its reason and by node, and told."""

from __future__ import annotations

import pytest

from scheduler.explaining.pod_progress import beyond_scheduling
from tests.builders import PodBuilder, make_node, make_pod
from tests.pipeline.support import Stage


def failed(pod: PodBuilder, reason: str) -> PodBuilder:
    return pod.on("n1").status(phase="Failed", reason=reason)


def counted(stage: Stage, reason: str) -> float:
    return stage.metrics.admission_errors.labels(reason, "n1")._value


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("TopologyAffinityError", "TopologyAffinityError"),
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfexample.com/gpu", "OutOfOther"),
    ],
)
def test_a_refusal_is_counted_once(reason: str, label: str) -> None:
    stage = Stage()
    stage.see(make_node("n1"), make_pod("p").on("n1"))
    stage.see(failed(make_pod("p"), reason))
    stage.see(failed(make_pod("p").label(changed="yes"), reason))
    assert counted(stage, label) == 1


def test_pods_of_others_and_other_failures_are_not() -> None:
    stage = Stage()
    other = make_pod("other").scheduler("another")
    stage.see(make_node("n1"), other.on("n1"), make_pod("evicted").on("n1"))
    stage.see(failed(make_pod("other").scheduler("another"), "OutOfcpu"))
    stage.see(failed(make_pod("evicted"), "Evicted"))
    assert counted(stage, "OutOfcpu") == 0


def test_a_refusal_is_told_and_its_room_is_free() -> None:
    stage = Stage()
    stage.see(make_node("n1").cpu("4"), make_pod("p").cpu("4").on("n1"))
    stage.see(failed(make_pod("p").cpu("4"), "OutOfcpu"))
    (decision,) = stage.core.decisions.latest(1)
    assert (decision.result, decision.pod, decision.node) == ("refused", "default/p", "n1")
    assert decision.message == "the kubelet of n1 refused the pod: OutOfcpu"
    uid = make_pod("p").struct().metadata.uid
    assert [each.message for each in stage.core.decisions.history.of(uid)] == [decision.message]
    assert stage.cpu("n1") == 0
    assert stage.core.decisions.scheduled == 0


def test_an_explanation_says_who_refused_the_pod() -> None:
    progress = beyond_scheduling(failed(make_pod("p"), "OutOfcpu").struct())
    assert progress is not None
    assert progress.message == "it has ended: Failed, its kubelet refused it: OutOfcpu"
    evicted = beyond_scheduling(failed(make_pod("p"), "Evicted").struct())
    assert evicted is not None
    assert evicted.message == "it has ended: Failed"
