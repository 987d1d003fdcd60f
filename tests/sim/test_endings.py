"""What replicas may keep at the end: members of a gang that hold nodes for one that is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.store import Body, Store
from scheduler.gangs.registry import GangRegistry
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.plugin_api.waiting import WaitingPod
from tests.builders import Json
from tests.sim.endings import different_members, idle_leaders, lacks_members
from tests.sim.history import Entry, Note
from tests.sim.plan import (
    AddGroup,
    AddPod,
    AnyAction,
    At,
    DeletePod,
    NodePlan,
    Plan,
    PodPlan,
)
from tests.sim.planted import Bug, planted
from tests.sim.rules import GROUPS
from tests.sim.run import Verdict, run

MEMBERS = 3


def short_gang(quiet: float, *later: At) -> Plan:
    """A member is deleted while a webhook is asked about the gang; the others get nodes."""
    members = [AddPod(PodPlan(f"m{n}", cpu=100, group="g")) for n in range(MEMBERS)]
    first: list[AnyAction] = [AddGroup("g", MEMBERS), *members]
    actions = (*(At(6.0, each) for each in first), At(6.004, DeletePod("m2")), *later)
    nodes = (NodePlan("n0"), NodePlan("n1"))
    return Plan(1, 12.0, quiet, ("a",), webhook=True, nodes=nodes, actions=actions)


def waiting(verdict: Verdict) -> set[str]:
    """The pods whose conditions say at the end that they wait for their gang."""
    pods = verdict.simulation.registry.store.table("pods").current
    return {
        name
        for (_, name), pod in pods.items()
        for condition in pod.body["status"].get("conditions", ())
        if "Coscheduling until" in condition.get("message", "")
    }


def test_members_that_hold_nodes_for_one_that_was_deleted() -> None:
    verdict = run(short_gang(30.0))
    assert waiting(verdict) == {"m0", "m1"}
    assert list(map(str, verdict.violations)) == []


def _never(right: Any) -> Callable[..., None]:
    return lambda *args, **options: None


def test_members_that_hold_nodes_for_longer_than_they_may() -> None:
    verdict = run(short_gang(75.0))
    assert (waiting(verdict), verdict.violations) == (set(), [])
    endless = Bug("A wait at permit never ends.", WaitingPod, "_expire", _never)
    with planted(endless):
        assert run(short_gang(75.0)).rules == {"left-behind", "task-left"}


def test_members_that_hold_nodes_although_the_missing_one_has_come() -> None:
    replaced = At(11.0, AddPod(PodPlan("m2", cpu=100, group="g")))
    assert not run(short_gang(30.0, replaced)).rules
    deaf = Bug("Nobody is let through.", GangRegistry, "allow", _never)
    with planted(deaf):
        assert run(short_gang(30.0, replaced)).rules >= {"left-behind", "task-left"}


def test_a_leader_that_does_not_schedule() -> None:
    plan = Plan(1, 20.0, 75.0, ("a", "b"))

    def notes(*told: tuple[float, str, str]) -> list[Entry]:
        return [Note(*each) for each in told]

    became, scheduling = "[info] Became leader lease=l", "[info] Scheduling identity=a_1"
    prompt = notes((30.0, "a", became), (31.0, "a", scheduling))
    disturbed = notes((10.0, "a", became), (60.0, "a", scheduling))
    idle = notes((25.0, "b", became), (30.0, "a", scheduling), (70.0, "b", scheduling))
    assert list(idle_leaders(plan, [*prompt, *disturbed])) == []
    (found,) = idle_leaders(plan, idle)
    assert str(found) == "idle-leader: b: led for 45.0 s before it scheduled (the end, 70.000 s)"


@pytest.mark.parametrize(
    ("other", "short"),
    [
        pytest.param({}, False, id="all are there"),
        pytest.param({"status": {"phase": "Succeeded"}}, False, id="one has succeeded"),
        pytest.param({"status": {"phase": "Failed"}}, True, id="one has failed"),
        pytest.param({"deletionTimestamp": "now"}, True, id="one is being deleted"),
        pytest.param({"labels": {}}, True, id="one is in the gang no more"),
        pytest.param({"namespace": "other"}, True, id="one is in another namespace"),
    ],
)
def test_which_gangs_lack_members(other: Json, short: bool) -> None:
    store, labels = Store(), {POD_GROUP_LABEL: "g"}
    store.table(GROUPS).put(("default", "g"), {"metadata": {}, "spec": {"minMember": 2}})
    for name, changes in (("p", {}), ("q", other)):
        metadata = {"name": name, "namespace": "default", "labels": labels, **changes}
        status = metadata.pop("status", {})
        key = (metadata["namespace"], name)
        store.table("pods").put(key, {"metadata": metadata, "spec": {}, "status": status})
    assert lacks_members(store, "default", labels) is short
    assert not lacks_members(store, "default", {})
    assert not lacks_members(store, "other", labels)


def test_members_that_request_different_amounts_are_known() -> None:
    def pod(gang: str, cpu: str, namespace: str = "default") -> Body:
        metadata = {"namespace": namespace, "labels": {POD_GROUP_LABEL: gang} if gang else {}}
        return {
            "metadata": metadata,
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }

    pods = {
        "large": pod("mixed", "2"),
        "small": pod("mixed", "1"),
        "equal": pod("equal", "1"),
        "alike": pod("equal", "1"),
        "elsewhere": pod("mixed", "3", "other"),
        "alone": pod("", "4"),
    }
    assert different_members(pods) == {"large", "small"}
