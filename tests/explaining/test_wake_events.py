"""Events that wake a pod, in words that users know."""

from __future__ import annotations

import pytest

from scheduler.assembly import OWN_HINTS
from scheduler.explaining.wake_events import in_words, wake_events
from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action
from scheduler.queueing.hints import ANY_KIND, HintRegistration, by_uid, own_change
from tests.pipeline.support import Stage


@pytest.mark.parametrize(
    ("registration", "words"),
    [
        (
            HintRegistration("Pod", Action.DELETE | Action.POD_SCALE_DOWN),
            "a Pod is deleted or scaled down",
        ),
        (
            HintRegistration("Node", Action.ADD | Action.NODE_ALLOCATABLE),
            "a Node is added or its allocatable changes",
        ),
        (
            HintRegistration("Node", Action.ADD | Action.NODE_LABEL | Action.NODE_TAINT),
            "a Node is added or its labels or taints change",
        ),
        (HintRegistration("Node", Action.NODE_TAINT), "a Node's taints change"),
        (HintRegistration("Node", ~Action.DELETE), "a Node is added or it changes"),
        (HintRegistration(ASSIGNED_POD, Action.ADD), "a Pod is placed on a node"),
        (HintRegistration(UNSCHEDULABLE_POD, Action.ADD), "a Pod is added"),
        (
            HintRegistration("Pod", Action.ADD | Action.POD_LABEL),
            "a Pod is placed on a node or its labels change",
        ),
        (HintRegistration("Pod", Action.UPDATE), "a Pod changes"),
        (HintRegistration("Pod", Action.UPDATE, own_change, by_uid), "this Pod changes"),
        (
            HintRegistration("Pod", Action.POD_TOLERATION, own_change, by_uid),
            "this Pod's tolerations change",
        ),
        (
            HintRegistration("Pod", Action.POD_GATES_ELIMINATED, own_change),
            "this Pod's scheduling gates are removed",
        ),
        (
            HintRegistration("PersistentVolumeClaim", Action.ADD | Action.UPDATE),
            "a PersistentVolumeClaim is added or it changes",
        ),
        (HintRegistration(ANY_KIND, ~Action(0)), "anything in the cluster changes"),
    ],
)
def test_a_registration_in_words(registration: HintRegistration, words: str) -> None:
    assert in_words(registration) == words


def test_every_registration_of_the_tree_has_words() -> None:
    stage = Stage()
    (framework,) = stage.core.frameworks.values()
    registered = {**framework.hints(), **OWN_HINTS}
    found = wake_events(registered, registered.__getitem__)
    assert {each.plugin for each in found} == {name for name, hints in registered.items() if hints}
    for each in found:
        assert all(event.strip() for event in each.events), each.plugin
        assert each.message == "; ".join(each.events)


def test_a_plugin_without_registrations_wakes_nothing() -> None:
    assert wake_events(["Suspension"], lambda _: ()) == ()
