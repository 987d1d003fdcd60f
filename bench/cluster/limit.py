"""The limit: a client that binds and reports by a list, through the scheduler's own outlet.

It watches nothing and decides nothing, so no scheduler that writes in this way can be faster. Pods
are bound first; those that fit nowhere get their condition and their event afterwards.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

import click
import msgspec
import uvloop

from bench.cluster.contestants import LIMIT, QPS
from scheduler import __version__
from scheduler.config.schema import EquipoiseConfiguration
from scheduler.kube.client import KubeClient
from scheduler.kube.events import EventRecorder
from scheduler.kube.pacing import RateLimit
from scheduler.kube.writes import ApiWriter
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.binding import DEFAULT_LIMIT
from scheduler.pipeline.failure import UNSCHEDULABLE
from scheduler.reporting import ClusterOutlet

Json = dict[str, Any]


class Client:
    """Carries out orders, with as many bindings under way as the scheduler would have."""

    def __init__(self, outlet: ClusterOutlet) -> None:
        self._outlet = outlet
        self._slots = asyncio.Semaphore(DEFAULT_LIMIT)

    async def bind_all(self, orders: list[Json]) -> None:
        """Bind every pod, and write an event about it; raises if one cannot be bound."""
        pods = [(_info(order["pod"]), order["node"]) for order in orders]
        async with asyncio.TaskGroup() as tasks:
            for pod, node in pods:
                await self._slots.acquire()
                tasks.create_task(self._bind(pod, node))

    def refuse_all(self, pods: list[Json], message: str) -> None:
        """Say of every pod that it fits nowhere."""
        for pod in map(_info, pods):
            self._outlet.record_event(pod, "Warning", "FailedScheduling", "Scheduling", message)
            self._outlet.set_condition(pod, UNSCHEDULABLE, message)

    async def _bind(self, pod: PodInfo, node: str) -> None:
        try:
            status = await self._outlet.bind(pod, node)
            if not status.ok:
                raise RuntimeError(f"{pod.key} could not be bound: {status.message}")
            note = f"Successfully assigned {pod.key} to {node}"
            self._outlet.record_event(pod, "Normal", "Scheduled", "Binding", note)
        finally:
            self._slots.release()


def _info(pod: Json) -> PodInfo:
    return PodInfo(from_dict(pod, Pod))


async def _carry_out(kubeconfig: str, orders: Json) -> None:
    """Do all that is ordered, then wait to be stopped: who measures looks at a living process."""
    settings, metrics = EquipoiseConfiguration(), Metrics(__version__)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client = await KubeClient.connect(
        metrics=metrics, kubeconfig=kubeconfig, rate_limit=RateLimit(QPS, QPS)
    )
    try:
        writer = ApiWriter(
            client,
            concurrency=settings.binding.concurrency,
            timeout=settings.binding.timeout_seconds,
        )
        everything = len(orders["bind"]) + len(orders["refuse"])
        capacity = max(settings.events.queue_size, everything)
        recorder = EventRecorder(writer, metrics, LIMIT.name, LIMIT.name, capacity=capacity)
        outlet = ClusterOutlet(writer, {LIMIT.name: recorder})
        reports = asyncio.create_task(outlet.run())
        worker = Client(outlet)
        await worker.bind_all(orders["bind"])
        worker.refuse_all(orders["refuse"], orders["message"])
        await stopped.wait()
        reports.cancel()
        await asyncio.gather(reports, return_exceptions=True)
    finally:
        await client.close()


@click.command()
@click.option("--kubeconfig", required=True)
@click.option("--orders", required=True, type=click.Path(path_type=Path))
def main(kubeconfig: str, orders: Path) -> None:
    """Carry out the orders in a file, and wait for SIGTERM."""
    uvloop.install()
    asyncio.run(_carry_out(kubeconfig, msgspec.json.decode(orders.read_bytes())))


if __name__ == "__main__":
    main()
