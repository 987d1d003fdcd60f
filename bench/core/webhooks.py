"""``python -m bench.core.webhooks``: does a pod with a slow webhook slow the others?

Plain pods are placed on 5,000 nodes alone, then among pods about which a webhook in another process
is asked that answers at once, and among pods with one that takes 50 ms; in turns, in one process.
What the second costs is work; what the third costs beyond that is waiting. Times are wall times,
beside CPU times of the one thread there is.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import NamedTuple

import msgspec
from aiohttp import web

from bench.core.micro import calibrate
from bench.core.worlds import CountingOutlet, World, a_node, a_pod
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.outlet import StaleReason, never_stale
from tests.builders import Json

DELAY_SECONDS = 0.05
HOOKS = {"at-once": 0.0, "slow": DELAY_SECONDS}


class Bound(NamedTuple):
    """When a pod was bound, on the wall clock and in CPU seconds."""

    wall: float
    cpu: float


class TimingOutlet(CountingOutlet):
    """Notes when each pod was bound."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, Bound] = {}

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self.times[pod.pod.metadata.name] = Bound(time.perf_counter(), time.thread_time())
        return SUCCESS


class Round(msgspec.Struct):
    """What one round took, per plain pod in milliseconds, and until the last asking pod."""

    wall_ms: float
    cpu_ms: float
    asking_wall_s: float = 0.0
    cpu_s: float = 0.0


def config(port: int) -> tuple[Json, Json]:
    enabled = {"multiPoint": {"enabled": [{"name": name} for name in HOOKS]}}
    return (
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": enabled}],
        },
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "webhooks": [
                {
                    "name": name,
                    "url": f"http://127.0.0.1:{port}/{name}",
                    "points": ["filter"],
                    "timeout": "60s",
                    "pods": {"matchLabels": {"ask": name}},
                }
                for name in HOOKS
            ],
        },
    )


async def one_round(world: World, number: int, plain: int, asking: int, hook: str = "") -> Round:
    """Place plain pods, and evenly among them pods that a webhook is asked about."""
    outlet = world.outlet
    assert isinstance(outlet, TimingOutlet)
    step = max(plain // asking, 1) if asking else 0
    pods = []
    for i in range(plain):
        if asking and i % step == 0 and i // step < asking:
            pods.append(a_pod(f"asking-{number}-{i // step}").label(ask=hook))
        pods.append(a_pod(f"plain-{number}-{i}"))
    world.add(*pods)
    outlet.times.clear()
    wall, cpu = time.perf_counter(), time.thread_time()
    while len(outlet.times) < plain + asking:
        await world.drain()
        await world.core.scheduler.finish_suspended()
    spent = time.thread_time() - cpu
    last = [at for name, at in outlet.times.items() if name.startswith("plain")]
    slowest = [at.wall - wall for name, at in outlet.times.items() if name.startswith("asking")]
    return Round(
        wall_ms=(max(at.wall for at in last) - wall) * 1000 / plain,
        cpu_ms=(max(at.cpu for at in last) - cpu) * 1000 / plain,
        asking_wall_s=max(slowest, default=0.0),
        cpu_s=spent,
    )


async def serve() -> None:
    """The webhook: answers every question after a while, and says its port first."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(HOOKS[request.path.split("/")[1]])
        return web.json_response({})

    app = web.Application(client_max_size=2**28)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def compare(nodes: int, plain: int, asking: int, rounds: int) -> dict[str, list[Round]]:
    """Rounds without and with asking pods, in turns."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.core.webhooks", "--serve", stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        world = World(*config(port), outlet=TimingOutlet())
        world.add(*(a_node(number) for number in range(nodes)))
        world.is_synced()
        found: dict[str, list[Round]] = {"alone": [], **{hook: [] for hook in HOOKS}}
        for number, hook in enumerate(HOOKS, start=1):
            await one_round(world, -number, 10, 2, hook)
        for number in range(rounds):
            found["alone"].append(await one_round(world, 3 * number, plain, 0))
            for turn, hook in enumerate(HOOKS, start=1):
                found[hook].append(await one_round(world, 3 * number + turn, plain, asking, hook))
        await world.core.stop()
    finally:
        server.terminate()
        await server.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-webhooks", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--plain", type=int, default=1_000)
    parser.add_argument("--asking", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    found = asyncio.run(compare(options.nodes, options.plain, options.asking, options.rounds))
    median = {
        name: {
            field: statistics.median(getattr(each, field) for each in rounds)
            for field in Round.__struct_fields__
        }
        for name, rounds in found.items()
    }
    alone, at_once, slow = median["alone"], median["at-once"], median["slow"]
    extra = (at_once["cpu_s"] - alone["cpu_s"]) * 1000 / options.asking
    in_turn = options.asking * DELAY_SECONDS * 1000 / options.plain
    print(f"{options.nodes} nodes, {options.plain} plain pods, {options.asking} that ask")
    for title, figures in (
        ("a plain pod alone", alone),
        ("among pods answered at once", at_once),
        ("among pods answered in 50 ms", slow),
    ):
        print(f"{title:30} {figures['wall_ms']:8.3f} ms, CPU {figures['cpu_ms']:.3f} ms")
    print(f"{'had they waited in turn':30} {at_once['wall_ms'] + in_turn:8.3f} ms")
    print(f"{'CPU of a pod that asks':30} {extra:8.3f} ms")
    print(f"{'until the last that asks':30} {slow['asking_wall_s'] * 1000:8.0f} ms")
    print(f"{'calibration loop':30} {calibrate():8.4f} ms")


if __name__ == "__main__":
    main()
