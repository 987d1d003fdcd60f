"""The cluster of an attack: a bare control plane, and two replicas behind proxies."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.cluster.machine import Usage
from e2e.adversity.proxy import Proxy, proxy
from e2e.adversity.webhook import Webhook
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import wait_for_leader
from e2e.harness.groups import define_podgroups
from e2e.harness.kubeconfig import write_kubeconfig
from e2e.harness.objects import Json, node, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.processes import Process
from e2e.harness.scheduler import LEASE, NAMESPACE, SchedulerProcess

APISERVER_FLAGS = (
    # No kubelet, no controller: nodes stay ready, pods need no service account.
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,Priority",
    "--delete-collection-workers=16",
)
OTHERS, TENANT = "others", "tenant"
"""The namespaces of those who do nothing wrong, and of the one who attacks."""
REPLICAS = 2
ELECTION = ("--leader-elect=true", f"--leader-elect-resource-namespace={NAMESPACE}")


@dataclass
class Replica:
    """One daemon and its address of the API server."""

    scheduler: SchedulerProcess
    proxy: Proxy

    @property
    def rss_mib(self) -> float:
        """What it occupies now."""
        status = (Path("/proc") / str(self.scheduler.process.pid) / "status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def peak_mib(self) -> float:
        """The most it has occupied."""
        return Usage.of(self.scheduler.process.pid).peak_mib


@dataclass
class Scene:
    """What an attack works with."""

    plane: ControlPlane
    api: ApiClient
    replicas: list[Replica]
    leader: int
    """Which replica leads at the beginning."""
    probes: Path
    webhook: Webhook = field(default_factory=Webhook)
    """The one that a configuration may name."""
    _batch: "count[int]" = field(default_factory=count)

    @property
    def leading(self) -> Replica:
        """The replica that leads at the beginning."""
        return self.replicas[self.leader]

    async def add_nodes(self, number: int, cpu: str = "4", first: int = 0) -> list[str]:
        """Create nodes that stay ready."""
        names = [f"node-{first + each}" for each in range(number)]
        await self.api.create_all("/api/v1/nodes", (node(name, cpu) for name in names))
        return names

    async def create(self, namespace: str, pods: Iterable[Json]) -> None:
        """Create pods, many at a time."""
        await self.api.create_all(pods_path(namespace), pods)

    async def occupy(self, nodes: Iterable[str], cpu: str) -> list[str]:
        """Put one ordinary pod of another scheduler on each node; returns the pods' names."""
        names = []
        bodies = []
        for name in nodes:
            names.append(f"on-{name}")
            bodies.append(pod(names[-1], cpu, nodeName=name, schedulerName="another"))
        await self.create(OTHERS, bodies)
        return names

    async def bind_others(self, number: int = 100, timeout: float = PATIENCE) -> float:
        """Create ordinary pods; seconds until each has a node, infinite if that takes too long."""
        prefix = f"ordinary-{next(self._batch)}"
        bodies = [pod(f"{prefix}-{each}", "10m", "1Mi") for each in range(number)]
        began = time.perf_counter()
        await self.create(OTHERS, bodies)
        waiting = {each["metadata"]["name"] for each in bodies}
        try:
            async with asyncio.timeout(timeout):
                while waiting:
                    looked = time.perf_counter()
                    items = await self.api.items(pods_path(OTHERS), resourceVersion="0")
                    waiting -= {
                        each["metadata"]["name"] for each in items if each["spec"].get("nodeName")
                    }
                    # Looking at a long list slows down what is waited for.
                    await asyncio.sleep(max(0.02, time.perf_counter() - looked))
        except TimeoutError:
            return float("inf")
        return time.perf_counter() - began

    async def settled(self, namespace: str, met: Callable[[list[Json]], bool]) -> list[Json]:
        """Wait until something holds of the pods of a namespace; returns them."""
        answer = await self.api.wait_until(
            pods_path(namespace),
            lambda pods: met(pods["items"]),
            resourceVersion="0",
        )
        items: list[Json] = answer["items"]
        return items

    async def holder(self) -> tuple[str, int]:
        """Who leads, and how often that has changed."""
        spec = (await self.api.get(LEASE))["spec"]
        return str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0)

    async def overcommitted(self, milli_cpu: int) -> list[str]:
        """Nodes whose pods request more than so many milli-CPUs together."""
        requested: Counter[str] = Counter()
        for each in await self.api.items("/api/v1/pods"):
            (container,) = each["spec"]["containers"]
            cpu = container["resources"]["requests"]["cpu"]
            amount = int(cpu[:-1]) if cpu.endswith("m") else 1_000 * int(cpu)
            requested[each["spec"].get("nodeName", "")] += amount
        return [name for name, amount in requested.items() if name and amount > milli_cpu]

    async def livez(self) -> tuple[float, int]:
        """The slowest answer to a probe up to now, in seconds, and how many probes failed.

        A probe that is still under way is waited for.
        """
        already = len(self._answers())
        rest = {each.scheduler.url for each in self.replicas}
        async with asyncio.timeout(2 * PATIENCE):  # a probe that begins now may take PATIENCE
            while rest:
                await asyncio.sleep(0.1)
                rest -= {each["url"] for each in self._answers()[already:]}
        answers = self._answers()
        slowest = max(each["seconds"] for each in answers)
        return slowest, sum(not each["alive"] for each in answers)

    def _answers(self) -> list[Json]:
        whole = self.probes.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def exited(self) -> list[int]:
        """Exit codes of replicas that have ended."""
        codes = (replica.scheduler.process.exit_code for replica in self.replicas)
        return [code for code in codes if code is not None]


def pods_path(namespace: str) -> str:
    """Where the pods of a namespace are."""
    return f"/api/v1/namespaces/{namespace}/pods"


@asynccontextmanager
async def scene(
    directory: Path,
    *,
    nodes: int = 50,
    cpu: str = "4",
    arguments: tuple[str, ...] = (),
    election: tuple[str, ...] = ELECTION,
) -> AsyncIterator[Scene]:
    """A cluster with two replicas of the daemon, of which one leads."""
    async with AsyncExitStack() as stack:
        plane = stack.enter_context(
            ControlPlane(directory, bare=True, apiserver_flags=APISERVER_FLAGS)
        )
        api = await stack.enter_async_context(api_client(plane.url, plane.admin_context))
        spaces = [{"metadata": {"name": name}} for name in (OTHERS, TENANT, NAMESPACE)]
        await api.create_all("/api/v1/namespaces", spaces)
        bodies = (node(f"node-{number}", cpu) for number in range(nodes))
        await api.create_all("/api/v1/nodes", bodies)
        await define_podgroups(api)
        replicas = []
        for number in range(REPLICAS):
            front = await stack.enter_async_context(proxy(plane.url, plane.admin_context))
            config = write_kubeconfig(
                directory / f"replica-{number}.kubeconfig",
                front.url,
                plane.certificates.authority,
                {"token": "none"},
            )
            replica = SchedulerProcess(
                config, directory / f"replica-{number}.log", *election, *arguments
            )
            # The proxies run on this loop, and a replica needs them until it has ended.
            await asyncio.to_thread(replica.__enter__)
            stack.push_async_callback(asyncio.to_thread, replica.__exit__, None, None, None)
            replicas.append(Replica(replica, front))
            if number == 0:
                await wait_for_leader(api)
        probes = directory / "probes.log"
        urls = [replica.scheduler.url for replica in replicas]
        prober = Process([sys.executable, "-m", "e2e.adversity.prober", *urls], probes)
        stack.callback(prober.stop)
        yield Scene(plane, api, replicas, 0, probes)
