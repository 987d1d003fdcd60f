"""The daemon: starts, follows the cluster, leads when it may, and stops in order.

::

    connect ─► watch ─► synced ─► stand by ─► lead: schedule, bind, report
                                  (caches        │
                                  stay warm)     ├─ asked to stop: finish bindings, send the last
                                                 │  events, release the lease, exit 0
                                                 └─ leadership lost: all writes stop at once, exit 1
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from scheduler import __version__, inspection
from scheduler.assembly import Core, assemble
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.gangs.books import find_books
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import KubeError, WritesStopped
from scheduler.kube.events import EventRecorder
from scheduler.kube.lease import LeaderElector
from scheduler.kube.listing import list_all
from scheduler.kube.reviews import Reviews
from scheduler.kube.watch import IDLE_SECONDS, Reflector, Resource
from scheduler.kube.writes import ApiWriter
from scheduler.model.objects import KINDS
from scheduler.model.pods import Pod
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import EventLoopLag, GcPauses, freeze_after_sync
from scheduler.operators.podgroups import PodGroupOperator, write_status
from scheduler.reporting import ClusterOutlet
from scheduler.serve.endpoints import Replica, Sources
from scheduler.serve.guards import NotFound
from scheduler.serve.health import PING, Check
from scheduler.serve.opening import open_server
from scheduler.serve.server import Server
from scheduler.state.checker import differences

log = get_logger(__name__)

EXIT_OK = 0
EXIT_LEADERSHIP_LOST = 1

STOP_SECONDS = 5.0
FREEZE_LAG_SECONDS = 10.0
RECHECK_SECONDS = 2.0


class LeadershipLost(Exception):
    """Another replica may be writing: this process has to end."""


class Daemon:
    """One replica. ``run`` returns the exit code of the process."""

    def __init__(
        self,
        config: Configuration,
        client: KubeClient,
        metrics: Metrics,
        *,
        registry: Registry | None = None,
        watch_idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._config = config
        self._client = client
        self._metrics = metrics
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._writer = ApiWriter(
            client,
            concurrency=config.equipoise.binding.concurrency,
            timeout=config.equipoise.binding.timeout_seconds,
        )
        self._outlet = ClusterOutlet(self._writer, self._recorders())
        self.core: Core = assemble(config, self._outlet, metrics, registry=registry)
        self._watch_idle_seconds = watch_idle_seconds
        self._reflectors: dict[str, Reflector[Any]] = {
            kind: self._reflector(kind) for kind in self.core.kinds()
        }
        self._elector = self._make_elector()
        self._lag = EventLoopLag(metrics.loop_lag)
        self._stopping = asyncio.Event()
        self._leading = asyncio.Event()
        self.server: Server | None = None

    # Life

    async def run(self) -> int:
        """Work until asked to stop (0) or until leadership is lost (1)."""
        code = EXIT_OK
        try:
            await self._serve_and_work()
        except* (LeadershipLost, WritesStopped):
            log.error("Leadership lost, stopping at once", identity=self._identity)
            code = EXIT_LEADERSHIP_LOST
        return code

    def stop(self) -> None:
        """Ask ``run`` to finish what is under way and return."""
        self._stopping.set()

    async def until_synced(self) -> None:
        """Return when all caches have been filled once."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    def pods(self) -> Mapping[str, Pod]:
        """All pods of the cluster as last seen, by ``namespace/name``."""
        return self._reflectors["Pod"].store

    async def _serve_and_work(self) -> None:
        pauses = GcPauses(self._metrics.gc_pause)
        pauses.start()
        self._lag = EventLoopLag(self._metrics.loop_lag, on_tick=pauses.flush)
        self.server = await self._make_server()
        try:
            if self.server is not None:
                await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._lag.run(), name="event loop lag"),
                    *(
                        tasks.create_task(reflector.run(), name=f"watch {kind}")
                        for kind, reflector in self._reflectors.items()
                    ),
                    tasks.create_task(self._lead(), name="lead"),
                ]
                await self._stopping.wait()
                await self._wind_down()
                for task in reversed(background):
                    task.cancel()
        finally:
            self._writer.stop()
            await self._stop_work()
            pauses.stop()
            if self.server is not None:
                await self.server.stop()

    async def _lead(self) -> None:
        """Schedule for as long as this replica leads."""
        await self.until_synced()
        log.info("Caches are filled", nodes=self.core.state.node_count)
        freeze_after_sync()
        async with asyncio.TaskGroup() as tasks:
            if self._elector is not None:
                tasks.create_task(self._elect(self._elector), name="leader election")
                await self._elector.leading.wait()
            self._leading.set()
            log.info("Scheduling", identity=self._identity, profiles=list(self.core.frameworks))
            tasks.create_task(self._outlet.run(), name="reports")
            if operator := self._operator():
                tasks.create_task(operator.run(), name="pod groups' status")
            tasks.create_task(self.core.loop.run(), name="scheduling loop")

    async def _elect(self, elector: LeaderElector) -> None:
        await elector.run()
        raise LeadershipLost

    def _cease(self) -> None:
        """Write nothing from this instant: another replica may lead already."""
        self._writer.stop()
        self.core.cancel()

    async def _wind_down(self) -> None:
        """Let bindings and evictions under way end, within reason, and send the last events."""
        if not self._leading.is_set():
            return
        log.info("Stopping", bindings=len(self.core.bindings))
        self.core.loop.stop()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.core.bindings.idle()
                await self.core.background.idle()
        except TimeoutError:
            log.warning("Bindings are still under way", bindings=len(self.core.bindings))
        await self._stop_work()
        await self._outlet.flush(STOP_SECONDS / 5)

    async def _stop_work(self) -> None:
        """After this nothing writes any more, except for reports."""
        await self.core.stop()

    # Parts

    def _recorders(self) -> dict[str, EventRecorder]:
        capacity = self._config.equipoise.events.queue_size
        return {
            profile.scheduler_name: EventRecorder(
                self._writer,
                self._metrics,
                profile.scheduler_name,
                self._identity,
                capacity=capacity,
            )
            for profile in self._config.scheduler.profiles
        }

    def _operator(self) -> PodGroupOperator | None:
        """Who keeps the status of PodGroups, if some profile has gangs."""
        books = find_books(self.core.state)
        if books is None:
            return None
        return PodGroupOperator(books, partial(write_status, self._writer), self._client.access)

    def _reflector(self, kind: str) -> Reflector[Any]:
        handler = self.core.ingest.handler(kind)
        originals = self.core.remotes.originals
        return Reflector(
            self._client,
            _resource(kind),
            handler,
            self._metrics,
            idle_timeout=self._watch_idle_seconds,
            keep=originals.keeper(kind) if originals is not None else None,
        )

    def _make_elector(self) -> LeaderElector | None:
        election = self._config.scheduler.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            self._client,
            self._metrics,
            namespace=election.resource_namespace,
            name=election.resource_name,
            identity=self._identity,
            on_lost=self._cease,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    async def _make_server(self) -> Server | None:
        settings = self._config.equipoise.server
        if not settings.port:
            return None
        return await open_server(self._sources(), settings, Reviews(self._client))

    def _sources(self) -> Sources:
        live = (PING, Check("event-loop", self._loop_fault), Check("leaderElection", self._late))
        ready = (PING, Check("informer-sync", self._unsynced), Check("shutdown", self._shutdown))
        return Sources(
            registry=self._metrics.registry,
            version={"version": __version__},
            live=live,
            ready=ready,
            health=live,
            config=self._config.for_others,
            replica=self._replica,
            queue=lambda limit: inspection.queue(self.core, limit),
            nodes=lambda limit: inspection.nodes(self.core, limit),
            decisions=lambda limit: inspection.decisions(self.core, limit),
            explain=self._explain,
            equivalence=self._equivalence,
        )

    # Checks and looks

    def _loop_fault(self) -> str | None:
        lag = self._lag.latest
        return f"the event loop was late by {lag:.1f} s" if lag > FREEZE_LAG_SECONDS else None

    def _late(self) -> str | None:
        overdue = self._elector.overdue() if self._elector is not None else 0.0
        return f"the lease was not renewed in time, by {overdue:.1f} s" if overdue else None

    def _unsynced(self) -> str | None:
        missing = [kind for kind, r in self._reflectors.items() if not r.synced.is_set()]
        return f"not yet listed: {', '.join(missing)}" if missing else None

    def _shutdown(self) -> str | None:
        return "stopping" if self._stopping.is_set() else None

    def _replica(self) -> Replica:
        leading = self._leading.is_set()
        if self._elector is None:
            return Replica(self._identity, leading, self._identity if leading else "")
        return Replica(self._identity, leading, self._elector.holder)

    async def _explain(self, key: str) -> Any:
        try:
            return await inspection.explain(self.core, self.pods(), key)
        except inspection.UnknownPod as unknown:
            raise NotFound(f"unknown pod: {unknown}") from unknown

    def _equivalence(self, name: int | None, node: str | None, limit: int) -> Any:
        try:
            return inspection.equivalence(self.core, name, node, limit)
        except inspection.NothingKept as nothing:
            raise NotFound(str(nothing)) from nothing

    async def check_cache(self) -> list[str]:
        """Compare the columns with the API server, now and a little later; returns what persists.

        The watch is always a moment behind, so only a difference that stays is one.
        """
        found = await self._differences()
        if found:
            await asyncio.sleep(RECHECK_SECONDS)
            later = set(await self._differences())
            found = [line for line in found if line in later]
        for line in found:
            log.error("Cache differs from the cluster", difference=line)
        self._metrics.cache_mismatches.inc(len(found))
        log.info("Cache was compared with the cluster", differences=len(found))
        return found

    async def _differences(self) -> list[str]:
        nodes = await list_all(self._client, _resource("Node"))
        pods = await list_all(self._client, _resource("Pod"))
        return differences(self.core.state, nodes, pods)


def _resource(kind: str) -> Resource[Any]:
    entry = KINDS[kind]
    return Resource(entry.name, entry.path, entry.type, optional=entry.optional)


async def run(config: Configuration, connect: Callable[[Metrics], Any]) -> int:
    """Run a daemon under the signals of a process: TERM and INT stop it, USR2 checks its cache."""
    metrics = Metrics(__version__)
    client: KubeClient = await connect(metrics)
    try:
        daemon = Daemon(config, client, metrics)
        loop = asyncio.get_running_loop()
        checks: set[asyncio.Task[None]] = set()

        def check() -> None:
            task = loop.create_task(_checked(daemon), name="check cache")
            checks.add(task)
            task.add_done_callback(checks.discard)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stop)
        loop.add_signal_handler(signal.SIGUSR2, check)
        log.info("Starting", version=__version__, pid=os.getpid())
        return await daemon.run()
    finally:
        await client.close()


async def _checked(daemon: Daemon) -> None:
    try:
        await daemon.check_cache()
    except KubeError as fault:
        log.warning("Cache could not be compared with the cluster", error=str(fault))
