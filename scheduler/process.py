"""The process around a daemon: threads, the collector, memory, and the end.

The daemon gets it handed in. A simulation has many daemons in one process, none of which may
start a thread, tune the collector or end it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, Protocol, TypeVar

from scheduler.kube.client import KubeClient
from scheduler.kube.process_deadline import ProcessDeadline, process_deadline
from scheduler.observe.allocator import IdleMemory
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import freeze_after_sync, freeze_while_syncing
from scheduler.observe.watchdog import LOOK_SECONDS
from scheduler.operators.podgroups import KopfWatch, StatusWatch

JOIN_SECONDS = 10.0

R = TypeVar("R")
Work = Coroutine[Any, Any, R]


class SideLoop(Protocol):
    """An event loop beside the scheduling one, for work that must not wait for scheduling."""

    async def call(self, work: Work[R]) -> R:
        """Run a coroutine there; to be awaited in the scheduling loop."""

    async def stop(self) -> None:
        """End the loop; what still runs in it is dropped."""


class Process(Protocol):
    """What a daemon does to the process it runs in."""

    name: str
    """Of the pod, or else of the machine."""
    last_resort: bool
    """Whether the process ends when the interpreter itself makes no progress."""

    look_seconds: float
    """How often lag is measured, and whether the scheduling loop makes progress."""

    def side_loop(self, name: str) -> SideLoop:
        """Begin a loop beside this one."""

    def exit(self, code: int) -> NoReturn:
        """End at once, whatever is under way."""

    def deadline(self) -> ProcessDeadline | None:
        """What ends it when it was suspended for too long to write any more, if it can have one."""

    async def fill(self, sync: Work[None]) -> None:
        """Wait for the first sync, and make the collector leave alone what it has brought."""

    async def return_memory(self, metrics: Metrics) -> None:
        """Give memory back that is free for long, until cancelled."""

    def status_watch(self, client: KubeClient) -> StatusWatch:
        """Who tells what the status of PodGroups says."""


class LoopThread:
    """A thread that runs an event loop until `stop`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        # It must not keep a process alive whose main thread has ended.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Work[R]) -> R:
        """Run a coroutine in the thread; to be awaited in any other event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def stop(self) -> None:
        """End the thread; what still runs in it is dropped."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.get_loop().run_forever()


class ThisProcess:
    """The process that runs this code; with `last_resort` the daemon is all it is for."""

    look_seconds = LOOK_SECONDS

    def __init__(self, *, last_resort: bool = False) -> None:
        # As kube-scheduler's; a pod may have the name of its node for a host name.
        self.name = os.environ.get("POD_NAME") or socket.gethostname()
        self.last_resort = last_resort

    def side_loop(self, name: str) -> SideLoop:
        """A thread with an event loop."""
        return LoopThread(name)

    def exit(self, code: int) -> NoReturn:
        """End without clean-up: the other thread may never return."""
        os._exit(code)

    def deadline(self) -> ProcessDeadline | None:
        """A timer of the kernel, for a process whose end is the daemon's to decide."""
        return process_deadline() if self.last_resort else None

    async def fill(self, sync: Work[None]) -> None:
        """Wait for the first sync, and freeze what it brings."""
        await freeze_while_syncing(sync)
        freeze_after_sync()

    async def return_memory(self, metrics: Metrics) -> None:
        """Give memory back that is free for long, until cancelled."""
        await IdleMemory(metrics.memory_returned, tables=metrics.tables).run()

    def status_watch(self, client: KubeClient) -> StatusWatch:
        """kopf, in a thread of its own."""
        return KopfWatch(client.access)
