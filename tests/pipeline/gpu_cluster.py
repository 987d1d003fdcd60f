"""A small cluster of GPU nodes and a backlog that asks for more than it has, made by seed."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod

GPU = "nvidia.com/gpu"
SHAPES = ((96, 384, 8), (96, 384, 8), (64, 256, 4), (128, 512, 8), (64, 256, 2))
"""CPUs, GiB and GPUs of nodes."""
CPU_HEAVY = (
    (8, 16, 1, 40), (4, 16, 1, 60), (12, 48, 1, 20), (16, 64, 2, 12),
    (32, 128, 4, 8), (88, 320, 8, 6), (16, 8, 0, 20), (4, 8, 0, 30), (32, 32, 0, 10),
)  # fmt: skip
MANY_GPUS = (
    (6, 24, 1, 60), (12, 48, 2, 20), (24, 96, 4, 10), (48, 192, 8, 6), (4, 8, 0, 10),
)  # fmt: skip
"""CPUs, GiB and GPUs of pods, and how many of them there are for others."""

Mix = tuple[tuple[int, int, int, int], ...]


def gpu_nodes(count: int = 20) -> list[NodeBuilder]:
    found = []
    for number in range(count):
        cores, gibibytes, gpus = SHAPES[number % len(SHAPES)]
        node = make_node(f"gpu-{number:02}").cpu(cores).memory(f"{gibibytes}Gi").pods(110)
        found.append(node.offer(GPU, gpus).label(model=f"m{number % 3}"))
    return found


def gpu_pods(seed: int, count: int = 230, mix: Mix = CPU_HEAVY) -> list[PodBuilder]:
    """Pods of one to eight GPUs, and of none, in any order; some ask for a model."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        cores, gibibytes, gpus, _ = draw.choices(mix, [weight for *_, weight in mix])[0]
        pod = make_pod(f"p{number:03}").cpu(cores).memory(f"{gibibytes}Gi")
        if gpus:
            pod.request(GPU, gpus)
            if draw.random() < 0.2:
                pod.node_selector(model=f"m{draw.randrange(3)}")
        found.append(pod)
    return found


def gpus(pods: Iterable[PodBuilder], placed: Iterable[str]) -> int:
    """How many GPUs the placed ones of these pods ask for."""
    names = set(placed)
    return sum(
        pod.info().fit_requests.get(GPU, 0)
        for pod in pods
        if pod.obj()["metadata"]["name"] in names
    )
