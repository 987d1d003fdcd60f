"""One fault on real processes, so many times, and what became of the pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field

import aiohttp

from e2e.faults.catalogue import Fault
from e2e.faults.history import Verdict
from e2e.faults.scene import CLAIMS, NODES, POD_MILLI_CPU, PODS, PODS_THAT_FIT, Scene
from e2e.harness.client import ApiError
from e2e.harness.devices import (
    SLICES,
    by_claim,
    claim,
    device_class,
    gpu,
    request,
    resource_slice,
)
from e2e.harness.kube_scheduler import kube_scheduler
from e2e.harness.objects import Json, pod
from e2e.harness.patience import PATIENCE
from tests.reliability.outcomes import Outcome

PODS_PER_NODE = PODS_THAT_FIT // NODES
CLASS = "faults-gpu"


@dataclass
class Round:
    """What one time has shown."""

    in_flight: int
    recovery: float | None
    verdict: Verdict
    seen: list[str] = field(default_factory=list)


async def carry_out(scene: Scene, fault: Fault, rounds: int | None = None) -> Outcome:
    """Carry a fault out and judge it, as often as it says."""
    done = [await _once(scene, fault) for _ in range(fault.rounds if rounds is None else rounds)]
    verdicts = [each.verdict for each in done]
    seen = [text for each in done for text in (*each.seen, *each.verdict.details[:5])]
    return Outcome(
        fault=fault.name,
        what=fault.what,
        promised=fault.promised,
        rounds=len(done),
        pods=len(done) * PODS_THAT_FIT,
        in_flight=sum(each.in_flight for each in done),
        recovery_seconds=[round(each.recovery, 2) for each in done if each.recovery is not None],
        lost=sum(each.lost for each in verdicts),
        doubled=sum(each.doubled for each in verdicts),
        unentitled=sum(each.unentitled for each in verdicts),
        overcommitted=sum(each.overcommitted for each in verdicts),
        left_behind=sum(each.left_behind for each in verdicts),
        seen="; ".join(dict.fromkeys(seen)),
    )


async def _once(scene: Scene, fault: Fault) -> Round:
    await scene.clear()
    await scene.lead()
    if fault.claims:
        await _add_devices(scene)
    scene.history.begin()
    with kube_scheduler(scene.plane) if fault.beside_kube_scheduler else nullcontext():
        return await _struck(scene, fault)


async def _struck(scene: Scene, fault: Fault) -> Round:
    creating = asyncio.create_task(_create(scene, fault))
    try:
        over = await fault.strike(scene)
        await creating
    finally:
        creating.cancel()
    recovery = await recover(scene, over)
    verdict = await judge(scene)
    if fault.beside_kube_scheduler and verdict.overcommitted:
        # Nodes that another scheduler uses as well may get too much, and are counted apart.
        scene.seen.append(f"{verdict.overcommitted} nodes with too much by both schedulers")
        verdict.overcommitted = 0
        verdict.details.clear()
    return Round(scene.in_flight, recovery, verdict, list(scene.seen))


async def judge(scene: Scene, wanted: int = PODS_THAT_FIT) -> Verdict:
    """What the API shows now, where so many pods should have a node."""
    return scene.history.judge(
        await scene.api.items(PODS),
        await scene.api.items("/api/v1/nodes"),
        await scene.api.items(CLAIMS),
        wanted,
    )


async def recover(scene: Scene, over: float, wanted: int = PODS_THAT_FIT) -> float | None:
    """Start what has ended until so many pods have a node; seconds since the fault was over."""
    done = asyncio.Event()

    async def supervise() -> None:
        while not done.is_set():
            await scene.start_ended()
            await asyncio.sleep(0.2)

    supervisor = asyncio.create_task(supervise())
    recovery = await scene.recovered(wanted, over, PATIENCE)
    done.set()
    await supervisor
    return recovery


async def _create(scene: Scene, fault: Fault) -> None:
    bodies = [_pod(number, fault.claims) for number in range(PODS_THAT_FIT)]
    if fault.beside_kube_scheduler:
        for each in bodies[::2]:
            each["spec"]["schedulerName"] = "default-scheduler"
    if fault.claims:
        names = [each["metadata"]["name"] for each in bodies]
        await scene.api.create_all(CLAIMS, (claim(name, request(CLASS)) for name in names))
    await create_in_the_end(scene, bodies)


async def create_in_the_end(scene: Scene, pods: Iterable[Json]) -> None:
    """Create pods, though the API server may be away."""
    await asyncio.gather(*(_create_one(scene, each) for each in pods))


async def _create_one(scene: Scene, body: Json) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await scene.api.create(PODS, body)
                return
            except ApiError as error:
                if error.status == 409:
                    return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.2)


def _pod(number: int, with_claim: bool) -> Json:
    name = f"pod-{number}"
    return pod(name, f"{POD_MILLI_CPU}m", "1Mi", **(by_claim(name) if with_claim else {}))


async def _add_devices(scene: Scene) -> None:
    """As many devices as there are pods."""
    await scene.api.apply(f"/apis/resource.k8s.io/v1/deviceclasses/{CLASS}", device_class(CLASS))
    for number in range(NODES):
        body = resource_slice(
            f"node-{number}", [gpu(f"gpu-{each}") for each in range(PODS_PER_NODE)]
        )
        await scene.api.apply(f"{SLICES}/{body['metadata']['name']}", body)
