"""What room for other schedulers costs: by what one pod requests, not by how much they bind."""

from __future__ import annotations

from functools import partial

from tests.builders import PodBuilder, make_node, make_pod
from tests.cost.counting import cost
from tests.pipeline.support import Stage

OWN = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "binding": {"headroomSeconds": 3600},
}


def stage(nodes: int, resources: int = 0) -> Stage:
    scene = Stage(config=(OWN,))
    for number in range(nodes):
        node = make_node(f"node-{number}").cpu("64")
        for each in range(resources):
            node.offer(f"example.com/r-{each}", 8)
        scene.see(node)
    return scene


def theirs(name: str, resources: int = 0) -> PodBuilder:
    pod = make_pod(name).scheduler("another").cpu("1")
    for each in range(resources):
        pod.request(f"example.com/r-{each}", 1)
    return pod


def binding(scene: Stage, pod: str, node: str, resources: int = 0) -> int:
    """What it costs to see a pod of others bound."""
    scene.see(theirs(pod, resources))
    return cost(partial(scene.see, theirs(pod, resources).on(node))).operations


def test_their_binding_costs_what_the_pod_requests() -> None:
    few, more, most = (binding(stage(1, n), "pod", "node-0", n) for n in (24, 48, 96))
    assert most - more <= 2.2 * (more - few) + 500


def test_their_next_binding_costs_no_more_the_more_there_were() -> None:
    costs = []
    for number in (2, 64):
        scene = stage(number)
        for each in range(number):
            binding(scene, f"pod-{each}", f"node-{each}")
        costs.append(binding(scene, "another", "node-1"))
    assert costs[1] <= costs[0] + 100


def test_our_binding_costs_no_more_the_more_there_were() -> None:
    costs = []
    for number in (2, 64):
        scene = stage(number)
        for each in range(number):
            binding(scene, f"pod-{each}", f"node-{each}")
        pod = make_pod("ours").cpu("63").info()
        scene.core.state.assume(pod, "node-1")
        assert scene.core.headroom.keeps_from(pod, "node-1")
        check = partial(scene.core.headroom.keeps_from, pod, "node-1")
        costs.append(cost(check).operations)
    assert costs[0] == costs[1]
