"""NUMA cells on a real API server: emulated kubelets judge, their agents publish what is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.definitions import define
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, is_bound, is_rejected, node_of, pod
from e2e.harness.workspace import Workspace
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import uniform
from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod

DEFINITION = Path(__file__).parents[1] / "deploy" / "crds" / "noderesourcetopologies.yaml"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
PUBLISH_SECONDS = 1.0
GIB = 1 << 30


@pytest.fixture
async def defined(api: ApiClient) -> AsyncIterator[None]:
    """The API server serves NodeResourceTopology objects; there are none before and after."""
    await define(api, DEFINITION)
    await api.delete(TOPOLOGIES)
    yield
    await api.delete(TOPOLOGIES)


class Agents:
    """Kubelets that judge the pods bound to their nodes, and what they publish."""

    def __init__(self, api: ApiClient, space: Workspace, kubelets: list[NumaKubelet]) -> None:
        self._api = api
        self._space = space
        self._kubelets = {kubelet.name: kubelet for kubelet in kubelets}
        self.refused: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish once, then go on judging and publishing."""
        await self._publish()
        tasks = [asyncio.create_task(self._judge()), asyncio.create_task(self._go_on())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _judge(self) -> None:
        async with self._api.watch(self._space.pods) as events:
            async for event in events:
                kubelet = self._kubelets.get(event["object"]["spec"].get("nodeName", ""))
                if kubelet is None:
                    continue
                seen = from_dict(event["object"], Pod)
                if event["type"] == "DELETED":
                    kubelet.forget(seen.metadata.uid)
                elif kubelet.admit(seen) is not None:
                    self.refused.append(seen.key)

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(PUBLISH_SECONDS)
            await self._publish()

    async def _publish(self) -> None:
        for name, kubelet in self._kubelets.items():
            body = topology(kubelet, PublisherSettings())
            await self._api.apply(f"{TOPOLOGIES}/{name}", body)


def pinned(name: str, cpus: int) -> Json:
    """A Guaranteed pod with CPUs of its own."""
    manifest = pod(name, cpu=str(cpus), memory="1Gi")
    resources = manifest["spec"]["containers"][0]["resources"]
    resources["limits"] = dict(resources["requests"])
    return manifest


def configuration(directory: Path, **args: object) -> str:
    """A configuration file with the plugin, as an argument of the program."""
    plugin = "NodeResourceTopologyMatch"
    profile = {
        "schedulerName": "equipoise",
        "plugins": {"multiPoint": {"enabled": [{"name": plugin, "weight": 5}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    file = directory / "numa.yaml"
    file.write_text(yaml.safe_dump(document))
    return f"--config={file}"


async def nodes_with_cells(space: Workspace, count: int) -> list[NumaKubelet]:
    """Nodes of two cells with eight CPUs each, one of them reserved."""
    machine = uniform(2, 8, 16 * GIB, reserved_memory=GIB)
    names = await space.add_nodes(count, cpu=str(machine.allocatable["cpu"]), memory="31Gi")
    return [NumaKubelet(name, machine) for name in names]


@pytest.mark.usefixtures("defined")
async def test_no_pod_is_sent_where_no_cell_can_hold_it(
    space: Workspace, api: ApiClient, launch: Launch, tmp_path: Path
) -> None:
    kubelets = await nodes_with_cells(space, 2)
    agents = Agents(api, space, kubelets)
    async with agents.running():
        launch(*NO_ELECTION, configuration(tmp_path, cacheResyncPeriodSeconds=1))
        # Each cell holds two of three CPUs; a fifth pod would fit each node, but no cell.
        await space.create_pods([pinned(f"p{i}", 3) for i in range(10)])
        await space.wait_for_pods(10, lambda each: is_bound(each) or is_rejected(each))

        def full(pods: Json) -> bool:
            return sum(is_bound(each) for each in pods["items"]) == 8

        bound = await api.wait_until(space.pods, full)
        waiting = [each for each in bound["items"] if not is_bound(each)]
        for name in (each["metadata"]["name"] for each in waiting):
            await space.wait_for_pod(name, is_rejected)
        assert agents.refused == []
        # One goes, and one that waits may take its place in the same cell.
        gone = next(each for each in bound["items"] if is_bound(each))
        await api.delete(f"{space.pods}/{gone['metadata']['name']}", gracePeriodSeconds="0")
        await api.wait_until(space.pods, lambda pods: len(pods["items"]) == 9 and full(pods))
        assert agents.refused == []


@pytest.mark.usefixtures("defined")
async def test_without_the_cache_the_newest_object_is_believed(
    space: Workspace, api: ApiClient, launch: Launch, tmp_path: Path
) -> None:
    split, whole = await nodes_with_cells(space, 2)
    for number, cpus in enumerate((4, 4)):
        assert split.admit(from_dict(pinned(f"s{number}", cpus), Pod)) is None
    for number, cpus in enumerate((7, 1)):
        assert whole.admit(from_dict(pinned(f"w{number}", cpus), Pod)) is None
    for kubelet in (split, whole):
        await api.apply(f"{TOPOLOGIES}/{kubelet.name}", topology(kubelet, PublisherSettings()))
    launch(*NO_ELECTION, configuration(tmp_path))
    await space.create_pods([pinned("p", 6)])
    assert node_of(await space.wait_for_pod("p")) == whole.name
