"""Each values example of the chart, installed by helm: what its first line promises happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.controlplane.binaries import definitions
from e2e.harness.audit import AuditLog
from e2e.harness.client import ApiClient, api_client
from e2e.harness.devices import (
    board,
    by_template,
    claim_template,
    claims_in,
    device_class,
    request,
    results_of,
)
from e2e.harness.groups import group, member
from e2e.harness.manifests import read_manifest
from e2e.harness.objects import (
    SCHEDULER_NAME,
    Json,
    condition,
    is_bound,
    is_rejected,
    is_running,
    node_of,
    pod,
    priority_class,
)
from e2e.harness.workspace import Workspace, workspace
from e2e.installed.conftest import Installed, add_control_nodes, cluster
from e2e.installed.release import Release, wait_until_leading
from e2e.installed.test_validation import kubectl
from e2e.test_beside_another_scheduler import bind_by_another
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import uniform
from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from shipping.helm import CHART, NAMESPACE, PROJECT, RELEASE

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
GIB = 1 << 30


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A cluster without a release: each example is installed anew, with its own rights."""
    directory = tmp_path_factory.mktemp("examples")
    audit = AuditLog(directory, NAMESPACE)
    with cluster(directory, audit.flags()) as (plane, kubelet):
        asyncio.run(add_control_nodes(plane))
        yield Installed(plane, audit, Release(plane), kubelet)


@pytest.fixture
async def api(installed: Installed) -> AsyncIterator[ApiClient]:
    """A client of the API server with all rights."""
    async with api_client(installed.plane.url, installed.plane.admin_context) as client:
        yield client


@asynccontextmanager
async def release(installed: Installed, api: ApiClient, values: Path) -> AsyncIterator[None]:
    """The release with these values, leading; during the block it is denied nothing."""
    before = len(installed.audit.denied(RELEASE))
    await asyncio.to_thread(installed.release.install, values=values)
    await wait_until_leading(api, installed.kubelet)
    try:
        yield
        print(installed.kubelet.tails())
        assert installed.audit.denied(RELEASE)[before:] == []
    finally:
        arguments = ("uninstall", RELEASE, "--namespace", NAMESPACE)
        await asyncio.to_thread(installed.release.helm, *arguments)
        await api.wait_until(
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            lambda pods: not pods["items"] and installed.kubelet.is_idle(),
        )


async def one_by_one(
    space: Workspace, names: list[str], scheduler: str = SCHEDULER_NAME
) -> list[str]:
    """Create pods one after the other, and return their nodes."""
    nodes = []
    for name in names:
        await space.create_pods([pod(name, cpu="500m", schedulerName=scheduler)])
        nodes.append(node_of(await space.wait_for_pod(name)))
    return nodes


async def bin_packing(installed: Installed, space: Workspace) -> None:
    await space.add_nodes(3)
    assert len(set(await one_by_one(space, ["a", "b", "c", "d"]))) == 1


async def several_profiles(installed: Installed, space: Workspace) -> None:
    await space.add_nodes(2)
    assert len(set(await one_by_one(space, ["a", "b"]))) == 2
    packed = await one_by_one(space, ["c", "d", "e"], scheduler="equipoise-packed")
    assert len(set(packed)) == 1


async def two_schedulers(installed: Installed, space: Workspace) -> None:
    (node,) = await space.add_nodes(1, cpu="4")
    await one_by_one(space, ["first"])  # so all is seen that happens from now on
    await bind_by_another(space, "theirs", "2", node)
    await space.create_pods([pod("ours", cpu="1500m")])
    ours, theirs = [
        condition(await space.wait_for_pod(name), "PodScheduled")["lastTransitionTime"]
        for name in ("ours", "theirs")
    ]
    # The API server's own times, in whole seconds.
    waited = datetime.fromisoformat(ours) - datetime.fromisoformat(theirs)
    assert waited >= timedelta(seconds=4)


async def plugin_off(installed: Installed, space: Workspace) -> None:
    await space.add_nodes(1, cpu="1")
    urgent = f"{space.name}-urgent"
    await space.apply(priority_class(urgent, 1000))
    await space.create_pods([pod("first", cpu="1")])
    await space.wait_for_pod("first", is_running)
    await space.create_pods([pod("urgent", cpu="1", priorityClassName=urgent)])
    await space.wait_for_pod("urgent", is_rejected)
    assert "deletionTimestamp" not in (await space.get("Pod", "first"))["metadata"]
    # Room is what it waits for.
    await space.api.delete(f"{space.pods}/first", gracePeriodSeconds="0")
    await space.wait_for_pod("urgent", is_running)


async def numa(installed: Installed, space: Workspace) -> None:
    machine = uniform(2, 8, 16 * GIB, reserved_memory=GIB)
    with_cells, _without = await space.add_nodes(2, cpu=str(machine.allocatable["cpu"]))
    published = topology(NumaKubelet(with_cells, machine), PublisherSettings())
    await space.api.apply(f"{TOPOLOGIES}/{with_cells}", published)
    await space.create_pods([pinned("small", 6), pinned("large", 10)])
    assert node_of(await space.wait_for_pod("small")) == with_cells
    await space.wait_for_pod("large", is_rejected)


def pinned(name: str, cpus: int) -> Json:
    """A Guaranteed pod with CPUs of its own."""
    manifest = pod(name, cpu=str(cpus), memory="1Gi")
    resources = manifest["spec"]["containers"][0]["resources"]
    resources["limits"] = dict(resources["requests"])
    return manifest


async def gangs(installed: Installed, space: Workspace) -> None:
    await space.add_nodes(1, cpu="2")
    await space.apply(group("trio", 3))
    await space.create_pods([member(f"trio-{number}", "trio") for number in range(3)])
    await space.wait_for_pods(3, is_rejected)
    await space.add_nodes(1, cpu="1")
    await space.wait_for_pods(3, is_running)


async def batches(installed: Installed, space: Workspace) -> None:
    fast = await space.add_nodes(2, cpu="8", pool="fast")
    await space.add_nodes(2, cpu="8")
    with installed.kubelet.suspended():
        await space.apply(*await read_manifest(PROJECT / "deploy" / "examples" / "batch.yaml"))
        await space.wait_for_pods(60, lambda _: True)
    # Pods that could go anywhere have left the fast nodes to those that could not.
    pods = await space.wait_for_pods(60, is_bound)
    bound = [each for each in pods if each["metadata"]["labels"]["app"] == "bound"]
    assert {node_of(each) for each in bound} <= set(fast)
    assert len(bound) == 30


async def plugin_file(installed: Installed, space: Workspace) -> None:
    (theirs,) = await space.add_nodes(1, team="blue")
    await space.create_pods([pod("red", labels={"team": "red"}), pod("nobody")])
    red = await space.wait_for_pod("red", is_rejected)
    assert "belonged to another team" in str(red["status"]["conditions"])
    await space.wait_for_pod("nobody", is_rejected)
    await space.create_pods([pod("blue", labels={"team": "blue"})])
    assert node_of(await space.wait_for_pod("blue")) == theirs
    (free,) = await space.add_nodes(1)
    assert {node_of(await space.wait_for_pod(name)) for name in ("red", "nobody")} == {free}


async def scraping(installed: Installed, space: Workspace) -> None:
    monitoring = "/api/v1/namespaces/monitoring"
    await space.api.create("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    account = {"metadata": {"name": "prometheus"}}
    await space.api.create(f"{monitoring}/serviceaccounts", account)
    answer = await space.api.create(f"{monitoring}/serviceaccounts/prometheus/token", {})
    nobody = await installed.token(space.api, space)
    for replica in installed.kubelet.ready():
        status, text = await installed.ask(replica, "/metrics", answer["status"]["token"])
        assert status == 200
        assert "scheduler_pending_pods" in text
        assert (await installed.ask(replica, "/metrics", nobody))[0] == 403
    kinds = "/apis/monitoring.coreos.com/v1/namespaces/" + NAMESPACE
    rules = await space.api.get(f"{kinds}/prometheusrules/{RELEASE}")
    down = rules["spec"]["groups"][0]["rules"][0]["annotations"]
    assert down["runbook_url"].endswith("/docs/runbooks/EquipoiseDown.md")
    monitor = await space.api.get(f"{kinds}/servicemonitors/{RELEASE}")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


Promise = Callable[[Installed, Workspace], Awaitable[None]]


async def devices(installed: Installed, space: Workspace) -> None:
    """Of a whole board and a begun one, a quarter is taken of the begun one."""
    (node,) = await space.add_nodes(1)
    cls = f"{space.name}-class"
    profile = 'device.attributes["gpu.example.com"].profile == '
    templates = [
        claim_template(name, request(cls, expression=f'{profile}"{name}"'))
        for name in ("whole", "half", "quarter")
    ]
    await space.apply(*board(node, 2), device_class(cls), *templates)
    # The whole board is the first, so the quarter begins the second.
    for name in ("whole", "quarter"):
        await space.create_pods([pod(name, **by_template(name))])
        await space.wait_for_pod(name, is_running)
    await space.api.delete(f"{space.pods}/whole", gracePeriodSeconds="0")
    await space.api.wait_until(
        claims_in(space.name), lambda claims: len(claims["items"]) == 1, resourceVersion="0"
    )
    await space.create_pods([pod("second", **by_template("quarter"))])
    await space.wait_for_pod("second", is_running)
    claims = await space.api.items(claims_in(space.name))
    boards = {result["device"][: len("board-0")] for each in claims for result in results_of(each)}
    # The first fit would have begun the first board.
    assert boards == {"board-1"}


PROMISES: dict[str, Promise] = {
    "devices": devices,
    "bin-packing": bin_packing,
    "several-profiles": several_profiles,
    "two-schedulers": two_schedulers,
    "plugin-off": plugin_off,
    "numa": numa,
    "gangs": gangs,
    "batches": batches,
    "plugin-file": plugin_file,
    "scraping": scraping,
}


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda values: values.stem)
async def test_example(installed: Installed, api: ApiClient, values: Path) -> None:
    if values.stem == "scraping":
        files = [f"--filename={file}" for file in sorted(definitions().glob("*.yaml"))]
        await asyncio.to_thread(kubectl, installed, "apply", "--server-side", *files)
    async with workspace(api, f"example-{values.stem}") as space, release(installed, api, values):
        await PROMISES[values.stem](installed, space)
