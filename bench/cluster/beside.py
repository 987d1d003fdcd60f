"""``make bench-beside``: kube-scheduler and Equipoise fill the same nodes to the last CPU.

Neither sees a pod of the other before the watch shows it bound, so both may give away the same
room. Each side gets as many pods, at one rate and at random moments; together they fill all nodes.
Bindings are then taken in the order of their resourceVersions: a pod is *beyond* if its node was
full already. A kubelet would refuse it. There are no kubelets here, so it stays, and one place
elsewhere is empty. Settings of Equipoise take turns on one cluster.
"""

import asyncio
import json
import math
import random
import re
import signal
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from bench.cluster.arena import COLLECT_GARBAGE, PAGE
from bench.cluster.contestants import EQUIPOISE, GROUP, KUBE_SCHEDULER, Launcher, Running
from bench.cluster.measuring import POLL_SECONDS, START_SECONDS
from bench.cluster.run import pods_path
from bench.cluster.running import APISERVER_FLAGS
from bench.cluster.templates import NODE_MILLI_CPU, Template, node
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.objects import Json
from e2e.harness.processes import answers_ok

SPACE = "beside"
SIDES = (EQUIPOISE.name, KUBE_SCHEDULER.name)
PER_NODE = 8
POD = Template(milli_cpu=NODE_MILLI_CPU // PER_NODE)
RATES = (20, 100, 400)
HEADROOMS = (0.0, 5.0)
BOUND_SECONDS = 120.0
WITHDRAWN = re.compile(r'^equipoise_decisions_outdated_total\{[^}]*cause="fit"[^}]*\} (\S+)$', re.M)


@dataclass(frozen=True)
class Binding:
    """A pod as it got its node."""

    version: int
    side: str
    node: str
    seconds: float
    """From its creation."""


@dataclass(frozen=True)
class Round:
    """What one filling of all nodes came to."""

    headroom: float
    """`binding.headroomSeconds`."""
    rate: int
    pods: int
    beyond: dict[str, int]
    """By whose binding came second."""
    withdrawn: int
    """Decisions that Equipoise took back: the node was taken before the binding was sent."""
    seconds: dict[str, list[float]] = field(repr=False)
    """From creation to binding, of all pods of each side."""


def beyond(bindings: Iterable[Binding], per_node: int) -> dict[str, int]:
    """How many bindings of each side found their node full, in the API server's order."""
    taken: dict[str, int] = {}
    found = dict.fromkeys(SIDES, 0)
    for each in sorted(bindings, key=lambda binding: binding.version):
        taken[each.node] = taken.get(each.node, 0) + 1
        if taken[each.node] > per_node:
            found[each.side] += 1
    return found


@dataclass
class Filling:
    """Pods of both sides that come at a rate, and their bindings."""

    api: ApiClient
    rate: int
    each: int
    """How many pods each side gets."""
    seed: int
    began: dict[str, float] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)

    async def run(self) -> None:
        """Create the pods, and return when all have nodes."""
        answer = await self.api.get(pods_path(SPACE), limit="1")
        since = str(answer["metadata"]["resourceVersion"])
        async with asyncio.timeout(self.each / self.rate + BOUND_SECONDS):
            follower = asyncio.create_task(self._follow(since))
            try:
                async with asyncio.TaskGroup() as tasks:
                    for side in SIDES:
                        tasks.create_task(self._create(tasks, side))
                await follower
            finally:
                follower.cancel()

    async def _create(self, tasks: asyncio.TaskGroup, side: str) -> None:
        """Create the pods of one side at moments that do not depend on the other's."""
        moments = random.Random(f"{side} {self.seed}")
        due = time.perf_counter()
        for number in range(self.each):
            tasks.create_task(self._create_one(side, number))
            due += moments.expovariate(self.rate)
            await asyncio.sleep(due - time.perf_counter())

    async def _create_one(self, side: str, number: int) -> None:
        name = f"{side}-{number}"
        self.began[name] = time.perf_counter()
        await self.api.create(pods_path(SPACE), POD.pod(SPACE, name, side))

    async def _follow(self, since: str) -> None:
        while len(self.bindings) < len(SIDES) * self.each:
            async with self.api.watch(
                pods_path(SPACE), resourceVersion=since, fieldSelector="spec.nodeName!="
            ) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of pods broke: {event['object']}")
                    since = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "ADDED":
                        self._bound(event["object"])
                    if len(self.bindings) == len(SIDES) * self.each:
                        return

    def _bound(self, pod: Json) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        self.bindings[name] = Binding(
            int(pod["metadata"]["resourceVersion"]),
            spec["schedulerName"],
            spec["nodeName"],
            time.perf_counter() - self.began[name],
        )


@dataclass(frozen=True)
class Trial:
    """Both schedulers at work on one cluster."""

    api: ApiClient
    equipoise: Running
    headroom: float
    trust: ssl.SSLContext
    nodes: int

    async def round(self, rate: int, seed: int) -> Round:
        """Fill the nodes once, and empty them again."""
        before = await self._withdrawn()
        filling = Filling(self.api, rate, self.nodes * PER_NODE // len(SIDES), seed)
        await filling.run()
        withdrawn = await self._withdrawn() - before
        while await self.api.items(pods_path(SPACE), limit="1"):
            await self.api.delete(pods_path(SPACE), gracePeriodSeconds="0", limit=str(PAGE))
        await self.api.text(COLLECT_GARBAGE)
        bindings = filling.bindings.values()
        seconds = {side: [b.seconds for b in bindings if b.side == side] for side in SIDES}
        found = beyond(bindings, PER_NODE)
        return Round(self.headroom, rate, len(bindings), found, withdrawn, seconds)

    async def _withdrawn(self) -> int:
        assert self.equipoise.readyz is not None, "it serves"
        base = self.equipoise.readyz.removesuffix("/readyz")
        connector = aiohttp.TCPConnector(ssl=self.trust)
        async with (
            aiohttp.ClientSession(base, connector=connector) as session,
            session.get("/metrics") as answer,
        ):
            answer.raise_for_status()
            text = await answer.text()
        return sum(int(float(number)) for number in WITHDRAWN.findall(text))


async def _prepare(api: ApiClient, nodes: int) -> None:
    binding = {
        "metadata": {"name": "contestants"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    }
    await api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    await api.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    await api.create_all("/api/v1/nodes", (node(number, ()) for number in range(nodes)))


async def _measure(
    plane: ControlPlane,
    nodes: int,
    rates: Sequence[int],
    rounds: int,
    headrooms: Sequence[float],
    tell: Callable[[Round], None],
) -> None:
    trust = plane.certificates.trust()
    async with api_client(plane.url, plane.admin_context) as api:
        await _prepare(api, nodes)
        with Launcher(plane).start(KUBE_SCHEDULER, None) as theirs:
            await _ready(theirs, trust)
            for seed in range(rounds):
                for seconds in headrooms:
                    launcher = Launcher(plane, {"binding": {"headroomSeconds": seconds}})
                    with launcher.start(EQUIPOISE, None) as ours:
                        await _ready(ours, trust)
                        trial = Trial(api, ours, seconds, trust, nodes)
                        for rate in rates:
                            tell(await trial.round(rate, seed))


async def _ready(running: Running, trust: ssl.SSLContext) -> None:
    assert running.readyz is not None, "a scheduler serves"
    async with asyncio.timeout(START_SECONDS):
        while not await asyncio.to_thread(  # noqa: ASYNC110  the event is in another process
            answers_ok, running.readyz, trust
        ):
            await asyncio.sleep(POLL_SECONDS)


def _percentile(seconds: Sequence[float], share: float) -> float:
    ranked = sorted(seconds)
    return ranked[min(len(ranked) - 1, math.ceil(share * len(ranked)) - 1)]


def _table(results: Sequence[Round]) -> Table:
    columns = ("ours beyond", "theirs", "both per 1,000", "withdrawn")
    times = ("ours p50", "p99", "slowest", "theirs p99")
    shown = Table("headroomSeconds", "pods/s each", "pods", *columns, *times)
    for rate, headroom in sorted({(each.rate, each.headroom) for each in results}):
        rounds = [each for each in results if (each.rate, each.headroom) == (rate, headroom)]
        pods = sum(each.pods for each in rounds)
        ours, theirs = (sum(each.beyond[side] for each in rounds) for side in SIDES)
        seconds = {side: [s for each in rounds for s in each.seconds[side]] for side in SIDES}
        mine = seconds[EQUIPOISE.name]
        taken = (statistics.median(mine), _percentile(mine, 0.99), max(mine))
        shown.add_row(
            f"{headroom:g}",
            str(rate),
            f"{pods:,}",
            str(ours),
            str(theirs),
            f"{(ours + theirs) * 1000 / pods:.1f}",
            str(sum(each.withdrawn for each in rounds)),
            *(f"{value * 1000:.0f} ms" for value in taken),
            f"{_percentile(seconds[KUBE_SCHEDULER.name], 0.99) * 1000:.0f} ms",
        )
    return shown


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End cleanly as after Ctrl-C: the processes that were started end as well."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--rate", "rates", multiple=True, default=RATES, show_default=True, type=int)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--headroom",
    "headrooms",
    multiple=True,
    default=HEADROOMS,
    show_default=True,
    type=float,
    help="binding.headroomSeconds; may be repeated.",
)
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text")
def main(
    nodes: int, rates: Sequence[int], rounds: int, headrooms: Sequence[float], output: str
) -> None:
    """Count pods beyond what nodes take when two schedulers fill them at once."""
    signal.signal(signal.SIGTERM, _interrupt)
    results: list[Round] = []

    def tell(result: Round) -> None:
        results.append(result)
        found = ", ".join(
            f"{side} {number} (slowest pod {max(result.seconds[side]):.1f} s)"
            for side, number in result.beyond.items()
        )
        where = f"{result.headroom:g} s, {result.rate}/s"
        click.echo(f"{where}: beyond: {found}; withdrawn {result.withdrawn}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        ControlPlane(Path(directory), bare=True, apiserver_flags=APISERVER_FLAGS) as plane,
    ):
        try:
            asyncio.run(_measure(plane, nodes, rates, rounds, headrooms, tell))
        finally:  # what was measured before an interruption counts as well
            if output == "json":
                click.echo(json.dumps([asdict(each) for each in results]))
            else:
                Console(width=120).print(_table(results))


if __name__ == "__main__":
    main()
