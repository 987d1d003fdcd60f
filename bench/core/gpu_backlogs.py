"""Pods that ask for more GPUs than a cluster has: how many of these are in use afterwards."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from bench.core.backlogs import BATCH, drain
from bench.core.worlds import World
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.pipeline.gpu_cluster import (
    CPU_HEAVY,
    GPU,
    MANY_GPUS,
    Mix,
    gpu_nodes,
    gpu_pods,
)

NODES = 200
CASES: dict[str, tuple[int, Mix]] = {
    "pods of many GPUs": (850, MANY_GPUS),
    "pods of much CPU": (1_300, CPU_HEAVY),
}
"""How many pods of which mix: some 125 % of all GPUs."""


class Placed(NamedTuple):
    """What became of one backlog."""

    gpus: float
    """The share of all GPUs that are in use."""
    pods: int
    solved: bool
    """Whether the backlog was placed at once."""


def place(seed: int, case: str, *, batch: bool) -> Placed:
    """Place the backlog of a seed, at once or one by one."""
    count, mix = CASES[case]
    world = World(*([BATCH] if batch else []))
    world.see("Node", [from_dict(node.obj(), Node) for node in gpu_nodes(NODES)])
    world.see("Pod", [from_dict(pod.obj(), Pod) for pod in gpu_pods(seed, count, mix)])
    asyncio.run(drain(world))
    columns, rows = world.core.state.columns, world.core.state.rows()
    index = columns.resources.find(GPU)
    used, there = columns.requested[index, rows].sum(), columns.allocatable[index, rows].sum()
    batches = world.core.scheduler.batches
    solved = batches is not None and batches.reports[0].result == "solved"
    return Placed(used / there, int(columns.pod_count[rows].sum()), solved)
