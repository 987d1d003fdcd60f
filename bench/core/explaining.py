"""``make bench-answers``: what an explanation with remedies costs, and how long it holds the loop.

One core without a server, 5,000 nodes, 20,000 pods on them. Each question is asked a few times
while another task counts the stretches for which it does not get the event loop. CPU time counts,
since what else runs on the machine is not the question.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Mapping

import click
from rich.console import Console
from rich.table import Table

from scheduler import inspection
from scheduler.assembly import Core
from scheduler.simulation.loading import load, offline_core
from scheduler.simulation.outlet import OfflineOutlet, StillClock
from tests.builders import Json, PodBuilder, constraint, make_node, make_pod, pod_term

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PODS_ON_EACH = 4


def questions() -> Mapping[str, PodBuilder]:
    """Pods that fit nowhere, each for another reason."""
    small = make_pod("asked").cpu(1)
    web = {"matchLabels": {"app": "a0"}}
    return {
        "too large": make_pod("asked").cpu(70),
        "a selector misspelt, and nodes full": make_pod("asked").cpu(2).node_selector(disk="sdd"),
        "a selector, a taint, too large": (
            make_pod("asked").cpu(70).memory("100Gi").node_selector(disk="sdd", tier="x")
        ),
        "affinity to nothing": small.label(app="p").near(pod_term(HOSTNAME, {"app": "cache"})),
        "a topology key that no node has": (
            make_pod("asked").cpu(1).label(app="a0").spread(constraint("rack", labelSelector=web))
        ),
        "a resource that no node offers": make_pod("asked").cpu(1).request("example.com/gpu", 1),
        "apart from pods on all nodes": (
            make_pod("asked").cpu(2).label(app="a0").apart(pod_term(HOSTNAME, {"app": "a0"}))
        ),
    }


def cluster(nodes: int) -> Core:
    """A core with nodes that are nearly full; a tenth of them are tainted."""
    objects: list[Json] = []
    for number in range(nodes):
        name = f"n{number:05}"
        node = make_node(name).cpu(16).memory("64Gi").label(disk="ssd" if number % 4 else "hdd")
        node.label(**{HOSTNAME: name, ZONE: f"z{number % 3}"})
        objects.append(node.obj() if number % 10 else node.taint("gpu", "yes").obj())
        for place in range(PODS_ON_EACH):
            pod = make_pod(f"p{number}-{place}").label(app=f"a{place}").on(name)
            objects.append(pod.cpu("3900m").memory("4Gi").obj())
    core = offline_core(None, objects, OfflineOutlet(), StillClock())
    load(core, objects)
    gc.collect()
    gc.freeze()
    return core


async def ask(core: Core, pod: PodBuilder, count: int | None) -> tuple[float, float, int]:
    """CPU seconds of one answer, the longest stretch, and how many remedies there were."""
    known = pod.struct()
    stretches: list[float] = []

    async def follow() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            stretches.append(now - last)
            last = now

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0)
    began = time.thread_time()
    answer = await inspection.explain(core, {known.key: known}, known.key, count=count)
    took = time.thread_time() - began
    await asyncio.sleep(0)
    follower.cancel()
    return took, max(stretches), len(answer["remedies"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=5000, show_default=True, type=click.IntRange(min=10))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--count", type=click.IntRange(min=1), help="Ask for so many pods together.")
def main(nodes: int, rounds: int, count: int | None) -> None:
    """Ask about pods that fit nowhere."""
    core = cluster(nodes)
    table = Table("pod", "CPU ms, median", "longest stretch, ms: median", "worst", "remedies")
    for name, pod in questions().items():
        asyncio.run(ask(core, pod, count))  # what is kept for the next ones is made once
        runs = [asyncio.run(ask(core, pod, count)) for _ in range(rounds)]
        times, stretches = [run[0] * 1000 for run in runs], [run[1] * 1000 for run in runs]
        table.add_row(
            name,
            f"{statistics.median(times):.0f}",
            f"{statistics.median(stretches):.1f}",
            f"{max(stretches):.1f}",
            str(runs[0][2]),
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
