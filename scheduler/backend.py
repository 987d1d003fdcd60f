"""What the endpoints show of a daemon. Called on the loop that serves, answered by the other.

Queries read the core in the scheduling thread, in slices. Those that pages repeat, and
explanations, take only the time that scheduling leaves (`spare_time`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from scheduler import __version__, inspection
from scheduler.assembly import Core
from scheduler.explaining.queries import DecisionsQuery, ExplainQuery, NodesQuery, QueueQuery
from scheduler.heartbeat import ask
from scheduler.model.pods import Pod
from scheduler.observe.runtime import EventLoopLag
from scheduler.observe.samples import Samples
from scheduler.pipeline.permits import NotWaiting, PermitDecision, Undecidable
from scheduler.serve.answers import Replica
from scheduler.serve.guards import HttpConflict, HttpNotFound, Unavailable
from scheduler.serve.health import Check
from scheduler.serve.recent import RecentAnswers
from scheduler.slices import in_slices, resting
from scheduler.spare_time import SpareTime
from scheduler.views.node_detail import UnknownNode, node_detail
from scheduler.views.node_map import UnknownResource
from scheduler.views.overview import overview
from scheduler.views.pod_classes import pod_classes
from scheduler.views.pod_groups import pod_groups
from scheduler.views.pod_manifest import pod_manifest
from scheduler.views.updates import Updates, updates

READ_SECONDS = 8.0
"""How long a reader waits for the scheduling loop."""
EXPLAIN_SECONDS = 30.0
"""How long for an explanation, which may have to ask webhooks."""

R = TypeVar("R")


class DaemonBackend:
    """See `serve.endpoints.Backend`. Made in the scheduling loop, which answers.

    `replica` is called on both loops.
    """

    def __init__(
        self,
        core: Core,
        pods: Mapping[str, Pod],
        samples: Samples,
        lag: EventLoopLag,
        replica: Callable[[], Replica],
        live: Sequence[Check],
        ready: Sequence[Check],
    ) -> None:
        self.live = live
        self.ready = ready
        self.version = __version__
        self.registry = core.metrics.registry
        self.recent = RecentAnswers()
        self.replica = replica
        self._core = core
        self._pods = pods
        self._samples = samples
        self._lag = lag
        self._loop = asyncio.get_running_loop()
        self._spare_time = SpareTime(lambda: core.queue.active > 0)
        core.metrics.caches.follow("serving", lambda: {"served_answers": self.recent.usage()})

    def config(self) -> Any:
        """The effective configuration, without secrets."""
        return self._core.config.for_others()

    async def queue(self, query: QueueQuery) -> Any:
        """Pending pods; equal ones may share an entry."""
        read = self._read_for_page if query.group else self._read
        return await read(inspection.queue, query)

    async def nodes(self, query: NodesQuery) -> Any:
        """Nodes one by one, or all as a map by one resource."""
        read = self._read_for_page if query.resource else self._read
        return await read(inspection.nodes, query)

    async def node(self, name: str) -> Any:
        """One node in full."""
        return await self._read_for_page(node_detail, name)

    async def pod(self, key: str) -> Any:
        """What is kept of a pod, as a manifest."""
        return await self._ask(partial(self._manifest, key))

    async def overview(self) -> Any:
        """How the scheduler does, and what keeps most pods waiting."""
        replica = self.replica()
        return {
            "version": self.version,
            "leader": replica.leading,
            "holder": replica.leader,
            "loopLagMs": round(1000 * self._lag.latest, 3),
            **await self._read_for_page(overview, self._samples),
        }

    async def classes(self) -> Any:
        """Classes of equal pods and hit rates."""
        return await self._read_for_page(pod_classes)

    async def groups(self, limit: int) -> Any:
        """Gangs and the last batches."""
        return await self._read_for_page(pod_groups, limit)

    async def updates(self, seq: int | None, taken: int) -> Updates:
        """What is new after a decision and a sample."""
        return await self._read(updates, self._samples, self._lag.latest, seq, taken)

    async def decisions(self, query: DecisionsQuery) -> Any:
        """The latest decisions."""
        return await self._read(inspection.decisions, query)

    async def waiting(self, limit: int) -> Any:
        """Pods that wait at Permit."""
        return await self._read(inspection.waiting, limit)

    async def decide(self, decision: PermitDecision) -> Any:
        """Approve or reject a pod that waits at Permit."""
        return await self._ask(partial(self._decide, decision))

    async def explain(self, query: ExplainQuery) -> Any:
        """The verdict of every node for one pod."""
        return await ask(self._loop, partial(self._explain, query), EXPLAIN_SECONDS)

    async def equivalence(self, name: int | None, node: str | None, limit: int) -> Any:
        """What is kept for classes of equal pods."""
        try:
            return await self._read(inspection.equivalence, name, node, limit)
        except inspection.NothingKept as nothing:
            raise HttpNotFound(str(nothing)) from nothing

    async def _ask(self, work: Callable[[], Awaitable[R]]) -> R:
        return await ask(self._loop, work, READ_SECONDS)

    async def _read(self, read: Callable[..., R], *args: Any) -> R:
        """What a function returns for the core, in the scheduling thread and in slices."""
        return await self._ask(partial(in_slices, read, self._core, *args))

    async def _read_for_page(self, read: Callable[..., Any], *args: Any) -> Any:
        """The same in spare time, since pages repeat their queries."""

        async def rested() -> Any:
            with resting(self._spare_time.rest):
                return await in_slices(read, self._core, *args)

        try:
            return await ask(self._loop, rested, EXPLAIN_SECONDS)
        except (UnknownNode, UnknownResource) as unknown:
            raise HttpNotFound(str(unknown)) from unknown

    # In the scheduling thread

    async def _manifest(self, key: str) -> Any:
        pod = self._pods.get(key)
        if pod is None:
            raise HttpNotFound(f"unknown pod: {key}")
        return pod_manifest(pod)

    async def _decide(self, decision: PermitDecision) -> Any:
        """Only the leader has pods that wait."""
        replica = self.replica()
        if not replica.leading:
            leader = (
                f"the leader is {replica.leader}" if replica.leader else "there is no leader yet"
            )
            raise Unavailable(f"{replica.identity} is a standby: {leader}")
        try:
            return {**self._core.permits.decide(decision), "replica": replica}
        except NotWaiting as unknown:
            raise HttpNotFound(str(unknown)) from unknown
        except Undecidable as fault:
            raise HttpConflict(str(fault)) from fault

    async def _explain(self, query: ExplainQuery) -> Any:
        try:
            with resting(self._spare_time.rest):
                return await inspection.explain(
                    self._core,
                    self._pods,
                    query.pod,
                    leading=self.replica().leading,
                    manifest=query.manifest,
                    claims=query.claims,
                    count=query.count,
                )
        except inspection.UnknownPod as unknown:
            raise HttpNotFound(f"unknown pod: {unknown}") from unknown
