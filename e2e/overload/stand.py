"""The embedded API server with any content, the program on it, and what can be measured of both.

The server's content is written in this process, without requests: a hundred thousand pods take
seconds. It answers a thousand requests in a second or so; that bounds how fast pods are bound.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.cluster.machine import Usage
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json
from e2e.harness.processes import Process
from e2e.harness.scheduler import SchedulerProcess
from sandbox.apiserver import ApiServer

_BINDING = re.compile(r"/namespaces/default/pods/([^/]+)/binding$")
_LAG = "equipoise_event_loop_lag_seconds_bucket"
SLICE = 25
"""Objects that are written before others have a turn."""


class Bindings:
    """When each pod was asked to be bound, and when that was answered; told by the server."""

    def __init__(self) -> None:
        self.asked: dict[str, list[float]] = {}
        self.bound: dict[str, float] = {}

    def arrived(self, method: str, path: str) -> str:
        """A request is here."""
        found = _BINDING.search(path)
        if found is None or method != "POST":
            return ""
        self.asked.setdefault(found[1], []).append(time.monotonic())
        return found[1]

    def answered(self, request: object, status: int) -> None:
        """It was answered."""
        if request and status == 201:
            self.bound[str(request)] = time.monotonic()


class Stand:
    """A cluster and the program that schedules it."""

    def __init__(self, server: ApiServer, bindings: Bindings) -> None:
        self.server = server
        self.bindings = bindings
        self.created: dict[str, float] = {}
        self._program: SchedulerProcess | None = None
        self._probes = Path()
        self._lag: dict[float, float] = {}

    @property
    def program(self) -> SchedulerProcess:
        """The running program."""
        assert self._program is not None, "it has not been started"
        return self._program

    # Content

    async def add(self, plural: str, objects: Iterable[Json]) -> None:
        """Write objects, and let the server answer in between."""
        registry = self.server.registry
        resource = registry.builtin(plural)
        namespace = "" if plural == "nodes" else "default"
        for number, each in enumerate(objects):
            self.created[each["metadata"]["name"]] = time.monotonic()
            registry.create(resource, namespace, each)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    async def remove_pods(self, names: Iterable[str]) -> None:
        """Delete pods."""
        registry = self.server.registry
        resource = registry.builtin("pods")
        for number, name in enumerate(names):
            registry.delete(resource, ("default", name), {"gracePeriodSeconds": 0})
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def judged(self, names: Iterable[str]) -> bool:
        """Whether all these pods have a condition."""
        registry = self.server.registry
        table = registry.table(registry.builtin("pods")).current
        return all(
            table["default", name].body.get("status", {}).get("conditions") for name in names
        )

    async def until_judged(self, names: Sequence[str], seconds: float) -> None:
        """Wait until all these pods have a condition."""
        async with asyncio.timeout(seconds):
            while not self.judged(names):  # noqa: ASYNC110  the store has no event for it
                await asyncio.sleep(0.2)

    async def until_bound(self, names: Sequence[str], seconds: float) -> float:
        """Wait until all these pods have nodes; how long that took after the last was created."""
        async with asyncio.timeout(seconds):
            while not self.bindings.bound.keys() >= set(names):  # noqa: ASYNC110  as above
                await asyncio.sleep(0.05)
        return max(map(self.bindings.bound.__getitem__, names)) - max(
            map(self.created.__getitem__, names)
        )

    def waits(self, names: Iterable[str]) -> list[float]:
        """How long each pod took from its creation to its binding, sorted."""
        return sorted(self.bindings.bound[name] - self.created[name] for name in names)

    # Measurements

    async def begin(self, directory: Path) -> None:
        """Start the program and the prober; returns when the program has read all."""
        config = directory / "kubeconfig"
        config.write_text(yaml.safe_dump(self.server.kubeconfig()))
        program = SchedulerProcess(config, directory / "run.log", *NO_ELECTION)
        await asyncio.to_thread(program.__enter__)
        self._program = program
        self._probes = directory / "probes.log"
        command = [sys.executable, "-m", "e2e.adversity.prober", program.url]
        self._prober = Process(command, self._probes)
        self._lag = await asyncio.to_thread(self._lags)

    async def end(self) -> None:
        """Stop both."""
        if self._program is not None:
            await asyncio.to_thread(self._prober.stop)
            await asyncio.to_thread(self._program.__exit__, None, None, None)

    async def lag_p99(self) -> float:
        """How late the loop was since `begin`, in seconds: the 99th percentile, interpolated."""
        now = await asyncio.to_thread(self._lags)
        counts = {bound: count - self._lag.get(bound, 0.0) for bound, count in now.items()}
        return quantile(0.99, counts)

    def livez(self) -> tuple[float, float]:
        """The 99th percentile and the slowest of all answers to probes; infinite if one failed."""
        lines = self._probes.read_text().rpartition("\n")[0].splitlines()
        answers = [json.loads(line) for line in lines]
        if not answers or not all(each["alive"] for each in answers):
            return math.inf, math.inf
        seconds = sorted(each["seconds"] for each in answers)
        return seconds[math.ceil(0.99 * len(seconds)) - 1], seconds[-1]

    @property
    def rss_mib(self) -> float:
        """What the program occupies."""
        status = (Path("/proc") / str(self.program.process.pid) / "status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def peak_mib(self) -> float:
        """The most that it has occupied."""
        return Usage.of(self.program.process.pid).peak_mib

    def _lags(self) -> dict[float, float]:
        with urllib.request.urlopen(f"{self.program.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {
            float(each.labels["le"]): each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
            if each.name == _LAG
        }


def quantile(share: float, counts: dict[float, float]) -> float:
    """As Prometheus' histogram_quantile: linear within a bucket; 0 without observations."""
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0.0
    below, before = 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= share * total > 0:
            if math.isinf(bound):
                return before
            within = counts[bound] - below
            return before + (bound - before) * ((share * total - below) / within if within else 0)
        below, before = counts[bound], bound
    return 0.0


@asynccontextmanager
async def stand() -> AsyncIterator[Stand]:
    """An empty cluster; `Stand.begin` starts the program once there is something in it."""
    server, bindings = ApiServer(history=200_000), Bindings()
    server.audit = bindings
    async with server:
        made = Stand(server, bindings)
        try:
            yield made
        finally:
            await made.end()
