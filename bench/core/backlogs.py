"""Backlogs that contend for nodes, made by seed: what batches are measured and compared by.

Nodes of three shapes, a tenth of them with SSDs, in ten pools and three zones, unevenly busy. Many
small pods and few large ones, of classes of which one in seven requires an SSD and half prefer a
pool or a zone. In a *hot* backlog two fifths prefer one and the same pool.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench.core.worlds import ZONE, World
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from scheduler.pipeline.batch.stage import BandReport
from tests.builders import Json, make_node, make_pod

SHAPES = ((16, 64, 50), (32, 128, 30), (64, 128, 20))
SIZES = (
    (100, 256, 20), (250, 512, 25), (500, 1024, 20), (1000, 2048, 15),
    (2000, 8192, 10), (4000, 8192, 6), (8000, 16384, 4),
)  # fmt: skip
POOLS, ZONES = 10, 3
BATCH: Json = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "batch": {"enabled": True, "window": "0s", "maxPods": 50_000, "solverTimeout": "600s"},
}


CPU_MEMORY: Json = {**BATCH, "batch": {**BATCH["batch"], "costModel": "CpuMemory"}}


class Case(NamedTuple):
    """A backlog, by numbers."""

    nodes: int
    pods: int
    classes: int
    load: float
    """The share of what is free that the backlog asks for."""
    hot: bool = False
    seed: int = 0


class Kind(NamedTuple):
    """What pods of one class have in common."""

    cpu: int
    memory: int
    ssd: bool
    prefers: tuple[tuple[str, str, int], ...]


class Backlog(NamedTuple):
    """Objects, and what each pod of the backlog prefers."""

    nodes: list[Node]
    running: list[Pod]
    pods: list[Pod]
    kinds: dict[str, Kind]
    """By pod."""


class Outcome(NamedTuple):
    """Where the pods of a backlog went, in numbers."""

    placed: int
    cpu: float
    """The share of the CPUs asked for that were placed."""
    affinity: float
    """The share of preferred weight that was got, of what each pod could have had if alone."""
    spread: float
    """The standard deviation of the mean utilisation of nodes."""
    overcommitted: int
    seconds: float
    """CPU seconds of this process."""
    reports: tuple[BandReport, ...] = ()


def make(case: Case) -> Backlog:
    """The backlog of a case."""
    draw = random.Random(case.seed)
    nodes, running, free = [], [], [0.0, 0.0]
    for number in range(case.nodes):
        cores, gibibytes, _ = draw.choices(SHAPES, [w for *_, w in SHAPES])[0]
        labels = {
            "pool": f"pool-{number % POOLS}",
            ZONE: f"zone-{draw.randrange(ZONES)}",
            "disk": "ssd" if draw.random() < 0.1 else "hdd",
        }
        name = f"node-{number:05}"
        node = make_node(name).cpu(cores).memory(f"{gibibytes}Gi").pods(110)
        nodes.append(from_dict(node.label(**labels).obj(), Node))
        busy = draw.uniform(0.05, 0.6)
        held = make_pod(f"held-{number}").cpu(f"{int(cores * busy * 1000)}m")
        held.memory(f"{int(gibibytes * busy * 1024)}Mi").on(name)
        running.append(from_dict(held.obj(), Pod))
        free[0] += cores * 1000 * (1 - busy)
        free[1] += gibibytes * 1024 * (1 - busy)
    kinds = list(_kinds(case, draw))
    chosen = [draw.choice(kinds) for _ in range(case.pods)]
    asked = [sum(kind.cpu for kind in chosen), sum(kind.memory for kind in chosen)]
    scale = case.load * min(free[0] / asked[0], free[1] / asked[1])
    pods, of = [], {}
    for number, kind in enumerate(chosen):
        pod = _pod(f"new-{number}", kind, scale)
        pods.append(pod)
        of[pod.metadata.key] = kind
    return Backlog(nodes, running, pods, of)


def _kinds(case: Case, draw: random.Random) -> Iterator[Kind]:
    for _ in range(case.classes):
        cpu, memory, _ = draw.choices(SIZES, [w for *_, w in SIZES])[0]
        cpu, memory = int(cpu * draw.uniform(0.8, 1.25)), int(memory * draw.uniform(0.8, 1.25))
        prefers = []
        if case.hot and draw.random() < 0.4:
            prefers.append(("pool", "pool-0", draw.randint(50, 100)))
        elif draw.random() < 0.5:
            prefers.append(("pool", f"pool-{draw.randrange(POOLS)}", draw.randint(1, 100)))
            if draw.random() < 0.5:
                prefers.append((ZONE, f"zone-{draw.randrange(ZONES)}", draw.randint(1, 50)))
        yield Kind(cpu, memory, draw.random() < 0.15, tuple(prefers))


def _pod(name: str, kind: Kind, scale: float) -> Pod:
    pod = make_pod(name).cpu(f"{max(int(kind.cpu * scale), 1)}m")
    pod.memory(f"{max(int(kind.memory * scale), 1)}Mi")
    if kind.ssd:
        pod.spec(nodeSelector={"disk": "ssd"})
    if kind.prefers:
        terms = [
            {
                "weight": weight,
                "preference": {
                    "matchExpressions": [{"key": key, "operator": "In", "values": [value]}]
                },
            }
            for key, value, weight in kind.prefers
        ]
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
        pod.spec(affinity={"nodeAffinity": preferred})
    return from_dict(pod.obj(), Pod)


def run(backlog: Backlog, *config: Json) -> Outcome:
    """Place a backlog, at once if the configuration says so, and judge the result."""
    world = World(*config)
    if world.core.scheduler.batches is not None:
        world.core.scheduler.batches._clock = time.process_time
    world.see("Node", backlog.nodes)
    world.see("Pod", backlog.running)
    world.see("Pod", backlog.pods)
    started = time.process_time()
    asyncio.run(drain(world))
    return judge(world, backlog, time.process_time() - started)


async def drain(world: World) -> None:
    """Place what waits, at once if that is configured, then the rest."""
    try:
        await world.core.scheduler.run_batch()
        await world.drain()
    finally:
        if world.core.solver is not None:
            await world.core.solver.close()


def judge(world: World, backlog: Backlog, seconds: float) -> Outcome:
    """What came of a backlog, by the books of the core and the labels of nodes."""
    state = world.core.state
    labels = {node.metadata.name: node.metadata.labels for node in backlog.nodes}
    got = best = cpu = asked = 0.0
    placed = 0
    for pod in backlog.pods:
        kind = backlog.kinds[pod.metadata.key]
        asked += kind.cpu
        best += _best(kind)
        there = state.pod(pod.metadata.uid)
        if there is not None:
            placed += 1
            cpu += kind.cpu
            got += _weight(kind, labels[there.node_name])
    columns, rows = state.columns, state.rows()
    shares = columns.requested[:2, rows] / columns.allocatable[:2, rows]
    over = (columns.requested[:2, rows] > columns.allocatable[:2, rows]).any(axis=0)
    over |= columns.pod_count[rows] > columns.pod_limit[rows]
    batches = world.core.scheduler.batches
    return Outcome(
        placed,
        cpu / asked,
        got / best if best else 1.0,
        float(np.std(shares.mean(axis=0))),
        int(over.sum()),
        seconds,
        tuple(batches.reports) if batches else (),
    )


def _best(kind: Kind) -> float:
    """The weight that a pod could have if it were alone: each pool has nodes in each zone."""
    return float(sum(weight for _, _, weight in kind.prefers))


def _weight(kind: Kind, labels: dict[str, str]) -> float:
    return float(sum(weight for key, value, weight in kind.prefers if labels.get(key) == value))
