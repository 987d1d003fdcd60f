"""The daemon: starts, follows the cluster, leads when it may, and stops in order.

::

    connect ─► watch ─► synced ─► stand by ─► lead: schedule, bind, report
                                  (caches        │
                                  stay warm)     ├─ asked to stop: finish bindings, send the last
                                                 │  events, release the lease, exit 0
                                                 └─ leadership lost: all writes stop at once, exit 1

Two threads: everything here runs in the scheduling thread, but for the lease and the endpoints,
which have one of their own (`heartbeat`). The lease is released only when the outcome of every
binding is known; else it is left to expire, so that the next leader sees the outcome.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scheduler import __version__, machine
from scheduler.assembly import Core, assemble
from scheduler.backend import DaemonBackend
from scheduler.bounded import Usage
from scheduler.cache_check import CacheCheck
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.gangs.registry import find_registry
from scheduler.heartbeat import Heartbeat
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import WritesStopped
from scheduler.kube.events import EventRecorder
from scheduler.kube.fencing import Fence
from scheduler.kube.lease import LeaderElector
from scheduler.kube.reviews import Reviews
from scheduler.kube.watch import IDLE_SECONDS, STALE_SECONDS, Reflector, WatchedResource
from scheduler.kube.writes import ApiWriter
from scheduler.model.objects import KINDS
from scheduler.model.pods import Pod
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import EventLoopLag, GcPauses, freeze_imports, interpreter
from scheduler.observe.samples import Samples
from scheduler.observe.watchdog import Watchdog
from scheduler.operators.podgroups import PodGroupOperator, write_status
from scheduler.pipeline.confirmation import OVERDUE, BindingConfirmer
from scheduler.process import Process, ThisProcess
from scheduler.recording.segments import Bounds
from scheduler.recording.tape import Tape
from scheduler.reporting import ClusterOutlet
from scheduler.serve.answers import Replica
from scheduler.serve.health import PING, Check
from scheduler.serve.server import Server, open_server

log = get_logger(__name__)

EXIT_OK = 0
EXIT_LEADERSHIP_LOST = 1

ALLOCATING_KINDS = ("Pod", "ResourceClaim")
"""The kinds that say what is allocated: room on nodes, and devices."""
STOP_SECONDS = 5.0
"""How long a stop waits for what may be dropped: pods that wait at Permit, events."""


class LeadershipLost(Exception):
    """Another replica may be writing: this process has to end."""


class Daemon:
    """One replica. ``run`` returns the exit code of the process.

    `listening` is a socket that listens already, to serve on in place of the configured port.
    """

    def __init__(
        self,
        config: Configuration,
        client: KubeClient,
        metrics: Metrics,
        *,
        registry: Registry | None = None,
        watch_idle_seconds: float = IDLE_SECONDS,
        process: Process | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        self._config = config
        self._serving_socket = listening
        self._client = client
        self._metrics = metrics
        self._process = process or ThisProcess()
        self._identity = f"{self._process.name}_{machine.uuid4()}"
        self._writer = ApiWriter(
            client,
            concurrency=config.equipoise.binding.concurrency,
            timeout=config.equipoise.binding.timeout_seconds,
        )
        self._outlet = ClusterOutlet(self._writer, self._recorders())
        self._tape = self._make_tape()
        self.core: Core = assemble(
            config, self._outlet, metrics, registry=registry, journal=self._tape
        )
        self.core.memories.adopt(self._outlet)
        self._confirmer = BindingConfirmer(
            self.core.state,
            self.core.queue,
            self.core.event_handlers,
            self.core.unconfirmed,
            self.core.bindings.open,
            self._outlet,
            self._outlet,
            metrics,
        )
        self.cache_check = CacheCheck(self.core, client, metrics)
        self._watch_idle_seconds = watch_idle_seconds
        self._reflectors: dict[str, Reflector[Any]] = {
            kind: self._reflector(kind) for kind in self.core.kinds()
        }
        election = config.scheduler.leader_election
        self._fence = Fence(
            election.renew_deadline,
            self._lose,
            deadline=self._process.deadline() if election.leader_elect else None,
            # The other half is for what is under way when the process ends.
            grace=(election.lease_duration - election.renew_deadline) / 2,
        )
        if election.leader_elect:
            client.fence = self._fence
        self._watchdog = Watchdog(metrics, config.equipoise.watchdog.stall_seconds)
        self._heartbeat = Heartbeat(
            client,
            self._watchdog,
            self._fence,
            self._process,
            make_elector=self._make_elector,
            make_server=self._make_server,
        )
        metrics.caches.follow("watches", self._watched)
        metrics.tables.follow(*self._outlet.tables())
        metrics.tables.follow(*(each.store for each in self._reflectors.values()))
        self._home = asyncio.get_running_loop()
        metrics.interpreter.follow(partial(interpreter, self._home))
        self._stopping = asyncio.Event()
        self._leading = asyncio.Event()
        self._samples = Samples(self.core.decisions, self.core.queue.view.counts)
        metrics.caches.follow("samples", lambda: {"samples": self._samples.usage()})
        interval = self._process.look_seconds
        self._lag = EventLoopLag(metrics.loop_lag, interval=interval, on_tick=self._tick)
        self._pauses = GcPauses(metrics.gc_pause)
        self._lost = asyncio.Event()
        self._backend = DaemonBackend(
            self.core,
            self.pods(),
            self._samples,
            self._lag,
            self._replica,
            self._live(),
            self._ready(),
        )

    # Life cycle

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

    @property
    def server(self) -> Server | None:
        """What serves the endpoints, once it listens; None if nothing does."""
        return self._heartbeat.server

    @property
    def leading(self) -> bool:
        """Whether it schedules, and has not lost the lease."""
        return self._leading.is_set() and not self._lost.is_set()

    def _watched(self) -> dict[str, Usage]:
        """How many objects are watched, and how long their JSON is."""
        return {
            f"watched_{kind}": Usage(len(reflector.store), reflector.json_bytes)
            for kind, reflector in self._reflectors.items()
        }

    def pods(self) -> Mapping[str, Pod]:
        """All pods of the cluster as last seen, by ``namespace/name``."""
        return self._reflectors["Pod"].store

    async def _serve_and_work(self) -> None:
        self._pauses.start()
        await self._heartbeat.start()
        if self._tape is not None:
            self._tape.start()
        outcomes_known: bool | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._lag.run(), name="event loop lag"),
                    tasks.create_task(self._samples.run(), name="samples"),
                    tasks.create_task(
                        self._process.return_memory(self._metrics), name="idle memory"
                    ),
                    *self._recording(tasks),
                    *(
                        tasks.create_task(reflector.run(), name=f"watch {kind}")
                        for kind, reflector in self._reflectors.items()
                    ),
                    tasks.create_task(self._check_regularly(), name="check cache regularly"),
                    tasks.create_task(self._lead(), name="lead"),
                ]
                await self._stopping.wait()
                outcomes_known = await self._wind_down()
                for task in reversed(background):
                    task.cancel()
        finally:
            if outcomes_known is None:  # a fault of our own
                outcomes_known = not self.core.bindings.writing
            self._writer.stop()
            self._fence.retire()
            await self._stop_work()
            self._pauses.stop()
            await self._heartbeat.stop(release=outcomes_known)
            if self._tape is not None:
                await asyncio.to_thread(self._tape.close)

    def _tick(self) -> None:
        self._watchdog.beat()
        self._pauses.flush()
        if self.core.equivalence is not None:
            self.core.equivalence.forget_idle()

    async def _lead(self) -> None:
        """Schedule for as long as this replica leads."""
        await self._process.fill(self.until_synced())
        log.info("Caches are filled", nodes=self.core.state.node_count)
        async with asyncio.TaskGroup() as tasks:
            if (elector := self._heartbeat.elector) is not None:
                await self._heartbeat.campaign()
                tasks.create_task(self._until_lost(), name="leader election")
                tasks.create_task(self._until_refused(), name="fence")
                if elector.took_over:
                    await self._relist_after_takeover()
            self._leading.set()
            log.info("Scheduling", identity=self._identity, profiles=list(self.core.frameworks))
            tasks.create_task(self._outlet.run(), name="reports")
            tasks.create_task(self._confirmer.run(), name="unconfirmed bindings")
            if operator := self._operator():
                tasks.create_task(operator.run(), name="pod groups' status")
            tasks.create_task(self.core.scheduler.run(), name="scheduling loop")

    async def _relist_after_takeover(self) -> None:
        """List again what the previous leader may have written, as watches may lag behind.

        On new connections: a list waits for a minute on one that has fallen silent.
        """
        log.info("Listing pods and claims that the previous leader may have written")
        self._client.drop_idle_connections()
        reflectors = [
            self._reflectors[kind] for kind in ALLOCATING_KINDS if kind in self._reflectors
        ]
        await asyncio.gather(*(reflector.refresh() for reflector in reflectors))

    async def _until_lost(self) -> None:
        await self._heartbeat.until_lost()
        raise LeadershipLost

    async def _until_refused(self) -> None:
        await self._lost.wait()
        raise LeadershipLost

    def _lose(self) -> None:
        """Write nothing from this instant: another replica may lead already."""
        if not self._lost.is_set():
            self._lost.set()
            self._writer.stop()
            self._fence.retire()
            self.core.cancel()

    async def _wind_down(self) -> bool:
        """Let bindings and evictions under way end, within reason, and send the last events.

        Returns whether the outcome of every binding is known.
        """
        if not self._leading.is_set():
            return True
        bindings = self.core.bindings
        log.info("Stopping", bindings=len(bindings))
        self.core.scheduler.stop()
        began = self._home.time()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await bindings.idle()
                await self.core.background.idle()
        except TimeoutError:
            log.warning("Bindings are still in progress", bindings=len(bindings))
        try:
            async with asyncio.timeout_at(began + self._config.equipoise.binding.stop_seconds):
                await bindings.settled()
        except TimeoutError:
            log.warning(
                "Bindings of unknown outcome: the lease is left to expire",
                bindings=bindings.writing,
            )
        outcomes_known = not bindings.writing
        await self._stop_work()
        await self._outlet.flush(STOP_SECONDS / 5)
        return outcomes_known

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

    def _make_tape(self) -> Tape | None:
        """The recording, if that is configured."""
        settings = self._config.equipoise.recording
        if not settings.directory:
            return None
        bounds = Bounds(settings.max_bytes, settings.segment_bytes, settings.max_age)
        directory = Path(settings.directory)
        return Tape(directory, bounds, self._config.for_others(), self._metrics)

    def _recording(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[Any]]:
        if self._tape is None:
            return []
        return [tasks.create_task(self._tape.run(), name="recording")]

    def _operator(self) -> PodGroupOperator | None:
        """The operator that writes the status of PodGroups, if some profile has gangs."""
        registry = find_registry(self.core.state)
        if registry is None:
            return None
        watch = self._process.status_watch(self._client)
        return PodGroupOperator(registry, partial(write_status, self._writer), watch)

    def _reflector(self, kind: str) -> Reflector[Any]:
        handler = self.core.event_handlers.handler(kind)
        originals = self.core.remotes.originals
        return Reflector(
            self._client,
            _resource(kind),
            handler,
            self._metrics,
            idle_timeout=self._watch_idle_seconds,
            keep=originals.keeper(kind) if originals is not None else None,
        )

    # Made and used in the heartbeat's thread

    def _make_elector(self, client: KubeClient) -> LeaderElector | None:
        election = self._config.scheduler.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            client,
            self._metrics,
            namespace=election.resource_namespace,
            name=election.resource_name,
            identity=self._identity,
            on_lost=self._on_lease_lost,
            fence=self._fence,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    def _on_lease_lost(self) -> None:
        # The fence is closed: nothing is written however long this takes to arrive.
        self._home.call_soon_threadsafe(self._lose)

    async def _make_server(self, client: KubeClient) -> Server | None:
        settings = self._config.equipoise.server
        if not settings.port:
            return None
        dropped = self._metrics.serving_dropped
        return await open_server(
            self._backend, settings, Reviews(client), dropped, self._serving_socket
        )

    # Health

    def _live(self) -> list[Check]:
        return [
            PING,
            Check("event-loop", self._stuck),
            Check("leaderElection", self._late),
        ]

    def _ready(self) -> list[Check]:
        return [
            PING,
            Check("informer-sync", self._unsynced),
            Check("assumed-pods", self._unconfirmed),
            Check("watch-freshness", self._stale),
            Check("shutdown", self._shutdown),
        ]

    def _stuck(self) -> str | None:
        if not self._watchdog.stuck:
            return None
        return f"no progress for {self._watchdog.stalled:.1f} s"

    def _late(self) -> str | None:
        elector = self._heartbeat.elector
        overdue = elector.overdue() if elector is not None else 0.0
        return f"the lease was not renewed in time, by {overdue:.1f} s" if overdue else None

    def _unsynced(self) -> str | None:
        missing = [kind for kind, r in self._reflectors.items() if not r.synced.is_set()]
        return f"not yet listed: {', '.join(missing)}" if missing else None

    def _unconfirmed(self) -> str | None:
        oldest = self._confirmer.oldest
        if oldest <= OVERDUE * self._config.equipoise.binding.confirm_seconds:
            return None
        return f"a pod has been assumed for {oldest:.0f} s after its binding"

    def _stale(self) -> str | None:
        ages = {kind: reflector.age() for kind, reflector in self._reflectors.items()}
        stale = [f"{kind} for {age:.0f} s" for kind, age in ages.items() if age > STALE_SECONDS]
        return f"nothing heard of {', '.join(stale)}" if stale else None

    def _shutdown(self) -> str | None:
        return "stopping" if self._stopping.is_set() else None

    def _replica(self) -> Replica:
        elector = self._heartbeat.elector
        if elector is None:
            return Replica(self._identity, self.leading, self._identity if self.leading else "")
        return Replica(self._identity, self.leading, elector.holder)

    async def _check_regularly(self) -> None:
        await self.until_synced()
        if interval := self._config.equipoise.cache_check.interval_seconds:
            await self.cache_check.run(interval)


def _resource(kind: str) -> WatchedResource[Any]:
    entry = KINDS[kind]
    return WatchedResource(entry.name, entry.path, entry.type, optional=entry.optional)


async def run(config: Configuration, connect: Callable[[Metrics], Any]) -> int:
    """Run a daemon under the signals of a process: TERM and INT stop it, USR2 checks its cache."""
    freeze_imports()
    metrics = Metrics(__version__)
    client: KubeClient = await connect(metrics)
    try:
        daemon = Daemon(config, client, metrics, process=ThisProcess(last_resort=True))
        loop = asyncio.get_running_loop()
        checks: set[asyncio.Task[None]] = set()

        def check() -> None:
            task = loop.create_task(daemon.cache_check.check_safely(), name="check cache")
            checks.add(task)
            task.add_done_callback(checks.discard)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stop)
        loop.add_signal_handler(signal.SIGUSR2, check)
        log.info("Starting", version=__version__, pid=os.getpid())
        return await daemon.run()
    finally:
        await client.close()
