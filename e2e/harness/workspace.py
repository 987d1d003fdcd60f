"""What one test owns in the cluster: a namespace, nodes and more, all removed again afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, islice

from e2e.harness.client import ApiClient
from e2e.harness.manifests import CLUSTER_WIDE, path_of
from e2e.harness.objects import Json, is_bound, is_ready_node, node
from e2e.harness.patience import PATIENCE


class Workspace:
    """A namespace of its own and the nodes made for it; names are unique to the test."""

    def __init__(self, api: ApiClient, name: str) -> None:
        self.api = api
        self.name = name
        self.pods = f"/api/v1/namespaces/{name}/pods"
        self.deployments = f"/apis/apps/v1/namespaces/{name}/deployments"
        self.events = f"/apis/events.k8s.io/v1/namespaces/{name}/events"
        self._nodes: list[str] = []
        self._cluster_wide: list[str] = []

    async def add_nodes(
        self,
        count: int,
        cpu: str = "4",
        memory: str = "32Gi",
        zones: Sequence[str] = ("",),
        **labels: str,
    ) -> list[str]:
        """Create nodes, in ``zones`` by turns; wait until they are ready and free of taints."""
        first = len(self._nodes)
        names = [f"{self.name}-node-{first + number}" for number in range(count)]
        self._nodes += names
        placed = zip(names, islice(cycle(zones), count), strict=True)
        nodes = (node(name, cpu, memory, zone=zone, **labels) for name, zone in placed)
        await self.api.create_all("/api/v1/nodes", nodes)
        wanted = set(names)

        def all_ready(nodes: Json) -> bool:
            ready = {each["metadata"]["name"] for each in nodes["items"] if is_ready_node(each)}
            return wanted <= ready

        await self.api.wait_until("/api/v1/nodes", all_ready)
        return names

    async def apply(self, *objects: Json) -> None:
        """Create objects in order, in the namespace of the test unless they belong to none."""
        for obj in objects:
            path = path_of(obj, self.name)
            if obj["kind"] in CLUSTER_WIDE:
                self._cluster_wide.append(path)
            await self.api.apply(path, obj)

    async def get(self, kind: str, name: str, version: str = "v1") -> Json:
        """Read an object, by default of the core group."""
        obj = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        return await self.api.get(path_of(obj, self.name))

    async def create_pods(self, pods: list[Json]) -> None:
        """Create pods in the namespace, many at a time."""
        await self.api.create_all(self.pods, pods)

    async def wait_for_pods(
        self, count: int, condition: Callable[[Json], object] = is_bound, timeout: float = PATIENCE
    ) -> list[Json]:
        """Wait until exactly ``count`` pods exist and ``condition`` holds of each; return them."""

        def met(pods: Json) -> bool:
            items: list[Json] = pods["items"]
            return len(items) == count and all(condition(each) for each in items)

        answer = await self.api.wait_until(self.pods, met, timeout=timeout, resourceVersion="0")
        items: list[Json] = answer["items"]
        return items

    async def wait_for_pod(
        self, name: str, condition: Callable[[Json], object] = is_bound, timeout: float = PATIENCE
    ) -> Json:
        """Wait until ``condition`` holds of one pod; return it."""
        return await self.api.wait_until(f"{self.pods}/{name}", condition, timeout=timeout)

    async def events_with_reason(self, reason: str) -> list[Json]:
        """The namespace's events of one reason."""
        return await self.api.items(self.events, fieldSelector=f"reason={reason}")

    async def _prepare(self) -> None:
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        # Pods are refused before their service account exists.
        account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        await self.api.wait_until(account, lambda _: True)

    async def _remove(self) -> None:
        """Remove all that another test could notice; the rest is deleted with the namespace.

        The namespace comes first because no controller can add pods to one under deletion.
        """
        await self.api.delete(f"/api/v1/namespaces/{self.name}")
        await self.api.delete(self.pods, gracePeriodSeconds="0")
        await self.api.wait_until(self.pods, lambda pods: not pods["items"])
        nodes = [f"/api/v1/nodes/{name}" for name in self._nodes]
        await asyncio.gather(*(self.api.delete(path) for path in nodes + self._cluster_wide))


@asynccontextmanager
async def workspace(api: ApiClient, name: str) -> AsyncIterator[Workspace]:
    """A fresh workspace; when the block ends, everything in it is gone from the cluster."""
    fresh = Workspace(api, name)
    await fresh._prepare()
    try:
        yield fresh
    finally:
        await fresh._remove()
