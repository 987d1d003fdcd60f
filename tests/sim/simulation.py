"""One simulated cluster: an API server, replicas, a network and a history, all from one seed."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime
from itertools import chain
from typing import Any, TypeVar
from unittest.mock import patch

from aiohttp import connector

from sandbox.apiserver import ApiServer
from sandbox.registry import Registry as ClusterContent
from scheduler import machine
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from tests.sim.history import History
from tests.sim.hosts import HOST, Host, SimulatedMachine
from tests.sim.loop import VirtualLoop
from tests.sim.network import Network
from tests.sim.replica import Replica

API_SERVER = "apiserver"
PORT = 6443

R = TypeVar("R")


class Simulation:
    """Everything of one seed. `run` it once."""

    seeds_per_collection = 1
    """After how many simulations of the process garbage is collected."""
    uncollected = 0

    def __init__(self, seed: int, *, shuffle: bool = True, max_callbacks: int = 50_000_000) -> None:
        self.seed = seed
        self.rng = self.fork("simulation")
        self.loop = VirtualLoop(self.fork("order"), shuffle=shuffle, max_callbacks=max_callbacks)
        self.network = Network(self.loop, self.fork("network"))
        self.loop.network = self.network
        self.history = History(lambda: self.loop.now)
        self.replicas: dict[str, Replica] = {}
        self.faults: list[tuple[str, BaseException]] = []
        """What nothing caught, by host: each is a bug."""
        self.url = f"http://{API_SERVER}:{PORT}"
        self._generations: dict[str, int] = {}
        self._hosts: list[Host] = []
        self._outside = Host("outside", self.loop, self.fork("outside"))
        self._closed = False
        self._server_host: Host | None = None
        self._server: ApiServer | None = None
        self._beginning: asyncio.Task[None] | None = None

    def fork(self, name: str) -> random.Random:
        """Lots that depend on the seed and this name only."""
        return random.Random(f"{self.seed}/{name}")

    @property
    def now(self) -> float:
        """True time, in seconds since the beginning."""
        return self.loop.now

    @property
    def server(self) -> ApiServer:
        """The API server, whether it runs or not."""
        assert self._server is not None, "it has been started"
        return self._server

    @property
    def registry(self) -> ClusterContent:
        """The content of the cluster, past all faults."""
        return self.server.registry

    # Parts

    def host(self, name: str) -> Host:
        """A new process on the machine of this name."""
        number = self._generations[name] = self._generations.get(name, 0) + 1
        host = Host(name, self.loop, self.fork(f"{name}/{number}"))
        self._hosts.append(host)
        return host

    def replica(
        self,
        name: str,
        config: Configuration,
        *,
        registry: Registry | None = None,
        supervised: bool = False,
    ) -> Replica:
        """Add a replica, which is not started yet. Supervised, it is restarted after its end."""
        replica = Replica(self, name, config, registry=registry, supervised=supervised)
        self.replicas[name] = replica
        return replica

    async def start(self, **options: Any) -> None:
        """Make the API server and start it; `options` are those of `ApiServer`."""
        self._server = ApiServer(clock=self._utc_now, rng=self.fork("api server"), **options)
        self._server.audit = self._server.registry.store.journal = self.history
        await self.start_server()

    async def start_server(self) -> None:
        """Start the API server, with the content it had."""
        self.history.note(API_SERVER, "starts")
        self._server_host = self.host(API_SERVER)
        await self._server_host.task(self.server.start(API_SERVER, PORT))

    async def stop_server(self) -> None:
        """Stop the API server in order: it ends its watches and lets requests end."""
        self.history.note(API_SERVER, "stops")
        assert self._server_host is not None, "it has been started"
        await self._server_host.task(self.server.stop())
        self._forsake_server()

    def kill_server(self) -> None:
        """End the API server at once; what has been written stays."""
        self.history.note(API_SERVER, "killed")
        self._forsake_server()

    @property
    def serving(self) -> bool:
        """Whether the API server runs."""
        return self._server_host is not None and self._server_host.state != "dead"

    def start_server_soon(self) -> None:
        """Start the API server again, without waiting for it."""
        if not self.serving:
            self._beginning = self.loop.create_task(self.start_server())

    def _forsake_server(self) -> None:
        assert self._server_host is not None, "it has been started"
        self._server_host.state = "dead"
        self._server_host.parked.clear()
        self.bury(self._server_host, silently=False)

    def bury(self, host: Host, *, silently: bool) -> None:
        """A process has ended: nobody hears from it any more."""
        self.network.forsake(host, silently=silently)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after so many seconds of true time."""
        context = Context()
        self.loop.call_at_true(self.now + seconds, action, context=context)

    def fault(self, host: str, fault: BaseException) -> None:
        """Note an exception that nothing caught."""
        if self._closed:
            return  # its clean-up was cut short
        self.history.note(host, f"fault: {type(fault).__name__}: {fault}")
        self.faults.append((host, fault))

    # Running

    def run(self, main: Coroutine[Any, Any, R]) -> R:
        """Run to the end, and leave nothing behind."""
        simulated = machine.use(SimulatedMachine(self._outside))
        # The client of webhooks closes idle connections by a clock that it reads itself.
        library = patch.object(connector, "monotonic", machine.monotonic)
        with simulated, library, _quiet_collector(), self._logs():
            self.loop.set_exception_handler(self._on_exception)
            try:
                return self.loop.run_until_complete(main)
            finally:
                self._close()

    def _close(self) -> None:
        """Drop all tasks. What they do then is nobody's business any more."""
        self._closed = True
        self.history.end()
        for host in self._hosts:
            host.state = "dead"
        with warnings.catch_warnings(), _nothing_unraisable():
            warnings.simplefilter("ignore")
            self.loop.abandon()
            # In the loop: clean-up that asks for the running one must not get another.
            self.loop.run_until_complete(self._drop_tasks())
            for host in self._hosts:
                host.release()
            self.loop.homeless.clear()
            for replica in self.replicas.values():
                replica.forget()
            self.network.drop()
            self.loop.close()
            Simulation.uncollected += 1
            if Simulation.uncollected >= Simulation.seeds_per_collection:
                Simulation.uncollected = 0
                gc.collect()

    async def _drop_tasks(self) -> None:
        kept = chain(self.loop.homeless, *(host.unfinished() for host in self._hosts))
        mine = asyncio.current_task()
        for task in [each for each in kept if not each.done() and each is not mine]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # on purpose
            coroutine: Any = task.get_coro()
            with suppress(BaseException):  # whatever its clean-up raises
                coroutine.close()

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        host = HOST.get()
        fault = context.get("exception") or RuntimeError(context["message"])
        self.fault(host.name if host is not None else "", fault)

    def _utc_now(self) -> datetime:
        return datetime.fromtimestamp(self._outside.wall(), UTC)

    @contextmanager
    def _logs(self) -> Iterator[None]:
        """Lines of the replicas' logs become notes."""
        handler = _Notes(self.history)
        logger = logging.getLogger("scheduler")
        propagates, logger.propagate = logger.propagate, False
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagates
            logger.setLevel(level)


class _Notes(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__(logging.INFO)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        host = HOST.get()
        given = getattr(record, "fields", {}).items()
        fields = " ".join(f"{k}={v}" for k, v in given if k != "stack")  # of whoever runs this
        text = f"[{record.levelname.lower()}] {record.getMessage()} {fields}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" {record.exc_info[1]!r}"
        self._history.note(host.name if host is not None else "", text)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """No collection decides when a generator ends: there is one at the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _nothing_unraisable() -> Iterator[None]:
    before, sys.unraisablehook = sys.unraisablehook, lambda fault: None
    try:
        yield
    finally:
        sys.unraisablehook = before
