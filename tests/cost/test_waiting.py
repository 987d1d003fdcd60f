"""However many pods with long lists wait, an event takes no long step to be compared with them.

Each pod is at a limit and unlike the others, so that neither classes nor groups help.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from scheduler.model.limits import DEFAULT_LIMITS
from scheduler.model.packed import PackedLabels, pack_labels
from scheduler.queueing.scheduling_queue import ASKED_IN_PASSING
from tests.builders import NodeBuilder, constraint, make_pod, make_worker, pod_term
from tests.cost.counting import cost
from tests.cost.test_combinations import Written
from tests.pipeline.evicting import Arena
from tests.plugins.storage import a_claim, a_class, a_driver, a_pod, a_room

BUDGET = 600_000
"""Operations of one step, about 8 ms."""
Event = Callable[[], object]


def tolerations(scene: Arena) -> Event:
    """Pods with many tolerations; a node gets another taint."""
    for number in range(48):
        keys = [f"{number}-{i}" for i in range(DEFAULT_LIMITS.tolerations)]
        each = [{"key": key, "operator": "Exists"} for key in keys]
        scene.see(make_pod(f"p-{number}").spec(tolerations=each))
    scene.see(make_worker("n-0").taint("full"), make_worker("n-1").taint("full"))
    return lambda: scene.see(make_worker("n-0").taint("another"))


def capacities(scene: Arena) -> Event:
    """Pods with many claims; a driver reports more capacity for another class."""
    scene.see(Written({**a_class("late"), "provisioner": "csi"}), Written(a_driver("csi")))
    for number in range(96):
        claims = [f"c-{number}-{i}" for i in range(DEFAULT_LIMITS.volume_claims)]
        scene.see(*(Written(a_claim(name)) for name in claims))
        scene.see(a_pod(f"p-{number}").claim(*claims))
    return lambda: scene.see(Written(a_room("r", "another", "1Ti")))


def resources(scene: Arena) -> Event:
    """Pods that request many resources that no node offers; a node has more of another one."""
    for number in range(96):
        names = [f"example.com/{number}-{i}" for i in range(DEFAULT_LIMITS.resource_entries)]
        scene.see(make_pod(f"p-{number}").container(dict.fromkeys(names, "1")))
    return lambda: scene.see(make_worker("n-0").cpu(100))


@pytest.mark.parametrize("play", [tolerations, capacities, resources])
async def test_no_step_exceeds_its_budget_when_an_event_meets_many_long_pods(
    play: Callable[[Arena], Event],
) -> None:
    scene = Arena()
    scene.see(make_worker("n-0"), make_worker("n-1"))
    event = play(scene)
    while scene.core.queue.active:
        scene.attempt()
    assert set(scene.tiers().values()) == {"unschedulable"}
    taken = cost(event)
    assert taken.longest <= BUDGET
    later = cost(partial(scene.core.queue._waiters.ask, ASKED_IN_PASSING))
    assert later.longest <= BUDGET, "hints that are called later"


class Packed(Written):
    """A node whose labels are as they are when it comes from the API server."""

    def __init__(self, node: NodeBuilder) -> None:
        super().__init__(node.obj())
        pack_labels(self.struct().metadata)


async def test_labels_of_a_node_are_not_decoded_for_each_pod_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kubelets may write 40,000 labels, which take 10 ms to decode."""
    decoded: list[object] = []
    unpacked = PackedLabels.unpacked

    def counted(self: PackedLabels) -> dict[str, str]:
        decoded.append(self)
        return unpacked(self)

    monkeypatch.setattr(PackedLabels, "unpacked", counted)
    many, numbers = {f"label-{i}": "value" for i in range(100)}, []
    for waiting in (8, 16):
        scene = Arena()
        scene.see(Packed(make_worker("n-0").label(**many)))
        for i in range(waiting):
            scene.see(make_pod(f"p-{i}").label(i=str(i)).spread(constraint(f"zone-{i}")))
            scene.see(make_pod(f"q-{i}").near(pod_term(f"zone-{i}", {"app": "x"})))
            scene.see(make_pod(f"r-{i}").node_selector(zone=str(i)))
            scene.see(make_pod(f"s-{i}").cpu(100 + i).label(i=str(i)))
        while scene.core.queue.active:
            scene.attempt()
        assert set(scene.tiers().values()) == {"unschedulable"}
        decoded.clear()
        scene.see(Packed(make_worker("n-0").label(**many, another="label").taint("new")))
        numbers.append(len(decoded))
    assert numbers[0] == numbers[1]
