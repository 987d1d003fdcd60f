"""The cluster that faults happen to: etcd, kube-apiserver, two replicas behind a wire each."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiohttp

from e2e.faults.history import History, audit_flags
from e2e.faults.wire import Stage, Trap, Wanted, Wire, wire
from e2e.harness.client import ApiClient, ApiError, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import QUICK_ELECTION
from e2e.harness.kubeconfig import write_kubeconfig
from e2e.harness.objects import Json, node
from e2e.harness.patience import PATIENCE
from e2e.harness.processes import Process, answers_ok, start_on_free_ports
from e2e.harness.scheduler import LEASE, NAMESPACE

APISERVER_FLAGS = (
    # No kubelet, no controller: nodes stay ready, pods need no service account.
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,Priority",
    "--delete-collection-workers=8",
)
TENANT = "tenant"
PODS = f"/api/v1/namespaces/{TENANT}/pods"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{TENANT}/resourceclaims"
LEASE_SECONDS = 12.0
"""After which a lease that is not renewed may be taken, by `QUICK_ELECTION`."""
NODES, NODE_CPU = 20, 2
POD_MILLI_CPU = 200
PODS_THAT_FIT = NODES * NODE_CPU * 1_000 // POD_MILLI_CPU
"""They fill all nodes: room that is kept for nobody shows as a pod without a node."""
_PASSING = (ApiError, aiohttp.ClientError, TimeoutError)


class Replica:
    """One replica of the program, which may be killed, stopped and started again."""

    def __init__(
        self, name: str, directory: Path, kubeconfig: Path, line: Wire, history: History
    ) -> None:
        self.name = name
        self.wire = line
        self._history = history
        self._former: set[str] = set()
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._process: Process | None = None
        self.arguments: tuple[str, ...] = ()
        """What it is started with beside the usual."""
        self.environment: dict[str, str] = {}
        self.trigger = directory / f"{name}.stop"
        """A file: the next binding that has been checked and not written stops the process."""

    @property
    def process(self) -> Process:
        """The one that was started last."""
        assert self._process is not None, "it was started"
        return self._process

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.exit_code is None

    @property
    def suspended(self) -> bool:
        """Whether it is stopped by a signal."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    async def start(self) -> None:
        """Start it, and wait until it is ready to serve."""
        self._former = self._history.identities(self.name)
        self._process = await asyncio.to_thread(start_on_free_ports, 1, self._start)

    def holds(self, lease: Json) -> bool:
        """Whether this process holds the lease, and not one that ended before it."""
        identity = lease.get("spec", {}).get("holderIdentity") or ""
        return identity in self._history.identities(self.name) - self._former

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send(signal.SIGKILL)

    def suspend(self) -> None:
        """SIGSTOP."""
        self.process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send(signal.SIGCONT)

    async def ended(self) -> int:
        """Wait for its end; the exit code."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    async def end(self) -> None:
        """End it without notice, if it runs."""
        if self.alive:
            await asyncio.to_thread(self.process.kill)

    def _start(self, port: int) -> Process:
        command = [
            *(sys.executable, "-m", "e2e.faults.stopped_replica", "run"),
            *("--kubeconfig", str(self._kubeconfig)),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
            *("--log-format", "console", *QUICK_ELECTION, *self.arguments),
        ]
        environment = {"EQUIPOISE_STOP_TRIGGER": str(self.trigger), **self.environment}
        process = Process(command, self._directory / f"{self.name}.log", environment)
        process.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"))
        return process


class Struck(NamedTuple):
    """When a fault struck, and whom."""

    at: float
    replica: Replica


@dataclass
class Scene:
    """What faults work with."""

    plane: ControlPlane
    api: ApiClient
    replicas: list[Replica]
    history: History
    seen: list[str] = field(default_factory=list)
    """What a fault has to tell beside the counts."""
    in_flight: int = 0
    """How many pods had no node when the fault began."""

    async def lead(self) -> tuple[Replica, Replica]:
        """Start replicas that have ended; who leads, and the other one."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.start_ended()
                lease = await self.lease()
                for number, each in enumerate(self.replicas):
                    if each.alive and each.holds(lease):
                        return each, self.replicas[1 - number]
                await asyncio.sleep(0.2)

    async def start_ended(self) -> None:
        """Start replicas that have ended, as a Deployment would."""
        await asyncio.gather(*(each.start() for each in self.replicas if not each.alive))

    async def spring(
        self,
        wanted: Wanted,
        stage: Stage,
        act: Callable[[Replica], None],
        *,
        skip: int = 0,
        cut: bool = False,
    ) -> Struck:
        """Act when a request of whichever replica has come so far."""
        struck: list[Struck] = []

        def strike(line: Wire) -> None:
            (replica,) = (each for each in self.replicas if each.wire is line)
            act(replica)
            struck.append(Struck(time.monotonic(), replica))
            self.count_in_flight()

        trap = Trap(wanted, stage, strike, skip, cut)
        for each in self.replicas:
            each.wire.traps.append(trap)
        async with asyncio.timeout(PATIENCE):
            await trap.sprung.wait()
        return struck[0]

    def count_in_flight(self) -> None:
        """The fault begins: note how many pods have no node yet."""
        self.in_flight = PODS_THAT_FIT - len(self.history.bindings())

    async def lease(self) -> Json:
        """The lease as it is; empty if it cannot be read."""
        try:
            return await self.api.get(LEASE)
        except _PASSING:
            return {}

    async def taken_over(self, other_than: Replica) -> None:
        """Wait until another replica holds the lease."""
        await self.until(
            lambda lease: self.history.holder(lease) not in ("", other_than.name), LEASE
        )

    async def until(self, met: Callable[[Json], bool], path: str = PODS) -> Json:
        """Wait until something holds of what the API has there, however long that is away."""
        return await self.api.wait_until(path, met)

    async def bound(self, number: int) -> None:
        """Wait until so many pods have a node."""
        await self.until(lambda pods: count_bound(pods["items"]) >= number)

    async def recovered(self, number: int, since: float, timeout: float) -> float | None:
        """Seconds from `since` until that many pods have nodes; None if they do not get them."""
        try:
            await self.api.wait_until(
                PODS, lambda pods: count_bound(pods["items"]) >= number, timeout=timeout
            )
        except TimeoutError:
            return None
        return time.monotonic() - since

    async def clear(self) -> None:
        """Remove all pods and claims, and all faults of the wires."""
        for each in self.replicas:
            each.wire.traps.clear()
            each.wire.answer_delay = 0.0
            each.wire.cut_answer = lambda request: None
            each.wire.heal(cut=each.wire.holds)
            each.trigger.unlink(missing_ok=True)
            if each.alive:
                each.resume()
        await self.api.delete(PODS, gracePeriodSeconds="0")
        await self.api.wait_until(PODS, lambda pods: not pods["items"])
        for claim in await self.api.items(CLAIMS):
            # No controller is here to say that nobody uses it any more.
            path = f"{CLAIMS}/{claim['metadata']['name']}"
            await self.api.patch(path, {"metadata": {"finalizers": None}})
        await self.api.delete(CLAIMS)
        await self.api.wait_until(CLAIMS, lambda claims: not claims["items"])
        self.seen.clear()
        self.in_flight = 0


def count_bound(pods: Iterable[Json]) -> int:
    """How many have a node."""
    return sum(bool(each["spec"].get("nodeName")) for each in pods)


@asynccontextmanager
async def scene(directory: Path) -> AsyncIterator[Scene]:
    """The cluster, with nodes and without pods; replicas are not started yet."""
    async with AsyncExitStack() as stack:
        flags = (*APISERVER_FLAGS, *audit_flags(directory))
        plane = await asyncio.to_thread(
            stack.enter_context, ControlPlane(directory, bare=True, apiserver_flags=flags)
        )
        api = await stack.enter_async_context(api_client(plane.url, plane.admin_context))
        for name in (TENANT, NAMESPACE):
            await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        bodies = (node(f"node-{number}", str(NODE_CPU)) for number in range(NODES))
        await api.create_all("/api/v1/nodes", bodies)
        history = History(directory)
        replicas = [
            await _replica(stack, plane, history, f"replica-{number}") for number in range(2)
        ]
        yield Scene(plane, api, replicas, history)


async def _replica(
    stack: AsyncExitStack, plane: ControlPlane, history: History, name: str
) -> Replica:
    directory = plane.directory
    pair = plane.certificates.client(name, "system:masters")
    line = await stack.enter_async_context(wire(plane.url, plane.certificates.trust(pair)))
    path = directory / f"{name}.kubeconfig"
    config = write_kubeconfig(path, line.url, plane.certificates.authority, {"token": "none"})
    replica = Replica(name, directory, config, line, history)
    stack.push_async_callback(replica.end)
    return replica
