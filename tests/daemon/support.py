"""A daemon on an embedded API server, and the vocabulary of the scenarios."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sandbox.apiserver import ApiServer
from scheduler.app import Daemon
from scheduler.assembly import available
from scheduler.config.loading import Configuration, from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.framework.registry import Registry
from scheduler.kube.client import KubeClient
from scheduler.kube.watch import IDLE_SECONDS
from scheduler.observe.metrics import Metrics
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.view import QueueEntry
from tests.builders import Json, NodeBuilder, PodBuilder
from tests.patience import PATIENCE

WAIT_SECONDS = PATIENCE
POLL_SECONDS = 0.005
BINDING = r"/binding$"
STATUS = r"/status$"
EVENTS = r"/events"


async def eventually(condition: Callable[[], bool], what: str = "") -> None:
    """Give the loop back until the condition holds; fails, saying `what`, after a generous while.

    For what no event tells.
    """
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():  # noqa: ASYNC110  because glances at a server have no event
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"never happened: {what or condition}") from None


class Cluster:
    """The content of an API server, written and read in-process, past all its faults."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.faults = server.faults
        self._registry = server.registry
        self._pods = server.registry.builtin("pods")
        self._nodes = server.registry.builtin("nodes")
        self._leases = server.registry.builtin("leases", "coordination.k8s.io")

    # Nodes

    def add(self, *nodes: NodeBuilder | Json) -> None:
        for node in nodes:
            self._registry.create(self._nodes, "", _json(node))

    def change_node(self, name: str, change: Callable[[Json], None], subresource: str = "") -> None:
        """Apply `change` to a copy of the node, and write it back."""
        body = copy.deepcopy(self._registry.get(self._nodes, ("", name)).body)
        change(body)
        self._registry.update(self._nodes, ("", name), body, subresource)

    def remove_node(self, name: str) -> None:
        self._registry.delete(self._nodes, ("", name))

    # Pods

    def submit(self, *pods: PodBuilder | Json) -> None:
        for pod in pods:
            body = _with_image(_json(pod))
            self._registry.create(self._pods, body["metadata"].get("namespace", "default"), body)

    def create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._registry.create(self._registry.builtin("namespaces"), "", body)

    def submit_many(self, count: int, make: Callable[[str], PodBuilder], prefix: str) -> list[str]:
        """Submit pods made by name; answers their names."""
        names = [f"{prefix}-{number:04d}" for number in range(count)]
        self.submit(*map(make, names))
        return names

    def pod(self, name: str) -> Json:
        return self._registry.get(self._pods, ("default", name)).body

    def has_pod(self, name: str) -> bool:
        return self._registry.table(self._pods).get(("default", name)) is not None

    def change_pod(self, name: str, change: Callable[[Json], None], subresource: str = "") -> None:
        body = copy.deepcopy(self.pod(name))
        change(body)
        self._registry.update(self._pods, ("default", name), body, subresource)

    def delete_pod(self, name: str) -> None:
        self._registry.delete(self._pods, ("default", name), {"gracePeriodSeconds": 0})

    def bind(self, name: str, node: str) -> None:
        """Bind as another scheduler would."""
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self._registry.bind("default", binding)

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def bound(self) -> dict[str, str]:
        """Every pod that has a node, with its node."""
        versions = self._registry.table(self._pods).current.items()
        return {key[1]: node for key, v in versions if (node := v.body["spec"].get("nodeName"))}

    def condition(self, name: str) -> Json:
        """The pod's PodScheduled condition; empty if it has none."""
        conditions = self.pod(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    # The rest

    def events(self, pod: str, reason: str) -> list[Json]:
        """Events about a pod, as events.k8s.io shows them."""
        events = self._registry.builtin("events", "events.k8s.io")
        bodies = [version.body for version in self._registry.table(events).current.values()]
        return [e for e in bodies if (e["regarding"]["name"], e["reason"]) == (pod, reason)]

    def lease(self) -> Json:
        """The spec of the leader election's lease."""
        spec: Json = self._registry.get(self._leases, ("kube-system", "equipoise")).body["spec"]
        return spec

    def steal_lease(self, thief: str) -> None:
        body = copy.deepcopy(self._registry.get(self._leases, ("kube-system", "equipoise")).body)
        body["spec"]["holderIdentity"] = thief
        self._registry.update(self._leases, ("kube-system", "equipoise"), body)

    @property
    def revision(self) -> int:
        """Grows by one with every write to the cluster."""
        return self._registry.store.revision

    async def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Stop the server, do something to its content, and start it at the same address."""
        host, port = self.server.host, self.server.port
        await self.server.stop()
        meanwhile()
        await self.server.start(host, port)


class Replica:
    """One daemon that runs, with its metrics and the task of its life."""

    def __init__(
        self, cluster: Cluster, daemon: Daemon, metrics: Metrics, task: asyncio.Task[int]
    ) -> None:
        self.cluster = cluster
        self.daemon = daemon
        self.metrics = metrics
        self.task = task

    def sample(self, name: str, /, **labels: str) -> float:
        """The value of a metric; 0 if it was never touched."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def requests(self, method: str, code: int) -> float:
        """How many requests of this method were answered so."""
        address = self.cluster.server.url.partition("://")[2]
        labels = {"method": method, "code": str(code), "host": address}
        return self.sample("rest_client_requests_total", **labels)

    def queued(self, name: str) -> QueueEntry | None:
        """The pod's place in the queue, if it waits."""
        snapshot = self.daemon.core.queue.view.snapshot()
        return next((entry for entry in snapshot if entry.pod == f"default/{name}"), None)

    def attempts(self, name: str) -> int:
        """How often a pod that waits has been tried."""
        entry = self.queued(name)
        assert entry is not None, f"{name} does not wait"
        return entry.attempts

    async def settled(self) -> None:
        """Wait until no pod is in flight or active: all others wait for an event."""
        busy = ("active", "backoff", "error-backoff", "in-flight")

        def quiet() -> bool:
            counts = self.daemon.core.queue.view.counts()
            return not any(counts[tier] for tier in busy)

        await eventually(quiet, "the queue settles")

    async def agrees_with_the_cluster(self) -> None:
        """Fail unless the columns say what the API server says."""
        state = self.daemon.core.state
        await eventually(lambda: not state.assumed_count, "all assumed pods are confirmed")
        assert await self.daemon.cache_check.check() == []


async def expect_bound(cluster: Cluster, *names: str) -> None:
    """Wait until all these pods have a node, and PodScheduled is true."""
    await eventually(lambda: cluster.bound().keys() >= set(names), f"bound: {names[:5]}")
    for name in names:
        assert cluster.condition(name)["status"] == "True", name


async def expect_pending(
    cluster: Cluster, replica: Replica, name: str, reason: str = "Unschedulable"
) -> str:
    """Wait until the pod is parked and its condition says why; answers the message."""

    def parked() -> bool:
        condition, entry = cluster.condition(name), replica.queued(name)
        return (
            entry is not None
            and entry.attempts > 0
            and condition.get("status") == "False"
            and condition["reason"] == reason
            and condition["message"] == entry.message
        )

    await eventually(parked, f"{name} is pending: {reason}")
    return str(cluster.condition(name)["message"])


def configuration(
    *, kube: Json | None = None, own: Json | None = None, registry: Registry = IN_TREE
) -> Configuration:
    """A configuration without leader election and endpoints, unless the sections given say so.

    No time-out passes while a test holds a request and does something else.
    """
    election = {"leaderElection": {"leaderElect": False}}
    sections = {"server": {"port": 0}, **(own or {})}
    sections["binding"] = {"timeoutSeconds": WAIT_SECONDS, **sections.get("binding", {})}
    documents = [
        {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **election, **(kube or {})},
        {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, **sections},
    ]
    return from_dicts(documents, available(registry))


@asynccontextmanager
async def starting_daemon(
    cluster: Cluster,
    config: Configuration | None = None,
    *,
    registry: Registry | None = None,
    watch_idle_seconds: float = IDLE_SECONDS,
    kubeconfig: str | None = None,
) -> AsyncIterator[Replica]:
    """A daemon that has just been started; at the end it is stopped, if it still runs."""
    metrics = Metrics()
    client = await KubeClient.connect(
        metrics=metrics, kubeconfig=kubeconfig, master=cluster.server.url, environ={}
    )
    try:
        daemon = Daemon(
            config or configuration(),
            client,
            metrics,
            registry=registry,
            watch_idle_seconds=watch_idle_seconds,
        )
        task = asyncio.create_task(daemon.run(), name="daemon")
        replica = Replica(cluster, daemon, metrics, task)
        try:
            yield replica
        finally:
            daemon.stop()
            await replica.task
    finally:
        await client.close()


@asynccontextmanager
async def running_daemon(cluster: Cluster, *args: Any, **options: Any) -> AsyncIterator[Replica]:
    """A daemon with its caches filled. It must outlive the scenario, and then agree with it."""
    async with starting_daemon(cluster, *args, **options) as replica:
        await replica.daemon.until_synced()
        yield replica
        assert not replica.task.done(), "the daemon ended before the scenario did"
        await replica.agrees_with_the_cluster()


def _json(given: PodBuilder | NodeBuilder | Json) -> Json:
    return copy.deepcopy(given) if isinstance(given, dict) else given.obj()


def _with_image(pod: Json) -> Json:
    containers = pod.get("spec", {}).get("containers")
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict):
            container.setdefault("image", "example.com/app:1")
    return pod
