"""The cluster that contestants meet in: one set of nodes, and a namespace of pods for each run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from e2e.bench.contestants import GROUP
from e2e.bench.workloads import GROUP as POD_GROUP
from e2e.bench.workloads import ZONE, Placement, nodes
from e2e.harness.client import ApiClient
from e2e.harness.objects import Json, is_bound

POLL_SECONDS = 0.1
EVENTS_QUIET_SECONDS = 3.0


async def prepare(api: ApiClient, node_count: int) -> "Arena":
    """Create the nodes and let contestants do whatever they like, as neither should be refused."""
    binding = {
        "metadata": {"name": "contestants"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    }
    await api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    made = nodes(node_count)
    await api.create_all("/api/v1/nodes", made)
    zones = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in made}
    return Arena(api, zones)


@dataclass(frozen=True)
class Arena:
    """The nodes by name, with their zones, and a way to put pods before them."""

    api: ApiClient
    zones: dict[str, str]

    @asynccontextmanager
    async def pending(self, namespace: str, pods: list[Json]) -> AsyncIterator["Heat"]:
        """A fresh namespace in which the pods wait during the block; afterwards they are gone.

        Not after an error: that ends the bench, and the cluster with it.
        """
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.api.create_all(path, pods)
        yield Heat(self, namespace, path, len(pods))
        names = (each["metadata"]["name"] for each in pods)
        deletions = (self.api.delete(f"{path}/{name}", gracePeriodSeconds="0") for name in names)
        await asyncio.gather(*deletions)


@dataclass(frozen=True)
class Heat:
    """The pods of one run, and how they fare."""

    arena: Arena
    namespace: str
    path: str
    pods: int

    async def resource_version(self) -> str:
        """The point in history from which a watch sees all that happens next."""
        answer = await self.arena.api.get(self.path, limit="1")
        return str(answer["metadata"]["resourceVersion"])

    async def follow(self, since: str, on_binding: Callable[[], None]) -> None:
        """Call ``on_binding`` whenever a pod gets a node; return when all have one.

        The API server filters: an unbound pod does not exist for this watch, a bound one is added
        to it. So the measurement costs one small message per pod.
        """
        bound: set[str] = set()
        while len(bound) < self.pods:  # the API server ends a watch that cannot keep up
            async with self.arena.api.watch(
                self.path, resourceVersion=since, fieldSelector="spec.nodeName!="
            ) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of {self.path} broke: {event['object']}")
                    metadata = event["object"]["metadata"]
                    since = metadata["resourceVersion"]
                    if metadata["name"] not in bound:
                        bound.add(metadata["name"])
                        on_binding()
                    if len(bound) == self.pods:
                        return

    async def placements(self) -> list[Placement]:
        """Where the pods are; a pod without a node is left out."""
        pods = await self.arena.api.items(self.path)
        return [self._placement(each) for each in pods if is_bound(each)]

    async def events_written(self, clock: Callable[[], float]) -> tuple[int, float]:
        """How many events there are at last, and when that was first seen.

        Returns when each pod has one, or when no more have come for a while.
        """
        count, grown_at = 0, clock()
        while count < self.pods and clock() - grown_at < EVENTS_QUIET_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            now = await self._count_events()
            if now > count:
                count, grown_at = now, clock()
        return count, grown_at

    async def _count_events(self) -> int:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        answer = await self.arena.api.get(path, limit="1")
        rest: int = answer["metadata"].get("remainingItemCount", 0)
        return len(answer["items"]) + rest

    def _placement(self, pod: Json) -> Placement:
        name = pod["spec"]["nodeName"]
        return Placement(name, self.arena.zones[name], pod["metadata"]["labels"][POD_GROUP])
