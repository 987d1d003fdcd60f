"""Keeps the status of PodGroups true, for as long as this replica leads.

::

    registry: counts of members changed ───┐
                                           ├─► groups to check ──► (a second later) ─► PATCH status
    kopf: a PodGroup's status changed ─────┘    each once             those that differ, one by one

kopf watches PodGroups for what their status says; it adds neither finalizers nor annotations, and
watches no pods. Its operator ends by cancelling every task of its event loop that it does not know,
so it has a loop and a thread of its own. It starts with the first PodGroup: without one there is no
status to keep, and perhaps no such kind. What is written goes through the daemon's own writer,
which stops with the lease.

Nothing that goes wrong here is worth the process: it is logged, and tried again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from types import ModuleType
from typing import Any, Protocol, cast

from scheduler import machine
from scheduler.gangs.gang import Gang
from scheduler.gangs.registry import GangRegistry
from scheduler.gangs.status import FIELDS, status_of
from scheduler.kube.client import MERGE_PATCH
from scheduler.kube.credentials import ApiAccess, open_session
from scheduler.kube.errors import KubeError, NotFound, WritesStopped
from scheduler.kube.writes import ApiWriter
from scheduler.model.objects import KINDS
from scheduler.observe.logs import get_logger

log = get_logger(__name__)

COALESCE_SECONDS = 1.0
"""A gang's members start within moments of each other: one write covers all of them."""
WRITE_SECONDS = 0.05
"""Between two writes: no more than 20 a second, however many groups change."""
STOP_SECONDS = 5.0
RESTART_SECONDS = 30.0

WriteStatus = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Merges a status into the PodGroup of this ``namespace/name``; raises KubeError."""


async def write_status(writer: ApiWriter, key: str, status: Mapping[str, Any]) -> None:
    """Merge a status into a PodGroup, in a slot that bindings leave free; raises KubeError."""
    namespace, name = key.split("/")
    group, _, plural = KINDS["PodGroup"].path.rpartition("/")
    path = f"{group}/namespaces/{namespace}/{plural}/{name}/status"
    await writer.send("PATCH", path, {"status": status}, MERGE_PATCH, patient=True)


Seen = Callable[[str, Mapping[str, Any] | None], None]
"""Told what the status of the PodGroup of this ``namespace/name`` says; None: it is gone."""


class StatusWatch(Protocol):
    """Tells what the status of PodGroups says."""

    async def run(self, seen: Seen) -> str:
        """Tell until cancelled; should it end by itself, returns the fault it ended by."""


class PodGroupOperator:
    """Writes the status of gangs in the registry. Belongs to the event loop of the daemon."""

    def __init__(
        self,
        registry: GangRegistry,
        write: WriteStatus,
        watch: StatusWatch,
        *,
        wall: Callable[[], datetime] = machine.utc_now,
        pause: float = COALESCE_SECONDS,
    ) -> None:
        self._registry = registry
        self._write = write
        self._status_watch = watch
        self._wall = wall
        self._pause = pause
        self._said: dict[str, Mapping[str, Any]] = {}
        """What each PodGroup's status says, or will say once our write is seen."""
        self._changed: dict[str, None] = {}
        self._work = asyncio.Event()
        self._found = asyncio.Event()
        """There are PodGroups."""
        self._failing = False
        registry.listen(self._look_at)

    async def run(self) -> None:
        """Keep statuses true until cancelled; raises nothing but WritesStopped."""
        for gang in self._registry:
            self._look_at(gang)
        watch = asyncio.create_task(self._watch(), name="kopf: podgroups")
        try:
            while True:
                await self._work.wait()
                await asyncio.sleep(self._pause)
                self._work.clear()
                await self._write_all()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def _look_at(self, gang: Gang) -> None:
        if gang.rules is None:
            self._said.pop(gang.key, None)
            return
        self._changed[gang.key] = None
        self._work.set()
        self._found.set()

    def seen(self, key: str, status: Mapping[str, Any] | None) -> None:
        """A PodGroup was seen with this status (None: it is gone)."""
        if status is None:
            self._said.pop(key, None)
            return
        self._said[key] = {field: status[field] for field in FIELDS if field in status}
        if gang := self._registry.get(key):
            self._look_at(gang)

    # Writing

    async def _write_all(self) -> None:
        changed, self._changed = self._changed, {}
        for key in changed:
            try:
                written = await self._bring_up_to_date(key)
                await asyncio.sleep(WRITE_SECONDS if written else 0)
                self._failing = False
            except WritesStopped:
                raise
            except Exception as fault:
                text = str(fault) if isinstance(fault, KubeError) else repr(fault)
                (log.debug if self._failing else log.warning)(
                    "Status of a pod group could not be written", group=key, error=text
                )
                self._failing = True
                self._said.pop(key, None)
                if gang := self._registry.get(key):
                    self._look_at(gang)
                await asyncio.sleep(self._pause)

    async def _bring_up_to_date(self, key: str) -> bool:
        """Write a status if it has changed; returns whether it had."""
        gang = self._registry.get(key)
        if gang is None or gang.rules is None:
            return False
        said = self._said.get(key, {})
        status = status_of(gang, said, self._wall())
        if status == said:
            return False
        self._said[key] = status
        try:
            await self._write(key, status)
        except NotFound:
            log.debug("Pod group is gone, its status is not written", group=key)
        return True

    # Watching

    async def _watch(self) -> None:
        """Watch as soon as there is a PodGroup, and again should that end."""
        while True:
            await self._found.wait()
            fault = await self._status_watch.run(self.seen)
            log.warning("Watch of pod groups' status ended, starting again", error=fault)
            await asyncio.sleep(RESTART_SECONDS)
            if all(gang.rules is None for gang in self._registry):
                self._found.clear()


@contextmanager
def _without_models() -> Iterator[None]:
    """For the import of kopf, which looks for a library whose API classes are not used here.

    They would be 35 MiB for the life of the process (see ``kube/credentials.py``).
    """
    absent = "kubernetes_asyncio" not in sys.modules
    if absent:
        sys.modules["kubernetes_asyncio"] = cast("ModuleType", None)
    try:
        yield
    finally:
        if absent:
            del sys.modules["kubernetes_asyncio"]


class KopfWatch:
    """Watches with kopf, in a thread of its own."""

    def __init__(self, access: Callable[[], Awaitable[ApiAccess]]) -> None:
        self._access = access

    async def run(self, seen: Seen) -> str:
        """Watch until cancelled; should kopf end by itself, returns the fault it ended by."""
        return await _KopfThread(seen, self._access).run()


class _KopfThread:
    """kopf, from its beginning to its end."""

    def __init__(self, seen: Seen, access: Callable[[], Awaitable[ApiAccess]]) -> None:
        self._seen = seen
        self._access = access
        self._home = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._ended = asyncio.Event()
        self._fault = ""
        self._asking: asyncio.Future[ApiAccess] | None = None

    async def run(self) -> str:
        """Watch until cancelled; should kopf end by itself, returns the fault it ended by."""
        # A daemon's thread must not keep the process alive.
        thread = threading.Thread(target=self._run, name="kopf: podgroups", daemon=True)
        thread.start()
        try:
            await self._ended.wait()
        finally:
            self._stop.set()
            await self._end()
            if self._asking is not None:
                self._asking.cancel()
        return self._fault

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            log.warning("kopf did not stop in time, leaving it behind")

    def _run(self) -> None:
        try:
            asyncio.run(self._operate())
        except Exception as fault:
            self._fault = f"{type(fault).__name__}: {fault}"
        finally:
            self._tell(self._ended.set)

    async def _operate(self) -> None:
        with _without_models():
            import kopf

        # It warns of each retry, and of living in a thread; what it cannot do at all are errors.
        logging.getLogger("kopf").setLevel(logging.ERROR)
        registry = kopf.OperatorRegistry()
        settings = kopf.OperatorSettings()
        settings.scanning.disabled = True  # needs rights to watch namespaces and definitions
        settings.posting.enabled = False

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            access = await asyncio.wrap_future(self._asked())
            return kopf.AiohttpSession(server=access.server, aiohttp_session=open_session(access))

        @kopf.on.event("scheduling.x-k8s.io", "v1alpha1", "podgroups", registry=registry)
        async def changed(event: Mapping[str, Any], **_: Any) -> None:
            metadata = event["object"]["metadata"]
            key = f"{metadata['namespace']}/{metadata['name']}"
            gone = event["type"] == "DELETED"
            status = None if gone else dict(event["object"].get("status") or {})
            self._tell(self._seen, key, status)

        await kopf.operator(
            registry=registry,
            settings=settings,
            standalone=True,
            clusterwide=True,
            stop_flag=self._stop,
        )

    def _asked(self) -> Future[ApiAccess]:
        """Ask for access in the daemon's loop; no answer comes if that has ended."""
        answer: Future[ApiAccess] = Future()

        def begin() -> None:
            self._asking = asyncio.ensure_future(self._access())
            self._asking.add_done_callback(partial(_pass_on, answer))

        self._tell(begin)
        return answer

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function in the daemon's loop, unless that has ended."""
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(function, *args)


def _pass_on(answer: Future[ApiAccess], asked: asyncio.Future[ApiAccess]) -> None:
    """Give an answer to another thread."""
    if asked.cancelled():
        answer.cancel()
    elif answer.set_running_or_notify_cancel():
        if fault := asked.exception():
            answer.set_exception(fault)
        else:
            answer.set_result(asked.result())
