"""Every right that the chart grants is used, and nothing is ever denied."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count

import pytest

from e2e.harness.audit import Right, granted_by, right_of
from e2e.harness.client import POLL_SECONDS
from e2e.harness.devices import (
    annotating,
    by_template,
    claim_template,
    device_class,
    gpu,
    left_behind,
    request,
    resource_slice,
)
from e2e.harness.election import holder
from e2e.harness.groups import group, member
from e2e.harness.objects import (
    HOSTNAME,
    condition,
    is_bound,
    is_rejected,
    is_running,
    pod,
    priority_class,
)
from e2e.harness.patience import PATIENCE
from e2e.harness.storage import claim, storage_class, uses, volume
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed, installation
from e2e.installed.release import LEASE, wait_until_leading
from e2e.installed.test_beside_kube_scheduler import create_and_bind
from shipping.helm import NAMESPACE, RELEASE

ROLES = (
    f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{RELEASE}",
    f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/{RELEASE}-leader-election",
)
FEATURES = (
    "plugins.enabled[0].name=NodeResourceTopologyMatch",
    "crds.nodeResourceTopology.create=true",
    "plugins.enabled[1].name=Coscheduling",
    "crds.podGroup.create=true",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A release with all that needs rights, on a cluster of its own.

    An upgrade that turned the features off again would take rights from replicas that still run.
    """
    with installation(tmp_path_factory.mktemp("features"), *FEATURES) as ours:
        yield ours


def used(installed: Installed) -> set[Right]:
    """What our account has asked for until now, by name and for any name."""
    rights = {right for each in installed.audit.of(RELEASE) if (right := right_of(each))}
    # The API server asks for this one on its own, when a status has another allocation: no request.
    rights |= {
        right._replace(resource="resourceclaims/binding")
        for right in rights
        if right.resource == "resourceclaims/status"
    }
    return rights | {right._replace(name="") for right in rights}


async def unused(installed: Installed, granted: set[Right]) -> set[Right]:
    """What of it our account has not asked for; some is asked for now and then only."""
    deadline = time.monotonic() + PATIENCE
    while (left := granted - used(installed)) and time.monotonic() < deadline:  # noqa: ASYNC110  a log has no event
        await asyncio.sleep(POLL_SECONDS)
    return left


async def test_every_right_is_used_and_nothing_is_denied(
    installed: Installed, space: Workspace
) -> None:
    await wait_until_leading(space.api, installed.kubelet)

    await preempt(space)
    await run_a_gang(space)
    await bind_volumes(space)
    await allocate_devices(installed, space)
    await tell_twice(space)
    await lose_the_lease(space)
    await be_too_late(installed, space)
    token = await installed.token(space.api, space)
    for replica in installed.kubelet.ready():
        assert (await installed.ask(replica, "/configz", token))[0] == 403

    granted: set[Right] = set()
    for path in ROLES:
        granted |= granted_by(await space.api.get(path))
    assert await unused(installed, granted) == set(), "granted and never used"
    assert installed.audit.denied(RELEASE) == []


async def run_a_gang(space: Workspace) -> None:
    """Two pods run together, and their group says so."""
    await space.add_nodes(1)
    await space.apply(group("pair", 2))
    await space.create_pods([member("first", "pair"), member("second", "pair")])
    await space.api.wait_until(
        f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{space.name}/podgroups/pair",
        lambda seen: seen.get("status", {}).get("phase") == "Running",
    )


async def allocate_devices(installed: Installed, space: Workspace) -> None:
    """Pods get devices by claims that others change meanwhile, and by an extended resource.

    The scheduler makes the claim for the latter itself, and deletes one that an attempt has left.
    """
    (node,) = await space.add_nodes(1)
    cls, resource = f"{space.name}-class", f"{space.name}.example.com/gpu"
    devices = [gpu(f"gpu-{number}") for number in range(100)]
    await space.apply(device_class(cls, extendedResourceName=resource))
    await space.apply(claim_template("one", request(cls)), resource_slice(node, devices))
    read = Right("get", "resource.k8s.io", "resourceclaims")
    async with annotating(space.api, space.name):
        for number in range(80):
            name = f"claiming-{number}"
            await space.create_pods([pod(name, cpu="10m", **by_template("one"))])
            await space.wait_for_pod(name)
            if read in used(installed):
                break
    wanting = pod("extended", schedulingGates=[{"name": "example.com/later"}])
    resources = wanting["spec"]["containers"][0]["resources"]
    resources["requests"][resource] = "1"
    resources["limits"] = {resource: "1"}
    await space.create_pods([wanting])
    await space.apply(left_behind(await space.get("Pod", "extended"), cls))
    await space.api.patch(f"{space.pods}/extended", {"spec": {"schedulingGates": None}})
    await space.wait_for_pod("extended", is_running)


async def preempt(space: Workspace) -> None:
    """One pod takes the place of another."""
    (node,) = await space.add_nodes(1, cpu="1")
    urgent = f"{space.name}-urgent"
    await space.apply(priority_class(urgent, 1000))
    here = {HOSTNAME: node}
    await space.create_pods([pod("victim", cpu="1", nodeSelector=here)])
    await space.wait_for_pod("victim", is_running)
    await space.create_pods([pod("urgent", cpu="1", nodeSelector=here, priorityClassName=urgent)])
    await space.wait_for_pod("urgent", is_running)


async def bind_volumes(space: Workspace) -> None:
    """A volume that exists is given to a claim; for another one a node is chosen."""
    (node,) = await space.add_nodes(1)
    local, disks = f"{space.name}-local", f"{space.name}-disks"
    await space.apply(
        *(storage_class(local), volume(f"{local}-1", node, local), claim("exists", local)),
        *(storage_class(disks, provisioner="example.com/disks"), claim("made", disks)),
    )
    await space.create_pods([pod("with-volume", **uses("exists")), pod("without", **uses("made"))])
    await space.wait_for_pod("with-volume", is_running)
    await space.api.wait_until(
        f"/api/v1/namespaces/{space.name}/persistentvolumeclaims/made",
        lambda claim: "annotations" in claim["metadata"],
    )


async def tell_twice(space: Workspace) -> None:
    """An event that is repeated, after another one in between, is one event with a series."""
    await space.create_pods([pod("giant", cpu="1000")])
    await space.wait_for_pod("giant", is_rejected)
    nodes = len(await space.api.items("/api/v1/nodes"))
    (extra,) = await space.add_nodes(1)
    await try_until_told(space, "giant", f"0/{nodes + 1} ")
    await space.api.delete(f"/api/v1/nodes/{extra}")
    await try_until_told(space, "giant", f"0/{nodes} ")
    await space.api.wait_until(
        space.events,
        lambda events: any(event.get("series") for event in events["items"]),
        fieldSelector="reason=FailedScheduling",
    )


async def try_until_told(space: Workspace, name: str, words: str) -> None:
    """Have the scheduler attempt a pod again until its event has these words."""
    path = f"{space.pods}/{name}"
    for number in count():
        seen = await space.api.get(path)
        if words in condition(seen, "PodScheduled")["message"]:
            return
        # A pod that is rejected for taints is tried again when it tolerates more.
        more = {"key": f"try-{words.strip('0/ ')}-{number}", "operator": "Exists"}
        tolerations = [*seen["spec"]["tolerations"], more]
        await space.api.patch(path, {"spec": {"tolerations": tolerations}})
        assert number < 50, f"the scheduler never told: {words}"
        await asyncio.sleep(POLL_SECONDS)


async def lose_the_lease(space: Workspace) -> None:
    """A lease that is deleted is created again."""
    lost = (await space.api.get(LEASE))["metadata"]["uid"]
    await space.api.delete(LEASE)
    await space.api.wait_until(
        LEASE, lambda lease: lease["metadata"]["uid"] != lost and holder(lease)
    )


async def be_too_late(installed: Installed, space: Workspace) -> None:
    """Another client binds a pod just before the scheduler does."""
    (node,) = await space.add_nodes(1, cpu="64")
    for round_ in count(1):
        names = [f"contested-{round_}-{number}" for number in range(20)]
        await asyncio.gather(*(create_and_bind(space.api, space, name, node) for name in names))
        for name in names:
            await space.wait_for_pod(name, is_bound)
        if Right("get", "", "pods") in used(installed):
            return
        assert round_ < 20, "nobody ever was quicker than we"
