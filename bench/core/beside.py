"""``python -m bench.core.beside``: two schedulers on the same nodes, in virtual time.

As `bench.cluster.beside`, but what takes time is drawn from a seed: until a binding is written, and
until a watch shows it. Both sides are cores of ours; the other one checks nothing before it binds,
as kube-scheduler. So a machine with other work gives the same figures, and many rounds cost little.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

from bench.cluster.beside import PER_NODE, Binding, beyond
from bench.core.worlds import Change, CountingOutlet
from scheduler.assembly import assemble, available
from scheduler.config.loading import from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import StaleReason, never_stale
from tests.builders import make_pod, make_worker
from tests.sim.loop import VirtualLoop

OURS, THEIRS = "equipoise", "kube-scheduler"
CPU = "500m"
WATCH_SECONDS = 0.008
"""Until a watch shows a write, on average: half of it always, the other half by chance."""
WRITE_SECONDS = {OURS: 0.006, THEIRS: 0.016}
"""Until a binding is written, likewise."""
END_SECONDS = 600.0
COLUMNS = (
    *("pods/s each", "headroomSeconds", "pods", "ours beyond", "theirs", "both per 1,000"),
    *("withdrawn", "ours p50", "p99", "slowest"),
)


class Api:
    """What was written, in order, and who watches."""

    def __init__(self, seed: int) -> None:
        self.pods: dict[str, Pod] = {}
        self.created: dict[str, float] = {}
        self.bindings: list[Binding] = []
        self.sides: list[Side] = []
        self.rng = random.Random(seed)

    def takes(self, mean: float) -> float:
        """How long something takes this time."""
        return mean / 2 + self.rng.expovariate(2 / mean)

    def write(self, pod: Pod) -> None:
        """Write a pod, and have it shown to all, in order."""
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        for side in self.sides:
            side.show_later(Change(old, pod))


class Side(CountingOutlet):
    """One scheduler: a core that sees what its watch shows."""

    def __init__(self, api: Api, name: str, seconds: float, checks: bool) -> None:
        super().__init__()
        self._api = api
        self._name = name
        self._checks = checks
        self._loop = asyncio.get_running_loop()
        self._shown_at = 0.0
        self.metrics = Metrics()
        kube = {"profiles": [{"schedulerName": name}]}
        own: dict[str, Any] = {"tieBreakSeed": len(name), "binding": {"headroomSeconds": seconds}}
        documents = (
            {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **kube},
            {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, **own},
        )
        config = from_dicts(documents, available(), environ={})
        self.core = assemble(
            config, self, self.metrics, without=("postFilter",), clock=self._loop.time
        )
        api.sides.append(self)

    def show_later(self, change: Change) -> None:
        """The watch shows a change after a while, and changes in order."""
        due = self._loop.time() + self._api.takes(WATCH_SECONDS)
        self._shown_at = max(self._shown_at, due)
        self._loop.call_at(self._shown_at, self._show, change)

    def _show(self, change: Change) -> None:
        self.core.event_handlers.handler("Pod")([change])
        self.schedule()

    def schedule(self) -> None:
        """Attempt all pods that are ready."""
        self.core.queue.flush()
        while self.core.queue.active:
            self.core.scheduler.schedule_one()

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        """Check, as the request goes out, and write it a while later."""
        if self._checks and (reason := stale()):
            return error(reason)
        await asyncio.sleep(self._api.takes(WRITE_SECONDS[self._name]))
        api, now = self._api, self._loop.time()
        name = pod.pod.metadata.name
        api.bindings.append(Binding(len(api.bindings), self._name, node, now - api.created[name]))
        api.write(a_pod(self._name, name).on(node).struct())
        return SUCCESS


def a_pod(side: str, name: str) -> Any:
    """A pod of one side."""
    return make_pod(name).scheduler(side).cpu(CPU)


async def fill(nodes: int, rate: float, seconds: float, seed: int) -> tuple[Api, Side]:
    """Have both sides fill the nodes once."""
    api, loop = Api(seed), asyncio.get_running_loop()
    ours = Side(api, OURS, seconds, checks=True)
    Side(api, THEIRS, 0.0, checks=False)
    for number in range(nodes):
        node = make_worker(f"node-{number}").cpu(PER_NODE // 2).struct()
        for side in api.sides:
            side.core.event_handlers.handler("Node")([Change(None, node)])
    each = nodes * PER_NODE // 2

    async def create(side: str) -> None:
        moments = random.Random(f"{side} {seed}")
        for number in range(each):
            name = f"{side}-{number}"
            api.created[name] = loop.time()
            api.write(a_pod(side, name).struct())
            await asyncio.sleep(moments.expovariate(rate))

    await asyncio.gather(create(OURS), create(THEIRS))
    async with asyncio.timeout(END_SECONDS):
        while len(api.bindings) < 2 * each:
            await asyncio.sleep(0.05)
            for side in api.sides:
                side.schedule()
    return api, ours


def show(nodes: int, rate: float, seconds: float, rounds: int) -> None:
    """Print one line of the table."""
    total: dict[str, int] = {OURS: 0, THEIRS: 0}
    pods, withdrawn, taken = 0, 0, list[float]()
    for seed in range(rounds):
        make = partial(VirtualLoop, random.Random(seed), shuffle=False)
        with asyncio.Runner(loop_factory=make) as runner:
            api, ours = runner.run(fill(nodes, rate, seconds, seed))
        for side, number in beyond(api.bindings, PER_NODE).items():
            total[side] += number
        pods += len(api.bindings)
        taken += [each.seconds for each in api.bindings if each.side == OURS]
        name, labels = "equipoise_decisions_outdated_total", {"cause": "fit"}
        withdrawn += int(ours.metrics.registry.get_sample_value(name, labels) or 0)
    taken.sort()
    share = sum(total.values()) * 1000 / pods
    times = (statistics.median(taken), taken[int(0.99 * len(taken))], taken[-1])
    print(
        f"| {rate:g} | {seconds:g} | {pods:,} | {total[OURS]} | {total[THEIRS]} | {share:.1f} | "
        f"{withdrawn} | {' | '.join(f'{value:.2f} s' for value in times)} |",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for all rates and settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="how often the nodes are filled")
    parser.add_argument("--rate", type=float, nargs="+", default=[20, 100, 400])
    parser.add_argument("--headroom", type=float, nargs="+", default=[0, 1, 2, 5])
    given = parser.parse_args(arguments)
    print(f"| {' | '.join(COLUMNS)} |\n|{'--:|' * len(COLUMNS)}")
    for rate in given.rate:
        for seconds in given.headroom:
            show(given.nodes, rate, seconds, given.rounds)


if __name__ == "__main__":
    main()
