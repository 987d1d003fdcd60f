"""The heartbeat thread: renews the lease and serves probes and metrics, however busy scheduling is.

::

    scheduling thread                          heartbeat thread, with an event loop of its own
    ─────────────────                          ──────────────────────────────────────────────
    watches, queue, attempts, writes           lease: acquire, renew, release
      ▲ each write asks the fence ◄────────────  renewed
      │ beats ─────────────────────────────────► watchdog: stalls, their stack, the end
      └─ /api/v1, /debug: asked with a time-out ◄─ HTTP: /livez, /readyz, /metrics answered here

Slow work thereby costs neither the lease nor a probe. Work that does not give the scheduling loop
back for `watchdog.stallSeconds` ends the process: a replica that leads and does not schedule is
worse than none. So does a watchdog that fails.

The two threads share one interpreter, which changes threads every 5 ms between two steps of Python
code. A single call into C that does not release the interpreter stops both; `faulthandler` then
ends the process, with the stacks of all threads.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from scheduler.kube.client import KubeClient
from scheduler.kube.fencing import Fence
from scheduler.kube.lease import LeaderElector
from scheduler.observe.logs import get_logger
from scheduler.observe.watchdog import Watchdog
from scheduler.process import Process, SideLoop, Work
from scheduler.serve.guards import Unavailable
from scheduler.serve.server import Server

log = get_logger(__name__)

LAST_RESORT_SECONDS = 30.0
"""How much longer than a stall the whole interpreter may make no progress."""
MAX_BOUND_SECONDS = 86_400.0

R = TypeVar("R")


async def ask(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[R]], seconds: float
) -> R:
    """The answer of a coroutine that runs in another loop; Unavailable if that takes too long."""

    async def answer() -> R:
        return await work()

    asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer(), loop))
    try:
        async with asyncio.timeout(seconds):
            return await asked
    except TimeoutError:
        raise Unavailable(f"the scheduling loop is busy: no answer within {seconds:g} s") from None


class Heartbeat:
    """Lease, endpoints and watchdog of one replica. Its methods belong to the scheduling loop.

    `elector` and `server` are made in the thread, as they belong to its event loop; `client` is the
    heartbeat's own. The process is ended when its scheduling loop is stuck, and if it says so also
    when the interpreter itself makes no progress.
    """

    def __init__(
        self,
        client: KubeClient,
        watchdog: Watchdog,
        fence: Fence,
        process: Process,
        *,
        make_elector: Callable[[KubeClient], LeaderElector | None],
        make_server: Callable[[KubeClient], Awaitable[Server | None]],
    ) -> None:
        self.server: Server | None = None
        self.elector: LeaderElector | None = None
        self._scheduling_client = client
        self._client: KubeClient | None = None
        self._watchdog = watchdog
        self._fence = fence
        self._make_elector = make_elector
        self._make_server = make_server
        self._process = process
        self._thread: SideLoop | None = None
        self._watching: asyncio.Task[None] | None = None
        self._election: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the thread and listen; raises OSError if the address cannot be had."""
        self._thread = self._process.side_loop("heartbeat")
        try:
            await self._call(self._open())
        except BaseException:
            await self.stop(release=False)
            raise

    async def campaign(self) -> None:
        """Stand by for the lease; returns when this replica leads."""
        await self._call(self._campaign())

    async def until_lost(self) -> None:
        """Return when the lease is lost."""
        await self._call(self._until_lost())

    async def stop(self, *, release: bool) -> None:
        """End everything; the lease is released, or else left to expire."""
        await self._call(self._close(release))
        assert self._thread is not None, "it has started"
        await self._thread.stop()

    async def _call(self, work: Work[R]) -> R:
        assert self._thread is not None, "it has started"
        return await self._thread.call(work)

    # In the thread

    async def _open(self) -> None:
        self._client = self._scheduling_client.twin()
        self.elector = self._make_elector(self._client)
        self._watching = asyncio.create_task(self._watch(), name="watchdog")
        server = await self._make_server(self._client)
        if server is not None:
            await server.start()
            self.server = server

    async def _campaign(self) -> None:
        assert self.elector is not None, "only with leader election"
        self._election = asyncio.create_task(self.elector.run(), name="leader election")
        leading = asyncio.create_task(self.elector.leading.wait())
        try:
            await asyncio.wait((leading, self._election), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leading.cancel()

    async def _until_lost(self) -> None:
        assert self._election is not None, "it has begun"
        await asyncio.shield(self._election)

    async def _close(self, release: bool) -> None:
        if self._election is not None:
            assert self.elector is not None, "it is elected"
            self.elector.release_when_cancelled = release
            self._election.cancel()
            await asyncio.wait((self._election,))
        if self.server is not None:
            await self.server.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
            if self._process.last_resort:
                faulthandler.cancel_dump_traceback_later()
        if self._client is not None:
            await self._client.close()

    async def _watch(self) -> None:
        try:
            while not self._watchdog.stuck:
                if self._process.last_resort:
                    seconds = min(self._watchdog.bound, MAX_BOUND_SECONDS) + LAST_RESORT_SECONDS
                    faulthandler.dump_traceback_later(seconds, exit=True)
                await asyncio.sleep(self._process.look_seconds)
                self._watchdog.look()
        except Exception as fault:
            # Without a watchdog, a stuck scheduling loop would keep the lease for ever.
            log.error("Watchdog failed", exc=fault)
        # The other thread is in the middle of something and may never return, so nothing can
        # be ended in order. The lease is left to expire: bindings may be under way.
        self._fence.close()
        log.error("Ending the process, the lease will expire", stall_seconds=self._watchdog.bound)
        sys.stderr.flush()
        self._process.exit(1)
