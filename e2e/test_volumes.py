"""Pods and their claims: the scheduler chooses, the PV controller binds, the pod runs there."""

from collections import Counter

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import (
    Json,
    condition,
    controller,
    is_bound,
    is_rejected,
    is_running,
    node_of,
    pod,
    template,
)
from e2e.harness.storage import claim, storage_class, uses, volume
from e2e.harness.workspace import Workspace

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def selected_node(claim: Json) -> str:
    """The node for which a volume is to be made, empty if there is none."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


async def test_stateful_set_runs_where_its_volumes_are(space: Workspace, launch: Launch) -> None:
    with_two, with_one, *_ = await space.add_nodes(4)
    local = f"{space.name}-local"
    await space.apply(
        storage_class(local),
        volume(f"{local}-1", with_two, local),
        volume(f"{local}-2", with_two, local),
        volume(f"{local}-3", with_one, local),
        volume(f"{local}-small", with_one, local, size="5Gi"),
    )
    launch(*NO_ELECTION)

    await space.apply(
        controller(
            "StatefulSet",
            "db",
            template("db"),
            replicas=3,
            serviceName="db",
            podManagementPolicy="Parallel",
            volumeClaimTemplates=[claim("data", local)],
        )
    )

    pods = await space.wait_for_pods(3, is_running)
    assert Counter(map(node_of, pods)) == {with_two: 2, with_one: 1}
    node_of_volume = {f"{local}-1": with_two, f"{local}-2": with_two, f"{local}-3": with_one}
    for each in pods:
        bound = await space.get("PersistentVolumeClaim", f"data-{each['metadata']['name']}")
        assert bound["status"]["phase"] == "Bound"
        assert node_of_volume.pop(bound["spec"]["volumeName"]) == node_of(each)

    before = next(each for each in pods if each["metadata"]["name"] == "db-0")
    await space.api.delete(f"{space.pods}/db-0")
    after = await space.wait_for_pod(
        "db-0", lambda pod: pod["metadata"]["uid"] != before["metadata"]["uid"] and is_running(pod)
    )
    assert node_of(after) == node_of(before)


async def test_pod_waits_for_a_volume_and_is_bound_when_one_appears(
    space: Workspace, launch: Launch
) -> None:
    first, second = await space.add_nodes(2)
    local = f"{space.name}-local"
    await space.apply(
        storage_class(local), volume(f"{local}-small", first, local, size="1Gi"), claim("c", local)
    )
    launch(*NO_ELECTION)
    await space.create_pods([pod("waiting", **uses("c"))])

    told = condition(await space.wait_for_pod("waiting", is_rejected), "PodScheduled")
    assert told["message"] == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        " no new claims to deallocate, preemption: 0/2 nodes are available:"
        " 2 Preemption is not helpful for scheduling."
    )

    await space.apply(volume(f"{local}-large", second, local))
    bound = await space.wait_for_pod("waiting", is_running)
    assert node_of(bound) == second
    assert (await space.get("PersistentVolumeClaim", "c"))["spec"]["volumeName"] == f"{local}-large"


async def test_volume_is_made_for_the_selected_node(space: Workspace, launch: Launch) -> None:
    await space.add_nodes(3)
    disks = f"{space.name}-disks"
    await space.apply(storage_class(disks, provisioner="example.com/disks"), claim("c", disks))
    launch(*NO_ELECTION)
    await space.create_pods([pod("consumer", **uses("c"))])
    path = f"/api/v1/namespaces/{space.name}/persistentvolumeclaims/c"

    # A provisioner that cannot make a volume for a node takes the node out of the claim.
    await space.api.wait_until(path, selected_node)
    await space.api.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})

    wanted = await space.api.wait_until(path, selected_node)
    assert not is_bound(await space.api.get(f"{space.pods}/consumer"))
    made = volume(f"{disks}-1", selected_node(wanted), disks)
    reference = {"kind": "PersistentVolumeClaim", "namespace": space.name, "name": "c"}
    made["spec"]["claimRef"] = reference | {"uid": wanted["metadata"]["uid"]}
    await space.apply(made)

    bound = await space.wait_for_pod("consumer", is_running)
    assert node_of(bound) == selected_node(wanted)
    assert (await space.api.get(path))["spec"]["volumeName"] == f"{disks}-1"
