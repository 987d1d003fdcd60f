"""The limit: a client that binds and reports by a list, through the scheduler's own outlet.

It watches nothing and decides nothing, so no scheduler that writes in this way can be faster. Pods
are bound first; those that fit nowhere get their condition and their event afterwards.

It begins no more pods with claims than requests may be under way. Otherwise it would write the
claims of a thousand pods before it binds the first of them, when the clock of the bench starts.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

import click
import msgspec
import uvloop

from bench.cluster.contestants import LIMIT, QPS
from bench.cluster.devices import FINALIZER
from bench.cluster.templates import EXTENDED_RESOURCE
from scheduler import __version__
from scheduler.config.schema import EquipoiseConfiguration
from scheduler.dra.names import EXTENDED_CLAIM
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
from scheduler.plugin_api.outlet import ObjectRequest, Verb
from scheduler.reporting import ClusterOutlet

Json = dict[str, Any]

_CLAIM = "ResourceClaim"


class Client:
    """Carries out orders, with as many bindings under way as the scheduler would have.

    Of pods with claims only ``concurrency``: as many as requests may be under way at once.
    """

    def __init__(self, outlet: ClusterOutlet, concurrency: int) -> None:
        self._outlet = outlet
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(DEFAULT_LIMIT)

    async def bind_all(self, orders: list[Json]) -> None:
        """Bind every pod, and write an event about it; raises if one cannot be bound."""
        pods = [(_info(order["pod"]), order) for order in orders]
        if any("allocation" in order for order in orders):
            self._slots = asyncio.Semaphore(self._concurrency)
        async with asyncio.TaskGroup() as tasks:
            for pod, order in pods:
                await self._slots.acquire()
                tasks.create_task(self._bind(pod, order))

    def refuse_all(self, pods: list[Json], message: str) -> None:
        """Say of every pod that it fits nowhere."""
        for pod in map(_info, pods):
            self._outlet.record_event(pod, "Warning", "FailedScheduling", "Scheduling", message)
            self._outlet.set_condition(pod, UNSCHEDULABLE, message)

    async def _bind(self, pod: PodInfo, order: Json) -> None:
        node = order["node"]
        try:
            if "allocation" in order:
                await self._allocate(pod, order)
            status = await self._outlet.bind(pod, node)
            if not status.ok:
                raise RuntimeError(f"{pod.key} could not be bound: {status.message}")
            note = f"Successfully assigned {pod.key} to {node}"
            self._outlet.record_event(pod, "Normal", "Scheduled", "Binding", note)
        finally:
            self._slots.release()

    async def _allocate(self, pod: PodInfo, order: Json) -> None:
        """What Equipoise writes before it binds a pod with a claim."""
        metadata = pod.pod.metadata
        name = metadata.name
        if "make" in order:
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": _CLAIM,
                "metadata": {
                    "generateName": f"{name}-extended-resources-",
                    "namespace": metadata.namespace,
                    "annotations": {EXTENDED_CLAIM: "true"},
                    "finalizers": [FINALIZER],
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "name": name,
                            "uid": pod.uid,
                            "controller": True,
                        }
                    ],
                },
                "spec": order["make"],
            }
            request = ObjectRequest(Verb.CREATE, _CLAIM, f"{metadata.namespace}/", body)
            name = (await self._outlet.send(request)).metadata.name
        key = f"{metadata.namespace}/{name}"
        if "make" not in order:
            protected = {"metadata": {"finalizers": [FINALIZER]}}
            await self._outlet.send(ObjectRequest(Verb.MERGE, _CLAIM, key, protected))
        user = {"resource": "pods", "name": metadata.name, "uid": pod.uid}
        status = {"status": {"allocation": order["allocation"], "reservedFor": [user]}}
        await self._outlet.send(ObjectRequest(Verb.MERGE, _CLAIM, key, status, "status"))
        if "make" in order:
            request = order["allocation"]["devices"]["results"][0]["request"]
            mapping = {
                "containerName": pod.pod.spec.containers[0].name,
                "resourceName": EXTENDED_RESOURCE,
                "requestName": request,
            }
            said = {"resourceClaimName": name, "requestMappings": [mapping]}
            body = {"status": {"extendedResourceClaimStatus": said}}
            await self._outlet.send(ObjectRequest(Verb.STRATEGIC, "Pod", pod.key, body, "status"))


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
        worker = Client(outlet, settings.binding.concurrency)
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
