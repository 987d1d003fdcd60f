"""``python -m bench.core.recording``: what recording costs a daemon, per pod.

A daemon places pods of an embedded API server that runs in a process of its own, in turn without
and with a recording. All CPU time of the daemon's process counts, the thread that writes included;
of several rounds each the quickest, since company makes CPU time longer, never shorter. The entries
of one pod's life, without the daemon, stand beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench.core.worlds import a_node, a_pod
from sandbox.apiserver import ApiServer
from scheduler.app import Daemon
from scheduler.kube.client import KubeClient
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS
from scheduler.observe.metrics import Metrics
from scheduler.recording.segments import Bounds
from scheduler.recording.tape import Tape
from tests.daemon.support import Cluster, configuration


class Cost(NamedTuple):
    """CPU of the daemon for one pod, in microseconds, and bytes of its recording."""

    microseconds: float
    recorded_bytes: float


def serve(pipe: Connection, nodes: int) -> None:
    """Serve a cluster; for each number that comes, create so many pods and wait for them."""
    asyncio.run(_serve(pipe, nodes))


async def _serve(pipe: Connection, nodes: int) -> None:
    async with ApiServer() as server:
        cluster = Cluster(server)
        cluster.add(*(a_node(number) for number in range(nodes)))
        pipe.send(server.url)
        made = 0
        while count := await asyncio.to_thread(pipe.recv):
            names = [f"pod-{number}" for number in range(made, made + count)]
            made += count
            for number, name in enumerate(names):
                cluster.submit(a_pod(name, number))
                if number % 50 == 0:
                    await asyncio.sleep(0)
            while not all(map(cluster.node_of, names)):  # noqa: ASYNC110  no event tells
                await asyncio.sleep(0.02)
            for name in names:
                cluster.delete_pod(name)
            pipe.send(None)


def alone(pods: int) -> tuple[float, float]:
    """Microseconds per pod for its entries alone: of the scheduling thread, and of all threads."""
    lives = [
        (
            PodInfo(a_pod(f"pod-{number}", number).version(1).struct()),
            a_pod(f"pod-{number}", number).version(2).on("node-1").struct(),
            a_pod(f"pod-{number}", number).version(3).on("node-1").phase("Running").struct(),
        )
        for number in range(pods)
    ]
    with tempfile.TemporaryDirectory() as directory:
        tape = Tape(Path(directory), Bounds(1 << 29, 1 << 25, 0.0), [], Metrics())
        tape.start()
        began, thread = time.process_time(), time.thread_time()
        for pod, bound, running in lives:
            tape.tick()
            tape.changed("Pod", None, pod.pod)
            tape.tick()
            tape.placed(pod, "node-1", 390, 5000, 5000)
            tape.permitted(pod.uid, "node-1", SUCCESS)
            tape.bound(pod.uid, "node-1")
            for old, new in ((pod.pod, bound), (bound, running), (running, None)):
                tape.tick()
                tape.changed("Pod", old, new)
        thread = time.thread_time() - thread
        tape.close()
        return thread / pods * 1e6, (time.process_time() - began) / pods * 1e6


async def measured(nodes: int, pods: int, directory: Path | None) -> Cost:
    """What a fresh daemon needs for pods on a fresh cluster."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, nodes))
    process.start()
    own = {"recording": {"directory": str(directory)}} if directory else {}
    metrics = Metrics()
    url = await asyncio.to_thread(ours.recv)
    client = await KubeClient.connect(metrics=metrics, master=url, environ={})
    try:
        daemon = Daemon(configuration(own=own), client, metrics)
        task = asyncio.create_task(daemon.run())
        await daemon.until_synced()
        await _placed(ours, pods // 4)  # warm
        written, began = _written(metrics), time.process_time()
        await _placed(ours, pods)
        took = time.process_time() - began
        daemon.stop()
        await task
        return Cost(took / pods * 1e6, (_written(metrics) - written) / pods)
    finally:
        ours.send(0)
        await client.close()
        await asyncio.to_thread(process.join)


async def _placed(pipe: Connection, pods: int) -> None:
    pipe.send(pods)
    await asyncio.to_thread(pipe.recv)


def _written(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("equipoise_recording_bytes_total") or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    loop, both = min(alone(4000) for _ in range(options.rounds))
    print(f"entries alone: {loop:.1f} µs per pod of the scheduling thread, {both:.1f} µs in all")
    plain, recording = [], []
    for _ in range(options.rounds):
        plain.append(asyncio.run(measured(options.nodes, options.pods, None)))
        with tempfile.TemporaryDirectory() as directory:
            recording.append(asyncio.run(measured(options.nodes, options.pods, Path(directory))))
    without = min(cost.microseconds for cost in plain)
    best = min(recording)
    print(f"without: {without:.0f} µs of CPU per pod, with: {best.microseconds:.0f} µs", end="")
    share = best.microseconds / without - 1
    print(f" ({share:+.1%}), {best.recorded_bytes:.0f} bytes per pod")
    print("all:", *(f"{each.microseconds:.0f}" for each in (*plain, *recording)))


if __name__ == "__main__":
    main()
