"""Runs the demo: the embedded API server, its kubelets, the workload, and the real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox.apiserver import ApiServer
from sandbox.controllers.manager import controller_manager
from sandbox.demo.ports import port_of
from sandbox.demo.settings import for_demo
from sandbox.devices.driver import BoardDriver
from sandbox.devices.names import CLAIMS
from sandbox.kubelets import Kubelets
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.tasks import NumaNodes
from sandbox.workload import (
    APPS,
    NAMESPACE,
    machines,
    nodes,
    pod,
    pods,
    surroundings,
)
from scheduler import __version__
from scheduler.app import Daemon
from scheduler.config.loading import Configuration
from scheduler.kube.client import KubeClient
from scheduler.kube.credentials import Credentials, MasterSource
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics

_CONCURRENCY = 32
_POLL_SECONDS = 0.02
_PUBLISH_SECONDS = 0.5
"""How often agents on nodes with cells say what is left of them; ten seconds are more usual."""
_FINISH_SECONDS = 20.0
"""How long pods run that are not to be restarted, as those of Jobs."""
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Demo:
    """A small world; ``start`` it, feed it, look at it."""

    def __init__(
        self, api: ApiServer, daemon: Daemon, client: KubeClient, numa: NumaNodes, scale: int
    ) -> None:
        self.api = api
        self.daemon = daemon
        self.numa = numa
        self._client = client
        self._scale = scale
        self._slots = asyncio.Semaphore(_CONCURRENCY)
        self.created = 0
        self.churning = True
        """Whether `churn` replaces pods."""
        self._began = 0.0

    @property
    def scheduler_name(self) -> str:
        """What the demo's pods ask for."""
        return next(iter(self.daemon.core.frameworks))

    async def create_nodes(self) -> None:
        """Create the nodes, and wait until the scheduler has them all."""
        wanted = nodes(self._scale)
        await self._create("/api/v1/nodes", wanted)
        await _until(lambda: self.daemon.core.state.node_count >= len(wanted))

    async def create_pods(self) -> None:
        """Create ordinary pods at once, in mixed order; wait until the scheduler has them."""
        self._began = time.perf_counter()
        wanted = pods(self.scheduler_name, self._scale)
        random.Random(1).shuffle(wanted)
        await self._add(wanted)

    async def create_pinned_pods(self) -> None:
        """Create the pods with CPUs of their own."""
        await self._add(pods(self.scheduler_name, self._scale, pinned=True))

    async def create_device_pods(self) -> None:
        """Create the pods that ask for devices, and wait until their claims are made."""
        await self._add(pods(self.scheduler_name, self._scale, devices=True))
        bodies = self.api.registry.store.table("pods").current

        def all_made() -> bool:
            return all(
                "resourceClaims" not in each.body["spec"]
                or "resourceClaimStatuses" in each.body["status"]
                for each in bodies.values()
            )

        await _until(all_made)

    def allocated_devices(self) -> int:
        """How many devices claims have."""
        claims = self.api.registry.store.table(CLAIMS).current.values()
        status = [each.body.get("status") or {} for each in claims]
        return sum(
            len(each["allocation"]["devices"].get("results") or ())
            for each in status
            if each.get("allocation")
        )

    async def settle(self) -> float:
        """Return when every pod is bound or known not to fit: seconds since the first was made."""
        core = self.daemon.core

        def settled() -> bool:
            counts = core.queue.view.counts()
            busy = sum(counts[tier] for tier in ("active", "backoff", "error-backoff", "in-flight"))
            return not busy and not core.state.assumed_count

        await _until(settled)
        return time.perf_counter() - self._began

    async def settle_last(self) -> None:
        """Return when news of cells and claims lets no more pods in.

        Until an agent has seen a pod, every cell that may hold it counts as taken.
        """
        while True:
            bound = sum(self.bound_by_app().values())
            await asyncio.sleep(2 * _PUBLISH_SECONDS)
            await self.settle()
            if sum(self.bound_by_app().values()) == bound:
                break
        # Messages of pending pods count pods that were on their way; by now the reason is another.
        queue = self.daemon.core.queue
        waiting = queue.view.snapshot()
        queue.activate([entry.pod for entry in waiting if entry.tier == "unschedulable"])
        await self.settle()

    async def churn(self, seconds: float) -> None:
        """Replace a few pods now and then, as rollouts and crashes do; endless."""
        choose = random.Random(2)
        numbers = itertools.count(self.created)
        while True:
            await asyncio.sleep(seconds)
            if not self.churning:
                continue
            apps = {app.name: app for app in APPS}
            bound = [p for p in self.pods() if p.spec.node_name and _app(p) in apps]
            victims = choose.sample(bound, min(len(bound), choose.randint(5, 40)))
            # The namespace may be gone, a quota in the way, or an answer late: people play here.
            with contextlib.suppress(KubeError):
                for victim in victims:
                    await self._delete(victim)
                    app = apps[_app(victim)]
                    await self._create(_PODS, [pod(app, next(numbers), self.scheduler_name)])

    def pods(self) -> list[Pod]:
        """The demo's pods as the scheduler sees them."""
        return [p for p in self.daemon.pods().values() if p.metadata.namespace == NAMESPACE]

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as the API server has them."""
        return [each.body for each in self.api.registry.store.table("nodes").current.values()]

    def bound_by_app(self) -> Counter[str]:
        """How many pods of each app have a node."""
        return Counter(_app(p) for p in self.pods() if p.spec.node_name)

    async def _add(self, wanted: list[dict[str, Any]]) -> None:
        await self._create(_PODS, wanted)
        self.created += len(wanted)
        await _until(lambda: len(self.pods()) >= self.created)

    async def _create(self, path: str, manifests: list[dict[str, Any]]) -> None:
        async def one(manifest: dict[str, Any]) -> None:
            async with self._slots:
                await self._client.request("POST", path, body=manifest)

        await asyncio.gather(*map(one, manifests))

    async def _delete(self, victim: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):  # it is gone or changed already
            await self._client.request("DELETE", f"{_PODS}/{victim.metadata.name}")


def _app(pod: Pod) -> str:
    return pod.metadata.labels.get("app", "")


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  a glance at many counters has no event to wait for
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def running(
    config: Configuration, scale: int, serving: socket.socket, api_socket: socket.socket
) -> AsyncIterator[Demo]:
    """A demo with its servers up and its namespace made; everything is stopped at the end.

    Scheduler and API server get sockets that listen already, and close them.
    """
    metrics = Metrics(__version__)
    api = ApiServer()
    config = for_demo(config, port_of(serving))
    kubelets = [NumaKubelet(name, machine) for name, machine in machines(scale).items()]
    numa = NumaNodes(api.registry, kubelets, publish_seconds=_PUBLISH_SECONDS)
    nodes = Kubelets(
        api.registry, admission=numa, start_seconds=0.5, finish_seconds=_FINISH_SECONDS
    )
    await api.start(listening=api_socket)
    try:
        driver = BoardDriver(api.registry)
        async with numa, nodes, driver, controller_manager(api.registry):
            # The user's kubeconfig is for other clusters, and its credentials as well.
            client = KubeClient(Credentials(MasterSource(api.url), api.url), metrics)
            try:
                await client.request("POST", _CRDS, body=_pod_groups())
                for path, manifest in surroundings():
                    await client.request("POST", path, body=manifest)
                daemon = Daemon(config, client, metrics, listening=serving)
                async with _alive(daemon):
                    await daemon.until_synced()
                    yield Demo(api, daemon, client, numa, scale)
            finally:
                await client.close()
    finally:
        await api.stop()


def _pod_groups() -> dict[str, Any]:
    """The definition of PodGroups, as the chart has it."""
    text = Path(__file__).with_name("podgroups.yaml").read_text()
    definition: dict[str, Any] = yaml.safe_load(text)
    return definition


@asynccontextmanager
async def _alive(daemon: Daemon) -> AsyncIterator[None]:
    """Run the daemon as long as the block; if it fails, so does the block, at once."""
    try:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(daemon.run(), name="daemon")
            try:
                yield
            finally:
                daemon.stop()
                await task
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
