"""NodeDeclaredFeatures against the fields that need a feature, read one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.events import UNSCHEDULABLE_POD, Action, Event
from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

RESTART_ALL = "RestartAllContainersOnContainerExits"
HOST_USERS = "UserNamespacesHostNetworkSupport"
MISSING = unresolvable("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def declaring(name: str, *features: str) -> NodeBuilder:
    return make_node(name).status(declaredFeatures=sorted(features))


def pod_with(fields: Json, rules: list[Json], *, init: bool = False) -> PodBuilder:
    pod = make_pod("p").init_container({}).spec(**fields)
    container = pod.obj()["spec"]["initContainers" if init else "containers"][0]
    changed = [container | {"restartPolicyRules": rules}]
    return pod.spec(**{"initContainers" if init else "containers": changed})


@given(
    features=st.lists(
        st.sets(st.sampled_from((RESTART_ALL, HOST_USERS, "InPlacePodVerticalScaling"))),
        min_size=1,
        max_size=4,
    ),
    host_network=st.sampled_from((None, False, True)),
    host_users=st.sampled_from((None, False, True)),
    rules=st.lists(st.sampled_from((RULE, {"action": "Restart"})), max_size=2),
    init=st.booleans(),
)
def test_every_node(
    features: list[set[str]],
    host_network: bool | None,
    host_users: bool | None,
    rules: list[Json],
    init: bool,
) -> None:
    bench = Bench(NodeDeclaredFeatures, (declaring(f"n{i}", *f) for i, f in enumerate(features)))
    fields = {"hostNetwork": host_network, "hostUsers": host_users}
    needed = set()
    if RULE in rules:
        needed.add(RESTART_ALL)
    if host_network and host_users is False:
        needed.add(HOST_USERS)

    assert bench.verdicts(pod_with(fields, rules, init=init)) == {
        f"n{i}": SUCCESS if needed <= declared else MISSING for i, declared in enumerate(features)
    }


def test_answers_follow_features_that_are_declared_later() -> None:
    bench = Bench(NodeDeclaredFeatures, [declaring("n")])
    pod = pod_with({}, [RULE])
    assert bench.verdicts(pod) == {"n": MISSING}
    bench.state.set_node(declaring("n", RESTART_ALL).struct())
    assert bench.verdicts(pod) == {"n": SUCCESS}


def node_event(action: Action, new: NodeBuilder, old: NodeBuilder | None = None) -> Event:
    return Event("Node", action, old.struct() if old else None, new.struct())


CHANGED = Action.NODE_DECLARED_FEATURE
WANTS = pod_with({}, [RULE])
EVENTS = {
    "a node that declares it": (node_event(Action.ADD, declaring("n", RESTART_ALL)), True),
    "a node that does not": (node_event(Action.ADD, declaring("n")), False),
    "a node that learns it": (
        node_event(CHANGED, declaring("n", RESTART_ALL), declaring("n")),
        True,
    ),
    "a node that knew it all along": (
        node_event(CHANGED, declaring("n", RESTART_ALL, "x"), declaring("n", RESTART_ALL)),
        False,
    ),
    "the pod needs it no more": (
        Event(UNSCHEDULABLE_POD, Action.UPDATE, WANTS.info(), make_pod("p").info()),
        True,
    ),
    "the pod still needs it": (
        Event(UNSCHEDULABLE_POD, Action.UPDATE, WANTS.info(), WANTS.info()),
        False,
    ),
    "another pod changes": (
        Event(UNSCHEDULABLE_POD, Action.UPDATE, WANTS.info(), make_pod("q").info()),
        False,
    ),
}


@pytest.mark.parametrize(("event", "cures"), EVENTS.values(), ids=EVENTS.keys())
def test_what_may_cure_a_rejection(event: Event, cures: bool) -> None:
    assert Bench(NodeDeclaredFeatures, []).wakes(WANTS, event) is cures
