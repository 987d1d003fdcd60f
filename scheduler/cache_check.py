"""The cache check: compares the scheduler's cache with the API server, and repairs it.

::

    list nodes and pods, page by page ──► suspects ──► wait ──► read each suspect again
                                                                 │ agrees, or has changed: fine
                                                                 └ differs: count, log, repair

A watch is always a moment behind, so only what stays different for `RECHECK_SECONDS` is a
difference. It is found by reading that one object again while the state keeps its version of it:
what was read is then at least as new. It is repaired by the way that watch events take: the object
goes and comes.

Runs by itself every `cacheCheck.intervalSeconds`, and on SIGUSR2. A page is compared in slices,
with a pause before the next; at most `MOST_SUSPECTS` are read again, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Never

import msgspec

from scheduler import machine
from scheduler.assembly import Core
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import UNREADABLE, KubeError, NotFound
from scheduler.kube.listing import decoded, find_one, list_pages
from scheduler.kube.watch import WatchedResource
from scheduler.kube.writes import pod_path
from scheduler.model.nodes import Node
from scheduler.model.objects import KINDS, Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.slices import checkpoint, in_slices
from scheduler.state.checker import node_differences, pod_differences

log = get_logger(__name__)

RECHECK_SECONDS = 2.0
PAUSE_SECONDS = 0.05
"""Between two pages, to leave the API server to others."""
MOST_SUSPECTS = 1000


class Suspect(msgspec.Struct, frozen=True):
    """An object of which the state may have a wrong idea."""

    kind: str
    """`node`, `pod`; `assumed`: a pod without a binding; `queue`: one that is missing from it."""
    key: str
    uid: str = ""


class CacheCheck:
    """Compares and repairs, one check at a time."""

    def __init__(self, core: Core, client: KubeClient, metrics: Metrics) -> None:
        self._core = core
        self._client = client
        self._checks = metrics.cache_checks
        self._mismatches = {
            kind: metrics.cache_mismatches.labels(kind)
            for kind in ("node", "pod", "assumed", "queue")
        }
        self._busy = asyncio.Lock()

    async def run(self, interval: float) -> Never:
        """Check every so often, until cancelled."""
        while True:
            await asyncio.sleep(interval * (0.8 + 0.4 * machine.random()))
            await self.check_safely()

    async def check_safely(self) -> None:
        """Check, and log it if that is not possible now."""
        try:
            await self.check()
        except KubeError as fault:
            self._checks.labels("failed").inc()
            log.warning("Cache could not be compared with the cluster", error=str(fault))

    async def check(self) -> list[str]:
        """What differs and stays different, one line each; it is repaired. Raises KubeError."""
        async with self._busy:
            suspects = await self._suspects()
            found: list[str] = []
            if suspects:
                await asyncio.sleep(RECHECK_SECONDS)
                found = await self._look_closer(suspects)
        self._checks.labels("differs" if found else "agrees").inc()
        log.info("Cache was compared with the cluster", differences=len(found))
        return found

    # Suspects

    async def _suspects(self) -> list[Suspect]:
        suspects = self._unattended()
        nodes: set[str] = set()
        async for page in list_pages(self._client, _resource("Node")):
            await in_slices(self._compare_nodes, page, nodes, suspects)
            await asyncio.sleep(PAUSE_SECONDS)
        uids: set[str] = set()
        async for page in list_pages(self._client, _resource("Pod")):
            await in_slices(self._compare_pods, page, uids, suspects)
            await asyncio.sleep(PAUSE_SECONDS)
        await in_slices(self._find_superfluous, nodes, uids, suspects)
        return list(suspects)

    def _unattended(self) -> dict[Suspect, None]:
        """Assumed pods that are neither being bound nor waited for."""
        bound = self._core.bindings.uids()
        return {
            Suspect("assumed", info.key, info.uid): None
            for info in self._core.state.assumed_pods()
            if info.uid not in bound and info.uid not in self._core.unconfirmed
        }

    def _compare_nodes(
        self, page: Iterable[Node], seen: set[str], suspects: dict[Suspect, None]
    ) -> None:
        for node in page:
            checkpoint()
            seen.add(node.name)
            if node_differences(self._core.state, node.name, node):
                suspects[Suspect("node", node.name)] = None

    def _compare_pods(
        self, page: Iterable[Pod], seen: set[str], suspects: dict[Suspect, None]
    ) -> None:
        for pod in page:
            checkpoint()
            uid, key = pod.metadata.uid, pod.metadata.key
            seen.add(uid)
            if pod_differences(self._core.state, uid, key, pod):
                suspects[Suspect("pod", key, uid)] = None
            elif self._lost(pod):
                suspects[Suspect("queue", key, uid)] = None

    def _lost(self, pod: Pod) -> bool:
        """Whether a pod waits for us and we do not know."""
        if pod.spec.node_name or pod.finished or pod.deleting:
            return False
        uid = pod.metadata.uid
        known = self._core.queue.contains(pod.metadata.key, uid) or self._core.state.pod(uid)
        return not known and self._core.event_handlers.responsible(pod)

    def _find_superfluous(
        self, nodes: set[str], uids: set[str], suspects: dict[Suspect, None]
    ) -> None:
        state = self._core.state
        for name in state.names():
            checkpoint()
            if name not in nodes:
                suspects[Suspect("node", name)] = None
        for info in state.pods():
            checkpoint()
            if info.uid not in uids and not state.assumed(info.uid):
                suspects[Suspect("pod", info.key, info.uid)] = None

    # A closer look

    async def _look_closer(self, suspects: list[Suspect]) -> list[str]:
        if len(suspects) > MOST_SUSPECTS:
            log.warning("Too many objects may differ, only some are checked now", all=len(suspects))
        found: list[str] = []
        for suspect in suspects[:MOST_SUSPECTS]:
            look = self._look_at_node if suspect.kind == "node" else self._look_at_pod
            lines = await look(suspect)
            for line in lines:
                log.error("Cache differs from the cluster, repaired", difference=line)
                self._mismatches[suspect.kind].inc()
            found += lines
        return found

    async def _look_at_node(self, suspect: Suspect) -> list[str]:
        state = self._core.state
        known = state.node(suspect.key)
        try:
            node = await find_one(self._client, KINDS["Node"].path, suspect.key, Node)
        except UNREADABLE:
            return []  # then the last version that could be read counts
        if state.node(suspect.key) is not known:
            return []
        lines = node_differences(state, suspect.key, node)
        if lines:
            self._replace("Node", known, node)
        return lines

    async def _look_at_pod(self, suspect: Suspect) -> list[str]:
        state, uid = self._core.state, suspect.uid
        known = state.pod(uid)
        try:
            namespace, _, name = suspect.key.partition("/")
            pod = await self._read_pod(pod_path(namespace, name))
        except UNREADABLE:
            return []
        if pod is not None and pod.metadata.uid != uid:
            pod = None
        if state.pod(uid) is not known:
            return []
        if suspect.kind == "assumed":
            return self._release(known, pod) if known is not None else []
        if lines := pod_differences(state, uid, suspect.key, pod):
            self._replace("Pod", None if known is None else known.pod, pod)
            return lines
        if pod is not None and suspect.kind == "queue" and self._lost(pod):
            self._core.queue.add(PodInfo(pod, self._core.config.equipoise.limits))
            return [f"pod {suspect.key}: not in the queue"]
        return []

    def _replace(self, kind: str, old: Any, new: Any) -> None:
        """Have an object go and come, so that all that is kept of it is made anew."""
        handle = self._core.event_handlers.handler(kind)
        if old is not None:
            handle([Change(old, None)])
        if new is not None:
            handle([Change(None, new)])

    def _release(self, assumed: PodInfo, pod: Pod | None) -> list[str]:
        """Forget an assumed pod that has no binding."""
        state = self._core.state
        uid = assumed.uid
        attended = uid in self._core.bindings.uids() or uid in self._core.unconfirmed
        if attended or not state.assumed(uid):
            return []
        if state.journal is not None:
            state.journal.forgotten(assumed.uid)
        state.forget(assumed.uid, own=False)
        if pod is not None:
            self._replace("Pod", None, pod)
        return [f"pod {assumed.key}: assumed on {assumed.node_name}, and nobody binds it"]

    async def _read_pod(self, path: str) -> Pod | None:
        """A pod as it is now; None if there is none."""
        try:
            return decoded(await self._client.request("GET", path), Pod)
        except NotFound:
            return None


def _resource(kind: str) -> WatchedResource[Any]:
    entry = KINDS[kind]
    return WatchedResource(entry.name, entry.path, entry.type, optional=entry.optional)
