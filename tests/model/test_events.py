"""What changed between two versions of an object, in the words that hints listen to."""

from __future__ import annotations

import pytest

from scheduler.model.events import Action, Event, node_update, pod_update
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod, make_worker


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        pytest.param(make_node("n"), make_node("n"), None, id="nothing"),
        pytest.param(make_node("n"), make_node("n").version(2), None, id="only the version"),
        pytest.param(make_node("n"), make_node("n").taint("t"), Action.NODE_TAINT, id="tainted"),
        pytest.param(
            make_node("n").cordoned(), make_node("n"), Action.NODE_TAINT, id="uncordoned is a taint"
        ),
        pytest.param(make_node("n"), make_node("n").cordoned(), None, id="cordoned helps nobody"),
        pytest.param(
            make_node("n"), make_node("n").cpu("1"), Action.NODE_ALLOCATABLE, id="allocatable"
        ),
        pytest.param(
            make_node("n"),
            make_worker("n").label(a="b"),
            Action.NODE_ALLOCATABLE | Action.NODE_LABEL,
            id="two at once",
        ),
    ],
)
def test_node_updates(old: NodeBuilder, new: NodeBuilder, action: Action | None) -> None:
    assert node_update(old.struct(), new.struct()) == action


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        pytest.param(make_pod("p"), make_pod("p").phase("Running"), Action.UPDATE, id="other"),
        pytest.param(make_pod("p"), make_pod("p").label(a="b"), Action.POD_LABEL, id="label"),
        pytest.param(
            make_pod("p").gate("g"), make_pod("p"), Action.POD_GATES_ELIMINATED, id="the last gate"
        ),
        pytest.param(
            make_pod("p").gate("g").gate("h"), make_pod("p").gate("g"), Action.UPDATE, id="one gate"
        ),
        pytest.param(
            make_pod("p"), make_pod("p").toleration("t"), Action.POD_TOLERATION, id="toleration"
        ),
        pytest.param(
            make_pod("p").cpu("2"), make_pod("p").cpu("1"), Action.POD_SCALE_DOWN, id="smaller"
        ),
        pytest.param(make_pod("p").cpu("1"), make_pod("p").cpu("2"), Action.UPDATE, id="larger"),
    ],
)
def test_pod_updates(old: PodBuilder, new: PodBuilder, action: Action) -> None:
    assert pod_update(old.info(), new.info()) == action


def test_events_are_called_what_kube_scheduler_calls_them() -> None:
    assert Event("Node", Action.ADD).label == "NodeAdd"
    assert Event("AssignedPod", Action.DELETE).label == "AssignedPodDelete"
    assert Event("Node", Action.NODE_TAINT).label == "NodeUpdateNodeTaint"
    assert Event("Node", Action.NODE_TAINT | Action.NODE_LABEL).label == "NodeUpdate"
