"""Pods made by a controller are bound and run, on nodes that just suffice for them."""

from collections import Counter

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import deployment, is_running
from e2e.harness.workspace import Workspace


async def test_deployment_of_300_pods_fills_50_nodes(space: Workspace, launch: Launch) -> None:
    nodes = await space.add_nodes(50, cpu="3")
    launch(*NO_ELECTION)
    # Six pods of 500m are all that a node of 3 CPUs can take, so every node must get exactly six.
    await space.api.create(space.deployments, deployment("web", replicas=300, cpu="500m"))

    pods = await space.wait_for_pods(300, is_running)

    assert Counter(pod["spec"]["nodeName"] for pod in pods) == dict.fromkeys(nodes, 6)
