"""A client whose lists and watches are scripted, and a recorder of what a reflector reports."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from scheduler.kube.client import JSON, ByteStream, KubeClient
from scheduler.kube.watch import Reflector, WatchedResource
from scheduler.model.objects import Change, Pod
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

from .support import ManualClock

Script = Sequence[bytes | Exception | None]
PODS = WatchedResource("Pod", "/api/v1/pods", Pod)


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    """A pod as the API server would show it."""
    meta = {"namespace": "a", "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def page(*items: object, version: int = 1, token: str = "") -> bytes:
    """One page of a list."""
    meta = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return json.dumps({"metadata": meta, "items": list(items)}).encode()


def line(type_: str, obj: object) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """A bookmark line."""
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class ScriptedStream(ByteStream):
    """Gives its chunks, then ends; None is silence without end, an exception is raised."""

    def __init__(self, chunks: Script) -> None:
        self._chunks = list(chunks)

    async def read(self, within: float) -> bytes:
        await asyncio.sleep(0)
        if not self._chunks:
            return b""
        chunk = self._chunks.pop(0)
        if chunk is None:
            await asyncio.Event().wait()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk or b""


class ScriptedServer(KubeClient):
    """Answers lists and watches in order; when the script is over, watches stay silent.

    None in the place of an answer is a request that is never answered.
    """

    def __init__(
        self,
        lists: Sequence[bytes | Exception | None],
        watches: Sequence[Script | Exception | None],
    ) -> None:
        self.lists = list(lists)
        self.watches = list(watches)
        self.list_params: list[dict[str, str]] = []
        self.watch_params: list[dict[str, str]] = []
        self.idle = asyncio.Event()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 0.0,
        limit: int = 0,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        self.list_params.append(dict(params or {}))
        answer = self.lists.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer or b""

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[ByteStream]:
        self.watch_params.append(dict(params))
        if not self.watches:
            self.idle.set()
        script: Script | Exception | None = self.watches.pop(0) if self.watches else [None]
        if script is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody waits for ever")
        if isinstance(script, Exception):
            raise script
        yield ScriptedStream(script)


class Watched:
    """A reflector of pods under test, with all that it reported."""

    def __init__(self, server: KubeClient, resource: WatchedResource[Pod] = PODS) -> None:
        self.metrics = Metrics()
        self.clock = ManualClock()
        self.batches: list[list[str]] = []
        self.reflector = Reflector(
            server,
            resource,
            self._take,
            self.metrics,
            clock=self.clock,
            rng=lambda: 0.5,
            sleep=self.clock.sleep,
        )

    @property
    def reported(self) -> list[str]:
        """All changes so far, such as ``+x@1``, ``x@1>2`` or ``-x@2``."""
        return [change for batch in self.batches for change in batch]

    @property
    def known(self) -> dict[str, str]:
        """Key and version of all that the store holds."""
        store = self.reflector.store
        return {key: found.metadata.resource_version for key, found in store.items()}

    def restarts(self, reason: str) -> float:
        """How often the watch was restarted for this reason."""
        labels = {"kind": "Pod", "reason": reason}
        name = "equipoise_watch_restarts_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def _take(self, changes: list[Change[Pod]]) -> None:
        self.batches.append([_brief(change) for change in changes])


def _brief(change: Change[Pod]) -> str:
    old = change.old.metadata if change.old else None
    new = change.new.metadata if change.new else None
    if old and new:
        return f"{new.name}@{old.resource_version}>{new.resource_version}"
    if new:
        return f"+{new.name}@{new.resource_version}"
    assert old is not None
    return f"-{old.name}@{old.resource_version}"


@contextmanager
def running(watched: Watched) -> Iterator[asyncio.Task[None]]:
    """The reflector's task, for the time of the block."""

    async def run() -> None:
        await watched.reflector.run()

    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        task.cancel()


async def play(
    lists: Sequence[bytes | Exception],
    watches: Sequence[Script | Exception],
    resource: WatchedResource[Pod] = PODS,
) -> tuple[Watched, ScriptedServer]:
    """Run a reflector through a whole script."""
    server = ScriptedServer(lists, watches)
    watched = Watched(server, resource)
    with running(watched):
        async with asyncio.timeout(PATIENCE):
            await server.idle.wait()
    return watched, server
