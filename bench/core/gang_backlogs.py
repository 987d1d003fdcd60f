"""Gangs that ask for more than there is: how many are placed whole, one by one and at once."""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

from bench.core.backlogs import BATCH, SHAPES, drain
from bench.core.worlds import World
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.builders import make_node, make_pod
from tests.gangs.support import configured, make_group, member

DEMAND = 1.3
SIZES = (4, 8, 16, 32)
CPUS = (500, 1000, 2000, 4000, 8000)


class Placed(NamedTuple):
    """What became of the gangs."""

    complete: int
    broken: int
    """Gangs of which only some members have nodes."""
    cpu: float
    """The share of free CPUs that they use."""


def place(seed: int, nodes: int = 300, gangs: int = 50, *, batch: bool) -> Placed:
    """Place gangs that ask for 130 % of what is free."""
    draw = random.Random(seed)
    world = World(configured(), *([BATCH] if batch else []))
    free = 0
    for number in range(nodes):
        cores, gibibytes, _ = draw.choices(SHAPES, [w for *_, w in SHAPES])[0]
        name = f"node-{number:05}"
        node = make_node(name).cpu(cores).memory(f"{gibibytes}Gi").pods(110)
        world.see("Node", [from_dict(node.obj(), Node)])
        busy = int(cores * draw.uniform(0.05, 0.6) * 1000)
        held = make_pod(f"held-{number}").cpu(f"{busy}m").on(name)
        world.see("Pod", [from_dict(held.obj(), Pod)])
        free += cores * 1000 - busy
    sizes = [draw.choice(SIZES) for _ in range(gangs)]
    cpus = [draw.choice(CPUS) for _ in range(gangs)]
    scale = DEMAND * free / sum(size * cpu for size, cpu in zip(sizes, cpus, strict=True))
    asked = [max(int(cpu * scale), 1) for cpu in cpus]
    pods = []
    for gang, size in enumerate(sizes):
        world.see("PodGroup", [make_group(f"g{gang}", size).struct()])
        pods += [member(f"g{gang}-{i}", f"g{gang}", f"{asked[gang]}m") for i in range(size)]
    draw.shuffle(pods)
    world.see("Pod", [from_dict(pod.obj(), Pod) for pod in pods])
    asyncio.run(drain(world))
    found = [
        sum(world.core.state.pod(f"uid-g{gang}-{i}") is not None for i in range(size))
        for gang, size in enumerate(sizes)
    ]
    used = sum(number * cpu for number, cpu in zip(found, asked, strict=True))
    whole = sum(number == size for number, size in zip(found, sizes, strict=True))
    return Placed(whole, sum(number > 0 for number in found) - whole, used / free)
