"""A run: the nodes, and which pods arrive when, request what and run for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from sandbox.numa.machine import Machine, uniform
from sandbox.numa.settings import KubeletSettings, PublisherSettings

GIB = 1 << 30
GPU = "example.com/gpu"
OURS = "equipoise"
FOREIGN = "somebody-else"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster under churn; times are virtual seconds."""

    seed: int
    nodes: int = 20
    cells: int = 2
    cpus: int = 16
    memory: int = 64
    """GiB per cell."""
    gpus: int = 2
    """Per cell, on every other node."""
    reserved_cpus: int = 2
    seconds: float = 240.0
    """How long pods keep arriving."""
    arrival_seconds: float = 0.5
    publish_seconds: float = 5.0
    demand: float = 0.9
    """CPUs wanted over CPUs there are, once the cluster has filled up."""
    foreign: float = 0.05
    """The share of pods that another scheduler binds."""
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    publisher: PublisherSettings = field(default_factory=PublisherSettings)
    restarts: tuple[float, ...] = ()
    """When the scheduler is replaced by a new one with an empty cache."""
    threads: int = 1
    """Per core."""
    slowness: float = 1.0
    """Stretches all lags but those of our own watches."""
    stalls: float = 0.0
    """Now and then a watch of ours delivers nothing for up to so many seconds."""
    upheavals: float = 0.0
    """So often, in seconds, a node loses its NRT for a while, or gets another kind of it."""
    simple: bool = False
    """One-container pods of whole CPUs only."""

    def machine(self, number: int) -> Machine:
        """The machine of a node."""
        devices = {GPU: self.gpus} if self.gpus and number % 2 == 0 else {}
        return uniform(
            self.cells,
            self.cpus,
            self.memory * GIB,
            devices,
            threads_per_core=self.threads,
            reserved_cpus=self.reserved_cpus,
            reserved_memory=GIB,
        )

    @property
    def capacity(self) -> int:
        """Allocatable CPUs of all nodes."""
        return sum(self.machine(number).allocatable["cpu"] for number in range(self.nodes))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that is to run for a while."""

    at: float
    number: int
    spec: dict[str, Any]
    lifetime: float
    """Seconds from running to the end."""
    completes: bool
    """Ends by itself instead of being deleted."""
    patience: float | None
    """Deleted so long after its creation, running or not."""
    foreign: bool


def arrivals(scenario: Scenario) -> list[Arrival]:
    """The same for every scheduler: it depends on the scenario alone."""
    rng = random.Random(scenario.seed)
    wanted: list[Arrival] = []
    at = 0.0
    while at < scenario.seconds:
        foreign = rng.random() < scenario.foreign
        spec = _spec(rng, scenario, foreign)
        hasty = rng.random() < 0.02
        arrival = Arrival(
            at,
            len(wanted),
            spec,
            lifetime=max(0.05, rng.expovariate(1.0)),
            completes=rng.random() < 0.3,
            patience=rng.uniform(0.1, 3.0) if hasty else None,
            foreign=foreign,
        )
        wanted.append(arrival)
        at += rng.expovariate(1 / scenario.arrival_seconds)
    return _scaled(wanted, scenario)


def _scaled(wanted: list[Arrival], scenario: Scenario) -> list[Arrival]:
    """Lifetimes stretched so that arrivals request ``demand`` of the CPUs at any time."""
    work = sum(cpus_of(each.spec) * each.lifetime for each in wanted)
    stretch = scenario.demand * scenario.capacity * scenario.seconds / max(work, 1e-9)
    return [
        Arrival(
            each.at,
            each.number,
            each.spec,
            each.lifetime * stretch,
            each.completes,
            each.patience,
            each.foreign,
        )
        for each in wanted
    ]


def cpus_of(spec: dict[str, Any]) -> float:
    """CPUs that the app containers of a pod ask for."""
    total = 0.0
    for container in spec["containers"]:
        text = container["resources"]["requests"].get("cpu", "0")
        total += float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    return total


def _spec(rng: random.Random, scenario: Scenario, foreign: bool) -> dict[str, Any]:
    """A pod of one of many kinds."""
    kinds = _SIMPLE if scenario.simple else _KINDS
    kind = rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
    spec: dict[str, Any] = kind(rng, scenario)
    return {**spec, "schedulerName": FOREIGN if foreign else OURS}


def _container(name: str, cpu: str, gib: int, gpus: int = 0) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": f"{gib}Gi"}
    if gpus:
        amounts[GPU] = str(gpus)
    return {"name": name, "resources": {"requests": amounts, "limits": dict(amounts)}}


def _single(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    cpus = rng.choice((1, 2, 2, 3, 4, 4, 6, 8))
    return {"containers": [_container("app", str(min(cpus, scenario.cpus)), cpus)]}


def _whole_cell(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    return {"containers": [_container("app", str(scenario.cpus), 4)]}


def _pair(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    sizes = rng.choice(((2, 2), (4, 1), (1, 4), (3, 3), (8, 4), (6, 6)))
    return {"containers": [_container(f"app-{i}", str(n), n) for i, n in enumerate(sizes)]}


def _memory_bound(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    return {"containers": [_container("app", "2", rng.choice((16, 24, 40)))]}


def _with_device(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    gpus = rng.choice((1, 1, 2))
    return {"containers": [_container("app", str(2 * gpus), 4, min(gpus, scenario.gpus))]}


def _device_only(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    """Burstable, yet bound to a cell by its device."""
    container = {
        "name": "app",
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi", **({GPU: "1"} if scenario.gpus else {})},
            "limits": {GPU: "1"} if scenario.gpus else {},
        },
    }
    return {"containers": [container]}


def _with_init(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    first, app = rng.choice(((4, 2), (2, 4), (8, 2), (1, 1)))
    return {
        "initContainers": [_container("prepare", str(first), first)],
        "containers": [_container("app", str(app), app)],
    }


def _with_sidecar(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    sidecar = {**_container("proxy", "1", 1), "restartPolicy": "Always"}
    return {
        "initContainers": [sidecar],
        "containers": [_container("app", str(rng.choice((2, 4))), 4)],
    }


def _fractional(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    """Guaranteed, but no CPU is its own; its memory is."""
    return {"containers": [_container("app", rng.choice(("500m", "1500m")), 2)]}


def _noise(rng: random.Random, scenario: Scenario) -> dict[str, Any]:
    """Burstable: nothing of it is bound to a cell."""
    requests = {"cpu": rng.choice(("100m", "250m", "500m")), "memory": "512Mi"}
    return {"containers": [{"name": "app", "resources": {"requests": requests, "limits": {}}}]}


_SIMPLE = ((_single, 90), (_whole_cell, 10))
_KINDS = (
    (_single, 44),
    (_whole_cell, 5),
    (_pair, 14),
    (_memory_bound, 5),
    (_with_device, 7),
    (_device_only, 2),
    (_with_init, 4),
    (_with_sidecar, 4),
    (_fractional, 4),
    (_noise, 11),
)
