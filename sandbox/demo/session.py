"""Runs the demo: the embedded API server, its kubelets, the workload, and the real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from sandbox.apiserver import ApiServer
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
from scheduler.kube.errors import Conflict, NotFound
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics

# The demo's changes to a configuration.


_CELLS = "NodeResourceTopologyMatch"

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": _CELLS}]}},
            "pluginConfig": [{"name": _CELLS, "args": {"cacheResyncPeriodSeconds": 5}}],
        }
    ],
}
"""The default profile, and in addition a look at NUMA cells: some nodes of the demo have them."""


def for_demo(config: Configuration, port: int) -> Configuration:
    """Without leader election, and serving on the given port, or on any free one for 0."""
    election = replace(config.scheduler.leader_election, leader_elect=False)
    server = replace(config.equipoise.server, bind_address="127.0.0.1", port=port or _free_port())
    return dataclasses.replace(
        config,
        scheduler=replace(config.scheduler, leader_election=election),
        equipoise=replace(config.equipoise, server=server),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


_CONCURRENCY = 32
_POLL_SECONDS = 0.02
_PUBLISH_SECONDS = 0.5
"""How often agents on nodes with cells say what is left of them; ten seconds are more usual."""
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

    async def settle(self) -> float:
        """Return when every pod is bound or known not to fit: seconds since the first was made."""
        core = self.daemon.core

        def settled() -> bool:
            counts = core.queue.view.counts()
            busy = sum(counts[tier] for tier in ("active", "backoff", "error-backoff", "in-flight"))
            return not busy and not core.state.assumed_count

        await _until(settled)
        return time.perf_counter() - self._began

    async def settle_cells(self) -> None:
        """Return when news of cells lets no more pods in.

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
            bound = [p for p in self.pods() if p.spec.node_name]
            victims = choose.sample(bound, min(len(bound), choose.randint(5, 40)))
            apps = {app.name: app for app in APPS}
            for victim in victims:
                app = apps[victim.metadata.labels["app"]]
                await self._delete(victim)
                await self._create(_PODS, [pod(app, next(numbers), self.scheduler_name)])

    def pods(self) -> list[Pod]:
        """The demo's pods as the scheduler sees them."""
        return [p for p in self.daemon.pods().values() if p.metadata.namespace == NAMESPACE]

    def bound_by_app(self) -> Counter[str]:
        """How many pods of each app have a node."""
        return Counter(p.metadata.labels["app"] for p in self.pods() if p.spec.node_name)

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


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  a glance at many counters has no event to wait for
        await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def running(config: Configuration, scale: int) -> AsyncIterator[Demo]:
    """A demo with its servers up and its namespace made; everything is stopped at the end."""
    metrics = Metrics(__version__)
    api = ApiServer()
    kubelets = [NumaKubelet(name, machine) for name, machine in machines(scale).items()]
    numa = NumaNodes(api.registry, kubelets, publish_seconds=_PUBLISH_SECONDS)
    async with api, numa, Kubelets(api.registry, admission=numa, start_seconds=0.5):
        client = await KubeClient.connect(metrics=metrics, master=api.url)
        try:
            for path, manifest in surroundings():
                await client.request("POST", path, body=manifest)
            daemon = Daemon(config, client, metrics)
            async with _alive(daemon):
                await daemon.until_synced()
                yield Demo(api, daemon, client, numa, scale)
        finally:
            await client.close()


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
