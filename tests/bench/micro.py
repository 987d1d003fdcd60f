"""What one more pod costs on a large cluster full of affinity: ``make bench-micro``.

5,000 nodes in ten zones run 10,000 pods of 100 templates, half of which carry affinity terms. Then
1,000 pods of one kind are placed by the whole core (queue, filters, scores, booking, binding), with
an outlet that answers at once. The time per pod stands beside that of a fixed NumPy loop over as
many rows, so that machines can be compared. On a busy machine the mean says least: it contains the
time that others took.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable

import numpy as np

from scheduler.observe.runtime import freeze_after_sync
from tests.builders import NodeBuilder, PodBuilder, constraint, make_pod, make_worker, pod_term
from tests.pipeline.support import Stage

TARGET_MS = 2.0
CALIBRATION_ROUNDS = 2000
TEMPLATES = 100
ZONES = 10
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def app(template: int) -> dict[str, str]:
    return {"app": f"app-{template % TEMPLATES}"}


def a_node(number: int) -> NodeBuilder:
    name = f"node-{number:05}"
    return make_worker(name).label(**{HOST: name, ZONE: f"zone-{number % ZONES}"})


def a_pod(name: str, template: int) -> PodBuilder:
    return make_pod(name).cpu("100m").memory("128Mi").label(**app(template))


def running_pod(number: int, nodes: int) -> PodBuilder:
    """A pod of one of the templates; every other template carries terms, of four kinds in turn."""
    template = number % TEMPLATES
    pod = a_pod(f"running-{number}", template).on(f"node-{number % nodes:05}")
    match template % 8:
        case 0:
            pod.apart(pod_term(HOST, app(template)))
        case 2:
            pod.rather_near(50, pod_term(ZONE, app(template + 1)))
        case 4:
            pod.rather_apart(50, pod_term(HOST, app(template)))
        case 6:
            pod.near(pod_term(ZONE, app(template)))
    return pod


SCENARIOS: dict[str, Callable[[PodBuilder, dict[str, str]], PodBuilder]] = {
    "no constraints": lambda pod, own: pod,
    "required anti-affinity": lambda pod, own: pod.apart(pod_term(HOST, own)),
    "zone spread": lambda pod, own: pod.spread(
        constraint(ZONE, labelSelector={"matchLabels": own})
    ),
    "preferred affinity": lambda pod, own: pod.rather_near(50, pod_term(ZONE, own)),
}


def a_cluster(nodes: int, running: int) -> Stage:
    stage = Stage()
    stage.see(*(a_node(number) for number in range(nodes)))
    stage.see(*(running_pod(number, nodes) for number in range(running)))
    freeze_after_sync()  # as the daemon does
    return stage


async def place(stage: Stage, pods: int) -> list[float]:
    """Take each pod from the queue to its binding; the milliseconds that each took."""
    times = []
    for _ in range(pods):
        started = time.perf_counter()
        stage.attempt()
        await stage.core.bindings.idle()
        times.append((time.perf_counter() - started) * 1000)
    return times


def calibrate(rows: int) -> float:
    """Milliseconds of a fixed piece of work on columns of this length: the median round."""
    ids = np.arange(rows) % ZONES
    column = np.arange(rows, dtype=np.int64)
    times = []
    for _ in range(CALIBRATION_ROUNDS):
        started = time.perf_counter()
        sums = np.bincount(ids, weights=column, minlength=ZONES)
        passing = np.flatnonzero(sums[ids] > column)
        scores = np.where(column[passing] % 3 == 0, column[passing] * 100 // rows, 0)
        scores.max(initial=0)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def measure(name: str, options: argparse.Namespace) -> None:
    """Place the pods of one scenario and print what they took."""
    stage = a_cluster(options.nodes, options.running)
    pods = (a_pod(f"new-{number}", number) for number in range(options.pods))
    stage.see(*(SCENARIOS[name](pod, app(number)) for number, pod in enumerate(pods)))
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    started = time.process_time()
    times = asyncio.run(place(stage, options.pods))
    cpu = (time.process_time() - started) * 1000 / options.pods
    profile.disable()
    mean, median, unit = statistics.mean(times), statistics.median(times), calibrate(options.nodes)
    print(
        f"{name:24}{mean:9.3f}{median:9.3f}{cpu:9.3f}{TARGET_MS:9.1f}{unit:14.4f}"
        f"{cpu / unit:9.1f}{len(stage.outlet.bound):9}",
        flush=True,
    )
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(options.profile)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-micro", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="only this scenario")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="print N hot functions")
    options = parser.parse_args()
    print(f"{options.nodes} nodes, {options.running} running pods, {options.pods} more pods")
    titles = ("mean", "median", "CPU", "target", "calibration", "ratio", "placed")
    print("{:24}{:>9}{:>9}{:>9}{:>9}{:>14}{:>9}{:>9}".format("ms per pod", *titles))
    for name in options.only or SCENARIOS:
        measure(name, options)


if __name__ == "__main__":
    main()
