"""The cluster that contestants meet in: nodes, pods that stay, and pods to place in each turn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.cluster.contestants import GROUP
from bench.cluster.devices import CLASSES, SLICES, Devices, claims_path, device_class
from bench.cluster.run import Run, events_path, pods_path
from bench.cluster.templates import (
    CHURN,
    INIT,
    MEASURED,
    NAMESPACES,
    UNFIT,
    bound_claim,
    csi_node,
    node,
    node_name,
    volume,
)
from bench.cluster.workloads import Size, Workload
from e2e.harness.client import ApiClient
from e2e.harness.objects import Json

PAGE = 1_000
COLLECT_GARBAGE = "/debug/pprof/heap?gc=1&debug=1"

Tell = Callable[[str], None]


async def prepare(api: ApiClient, workload: Workload, size: Size, tell: Tell) -> "Arena":
    """Create all that stays, and grant all contestants every right."""
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
    spaces = [{"metadata": {"name": name}} for name in NAMESPACES]
    await api.create_all("/api/v1/namespaces", spaces)
    tell(f"creating {size.nodes} nodes")
    numbers = range(size.nodes)
    await api.create_all("/api/v1/nodes", (node(number, workload.zones) for number in numbers))
    init = {each["metadata"]["name"]: each for each in workload.init_pods(size)}
    if workload.volumes:
        tell("creating volumes and claims")
        await api.create_all("/apis/storage.k8s.io/v1/csinodes", map(csi_node, numbers))
        await _create_claims(api, INIT, init)
        await _create_claims(api, MEASURED, workload.assignments(size))
    if workload.devices is not None:
        tell("publishing devices")
        await _publish(api, workload.devices, size.nodes)
    tell(f"creating {len(init)} pods on nodes")
    await api.create_all(pods_path(INIT), init.values())
    return Arena(api, workload, size, init)


async def _create_claims(api: ApiClient, namespace: str, names: Iterable[str]) -> None:
    claims = list(names)
    await api.create_all("/api/v1/persistentvolumes", (volume(namespace, c) for c in claims))
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    await api.create_all(path, (bound_claim(namespace, claim) for claim in claims))


async def _publish(api: ApiClient, devices: Devices, nodes: int) -> None:
    """The class, the slices of all nodes, and the claims that have devices already."""
    await api.create(CLASSES, device_class())
    slices = (each for number in range(nodes) for each in devices.slices(node_name(number)))
    await api.create_all(SLICES, slices)
    path = claims_path(INIT)

    async def take(claim: Json, status: Json) -> None:
        await api.create(path, claim)
        await api.patch(f"{path}/{claim['metadata']['name']}/status", {"status": status})

    await asyncio.gather(*(take(*each) for each in devices.taken_claims(nodes)))


@dataclass(frozen=True)
class Arena:
    """A cluster for one workload of one size, and a way to put pods before it."""

    api: ApiClient
    workload: Workload
    size: Size
    init: dict[str, Json]

    @asynccontextmanager
    async def pending(self, scheduler: str) -> AsyncIterator["Run"]:
        """The pods wait for one scheduler during the block; afterwards all is as it was before.

        Not after an error: that ends the bench, and the cluster with it.
        """
        workload, size = self.workload, self.size
        # First the pods that fit nowhere: they have waited longer, and their priority is higher.
        await self.api.create_all(pods_path(UNFIT), workload.unfit_pods(size, scheduler))
        if workload.churn is not None:
            first = workload.churn.pod(CHURN, "pod-0", scheduler)
            await self.api.create(pods_path(CHURN), first)
        pods = workload.measured_pods(size, scheduler)
        if workload.devices is not None and not workload.devices.extended:
            names = (each["metadata"]["name"] for each in pods)
            claims = map(workload.devices.claim, names)
            await self.api.create_all(claims_path(MEASURED), claims)
        await self.api.create_all(pods_path(MEASURED), pods)
        # A collection takes the API server half a second: no contestant pays for another's garbage.
        await self.api.text(COLLECT_GARBAGE)
        yield Run(self.api, workload, size, scheduler)
        await self._clear()

    async def _clear(self) -> None:
        for namespace in (MEASURED, UNFIT, CHURN):
            await self._delete_all(pods_path(namespace))
        if self.workload.devices is not None:
            await self._release()
        for namespace in NAMESPACES:
            await self._delete_all(events_path(namespace))
        if self.workload.churn is not None:
            left = {each["metadata"]["name"] for each in await self.api.items(pods_path(INIT))}
            evicted = (body for name, body in self.init.items() if name not in left)
            await self.api.create_all(pods_path(INIT), evicted)

    async def _release(self) -> None:
        """Delete the claims of the turn, which are protected as long as they have devices."""
        path = claims_path(MEASURED)
        free: Json = {"metadata": {"finalizers": None}}
        names = [each["metadata"]["name"] for each in await self.api.items(path)]
        await asyncio.gather(*(self.api.patch(f"{path}/{name}", free) for name in names))
        await self._delete_all(path)

    async def _delete_all(self, path: str) -> None:
        """Empty a collection, a page at a time: one request for all might take too long."""
        while await self.api.items(path, limit="1"):
            await self.api.delete(path, gracePeriodSeconds="0", limit=str(PAGE))
