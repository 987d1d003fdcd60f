"""Pods of ours that a kubelet refused are counted, by its reason and by node."""

from __future__ import annotations

import pytest

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
