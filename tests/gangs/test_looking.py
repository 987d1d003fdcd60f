"""What people see of gangs: simulations, explanations and the queue."""

from __future__ import annotations

import gc
import weakref

from scheduler import inspection, simulation
from scheduler.explaining.queries import QueueQuery
from scheduler.gangs.registry import find_registry
from tests.builders import make_node, make_pod
from tests.gangs.support import gang_stage, make_group, member


def test_a_simulation_places_gangs_whole_or_not_at_all() -> None:
    objects = [
        make_node("n1").cpu("3").obj(),
        make_group("g", 2).obj(),
        make_group("h", 2).obj(),
        make_group("i", 3).obj(),
        *(each.obj() for each in (member("g1"), member("h1", "h"), member("g2"))),
        *(each.obj() for each in (member("h2", "h"), make_pod("p").cpu("1"), member("i1", "i"))),
    ]
    assert simulation.place(objects) == [
        ("default/g1", "n1", ""),
        ("default/g2", "n1", ""),
        *(
            (
                f"default/{name}",
                None,
                "pod group default/h: 1 of 2 members can be placed; "
                "default/h2: 0/1 nodes are available: 1 Insufficient cpu.",
            )
            for name in ("h1", "h2")
        ),
        ("default/p", "n1", ""),
        ("default/i1", None, "pod group default/i: 1 of 3 members exist"),
    ]


def test_without_groups_among_the_objects_the_label_means_nothing() -> None:
    objects = [make_node("n1").cpu("3").obj(), member("a").obj()]
    assert simulation.place(objects) == [("default/a", "n1", "")]


def test_an_explanation_says_how_the_group_stands() -> None:
    objects = [make_node("n1").cpu("3").obj(), make_group("g", 3).obj(), member("a").obj()]
    answer = simulation.explain([*objects, member("b").on("n1").obj()], member("a").obj())
    assert answer["fit"] == ["n1"]
    assert answer["group"] == {
        "name": "default/g",
        "phase": "Pending",
        "minMember": 3,
        "existing": 2,
        "missing": 1,
        "placed": 1,
        "waiting": 0,
        "members": [
            {"pod": "default/a", "state": "waiting", "node": None},
            {"pod": "default/b", "state": "scheduled", "node": "n1"},
        ],
        "fault": "",
    }
    assert "group" not in simulation.explain(objects, make_pod("p").obj())


async def test_the_queue_shows_the_group_of_a_pod() -> None:
    stage = gang_stage()
    stage.see(make_group("g", 3), member("a"), make_pod("p"))
    pods = inspection.queue(stage.core, QueueQuery(10))["pods"]
    assert {pod["pod"]: pod["group"] for pod in pods} == {"default/a": "default/g", "default/p": ""}


async def test_an_explanation_of_a_waiting_pod() -> None:
    stage = gang_stage()
    stage.see(make_node("n1").cpu("1"), member("a"))
    pods = {"default/a": member("a").struct()}
    answer = await inspection.explain(stage.core, pods, "default/a")
    assert answer["group"]["fault"] == "it does not exist"


def test_the_registry_goes_with_its_cluster() -> None:
    stage = gang_stage()
    registry = find_registry(stage.core.state)
    assert registry is not None
    remains = weakref.ref(registry)
    del registry, stage
    gc.collect()
    assert remains() is None
