"""A scheduler that has placed a few pods and serves, in a thread of its own; and manifests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scheduler import inspection
from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.explaining.queries import ExplainQuery
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, WriteError, never_stale
from scheduler.serve.answers import Replica
from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import HttpNotFound
from scheduler.serve.server import Server
from scheduler.slices import in_slices
from scheduler.views.node_detail import UnknownNode, node_detail
from tests.patience import PATIENCE
from tests.serve.fake_backend import FakeBackend

Json = dict[str, Any]


class _Added(NamedTuple):
    new: Any
    old: None = None


class ObligingOutlet:
    """Binds every pod at once and writes nothing."""

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        return SUCCESS

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        pass

    async def send(self, request: ObjectRequest) -> Any:
        raise WriteError("nothing is written here")

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        pass

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        pass

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        pass

    def nominate(self, pod: PodInfo, node: str) -> None:
        pass


class ServedScheduler:
    """A core, fed with objects once, behind real endpoints on a free port."""

    def __init__(self, objects: Sequence[Json]) -> None:
        self._objects = objects
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stopped = threading.Event()
        self.replica = Replica("here", True, "here")
        self.core: Core

    async def run(self, started: Future[str]) -> None:
        """Serve until stopped; the address is the result of ``started``."""
        self._loop = asyncio.get_running_loop()
        self.core = assemble(from_dicts([], available()), ObligingOutlet(), Metrics())
        nodes = [from_dict(raw, Node) for raw in self._objects if raw["kind"] == "Node"]
        pods = [from_dict(raw, Pod) for raw in self._objects if raw["kind"] == "Pod"]
        self.core.event_handlers.handler("Node")([_Added(node) for node in nodes])
        self.core.event_handlers.handler("Pod")([_Added(pod) for pod in pods])
        by_key = {pod.key: pod for pod in pods}
        while self.core.scheduler.schedule_one() is not None:
            await self.core.bindings.idle()

        async def explain(query: ExplainQuery) -> Any:
            manifest, count = query.manifest, query.count
            try:
                return await inspection.explain(
                    self.core, by_key, query.pod, manifest=manifest, count=count
                )
            except inspection.UnknownPod as unknown:
                raise HttpNotFound(f"unknown pod: {unknown}") from unknown

        async def node(name: str) -> Any:
            try:
                return await in_slices(node_detail, self.core, name)
            except UnknownNode as unknown:
                raise HttpNotFound(str(unknown)) from unknown

        backend = FakeBackend(
            registry=self.core.metrics.registry,
            replica=lambda: self.replica,
            queue=lambda query: in_slices(inspection.queue, self.core, query),
            nodes=lambda limit: in_slices(inspection.nodes, self.core, limit),
            node=node,
            decisions=lambda query: in_slices(inspection.decisions, self.core, query),
            explain=explain,
        )
        async with Server(build_app(backend)) as server:
            started.set_result(server.url)
            await self._stopping.wait()
        self.stopped.set()

    def stop(self) -> None:
        """Ask ``run`` to return; from any thread."""
        assert self._loop is not None
        if not self.stopped.is_set():
            self._loop.call_soon_threadsafe(self._stopping.set)

    def decide(self, pod: str, node: str) -> None:
        """Record one more decision; from any thread, returns when it is visible."""

        async def record() -> None:
            self.core.decisions.record(pod, "scheduled", node=node)

        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(record(), self._loop).result(timeout=PATIENCE)


class Served(NamedTuple):
    """Where it serves, and the scheduler itself."""

    url: str
    scheduler: ServedScheduler


@contextmanager
def serving(objects: Sequence[Json]) -> Iterator[Served]:
    """A scheduler that has attempted all pods among the objects."""
    scheduler = ServedScheduler(objects)
    started: Future[str] = Future()

    def work() -> None:
        try:
            asyncio.run(scheduler.run(started))
        except BaseException as fault:
            if started.done():
                raise
            started.set_exception(fault)

    thread = threading.Thread(target=work, name="served scheduler")
    thread.start()
    try:
        yield Served(started.result(timeout=PATIENCE), scheduler)
        scheduler.stop()
    finally:
        thread.join(timeout=PATIENCE)


def write(path: Path, *objects: Json) -> str:
    """Write manifests to a YAML file; returns its name."""
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def workload(kind: str, name: str, **spec: Any) -> Json:
    """A workload whose pods ask for one CPU."""
    requests = {"requests": {"cpu": 1}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "resources": requests}]},
    }
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": template, **spec},
    }
