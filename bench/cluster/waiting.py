"""A pod that fits, among thousands of distinct pods that do not: how long until it has a node?

The published flood has equal pods. Here every waiting pod is a class of its own, and pods that go
free room in which none of them fits. Two things are timed, for each scheduler in turn on one
cluster: a single pod created right after many pods were deleted at once, and a stream of pods with
deletions going on beside it.
"""

import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.cluster.arena import COLLECT_GARBAGE, PAGE
from bench.cluster.contestants import EQUIPOISE, GROUP, KUBE_SCHEDULER, Contestant, Launcher
from bench.cluster.run import pods_path
from bench.cluster.running import APISERVER_FLAGS
from bench.cluster.templates import Template, node, node_name
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.objects import Json, condition

WAITING, PROBES, ORDINARY = "waiting", "probes", "ordinary"
ORDINARY_POD = Template(milli_cpu=500)
PER_NODE = 4
PROBE = Template(milli_cpu=10)
DELETED = 300
STREAM_PER_SECOND, DELETIONS_PER_SECOND = 200, 100
SIZES = tuple((nodes, waiting) for nodes in (500, 5_000) for waiting in (1_000, 4_000, 10_000))
CONTESTANTS = (KUBE_SCHEDULER, EQUIPOISE)
JUDGED_SECONDS = 900.0
BOUND_SECONDS = 300.0
WATCH_ENDED = "the watch ended before all pods had a node"


@dataclass(frozen=True)
class Times:
    """What one scheduler took, in seconds."""

    probes: list[float]
    """From the creation of each single pod until it had a node; infinite if that took too long."""
    stream: list[float]
    """The same for each pod of the stream."""

    @property
    def probe(self) -> float:
        """The slowest single pod."""
        return max(self.probes)

    def percentile(self, share: float) -> float:
        """How long the pods of the stream took, but for the slowest."""
        ranked = sorted(self.stream)
        return ranked[min(len(ranked) - 1, math.ceil(share * len(ranked)) - 1)]


@dataclass(frozen=True)
class Trial:
    """One size on one cluster."""

    api: ApiClient
    launcher: Launcher
    nodes: int
    waiting: int
    rounds: int
    seconds: float

    async def time(self, contestant: Contestant) -> Times:
        """Let one scheduler run among the waiting pods."""
        await self._create_ordinary()
        await self.api.create_all(
            pods_path(WAITING), (distinct(each, contestant.name) for each in range(self.waiting))
        )
        await self.api.text(COLLECT_GARBAGE)
        with self.launcher.start(contestant, None):
            await self._all_judged()
            probes = [await self._probe(each, contestant.name) for each in range(self.rounds)]
            stream = await self._stream(contestant.name) if self.seconds else []
        for namespace in (WAITING, PROBES, ORDINARY):
            await self._clear(namespace)
        return Times(probes, stream)

    async def _create_ordinary(self) -> None:
        await self.api.create_all(
            pods_path(ORDINARY),
            (
                ORDINARY_POD.pod(ORDINARY, f"{number}-{each}", "nobody", node=node_name(number))
                for each in range(PER_NODE)
                for number in range(self.nodes)
            ),
        )

    async def _all_judged(self) -> None:
        async with asyncio.timeout(JUDGED_SECONDS):
            while True:
                pods = await self.api.items(pods_path(WAITING), resourceVersion="0")
                if all(condition(each, "PodScheduled") for each in pods):
                    return
                await asyncio.sleep(1.0)

    async def _probe(self, number: int, scheduler: str) -> float:
        """Delete many pods at once, and create one right after."""
        names = (f"{each}-{number}" for each in range(min(DELETED, self.nodes)))
        await asyncio.gather(*(self._delete(name) for name in names))
        async with self._bindings() as bound:
            began = time.perf_counter()
            await self.api.create(
                pods_path(PROBES), PROBE.pod(PROBES, f"probe-{number}", scheduler)
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(BOUND_SECONDS):
                    async for _ in bound:
                        return time.perf_counter() - began
                raise RuntimeError(WATCH_ENDED)
        return math.inf

    async def _stream(self, scheduler: str) -> list[float]:
        """Create and delete pods at a steady rate, and see when each created one has a node."""
        total = int(self.seconds * STREAM_PER_SECOND)
        began: dict[str, float] = {}
        taken: list[float] = []

        async def create(number: int) -> None:
            name = f"stream-{number}"
            began[name] = time.perf_counter()
            await self.api.create(pods_path(PROBES), PROBE.pod(PROBES, name, scheduler))

        async def follow(bound: AsyncIterator[Json]) -> None:
            async for event in bound:
                name = event["object"]["metadata"]["name"]
                if event["type"] == "ADDED" and name in began:
                    taken.append(time.perf_counter() - began[name])
                if len(taken) == total:
                    return

        left = [f"{n}-{each}" for each in range(self.rounds, PER_NODE) for n in range(self.nodes)]
        async with self._bindings() as bound, asyncio.TaskGroup() as tasks:
            follower = tasks.create_task(follow(bound))
            start = time.perf_counter()
            for number in range(total):
                tasks.create_task(create(number))
                if number % (STREAM_PER_SECOND // DELETIONS_PER_SECOND) == 0 and left:
                    tasks.create_task(self._delete(left.pop()))
                await asyncio.sleep(start + (number + 1) / STREAM_PER_SECOND - time.perf_counter())
            await asyncio.wait([follower], timeout=BOUND_SECONDS)
            if follower.done() and len(taken) < total:
                raise RuntimeError(WATCH_ENDED)
            follower.cancel()
        return taken + [math.inf] * (total - len(taken))

    @asynccontextmanager
    async def _bindings(self) -> AsyncIterator[AsyncIterator[Json]]:
        """Pods of the probes' namespace as they get nodes; the API server leaves out the others."""
        answer = await self.api.get(pods_path(PROBES), limit="1")
        async with self.api.watch(
            pods_path(PROBES),
            fieldSelector="spec.nodeName!=",
            resourceVersion=answer["metadata"]["resourceVersion"],
        ) as events:
            yield events

    async def _delete(self, name: str) -> None:
        await self.api.delete(f"{pods_path(ORDINARY)}/{name}", gracePeriodSeconds="0")

    async def _clear(self, namespace: str) -> None:
        while await self.api.items(pods_path(namespace), limit="1"):
            await self.api.delete(pods_path(namespace), gracePeriodSeconds="0", limit=str(PAGE))


def distinct(number: int, scheduler: str) -> Json:
    """A pod like no other: larger than any room that there is or will be, smaller than a node."""
    body = Template(milli_cpu=3_500 + number % 500).pod(WAITING, f"pod-{number}", scheduler)
    amounts = body["spec"]["containers"][0]["resources"]
    for each in ("requests", "limits"):
        amounts[each] = {**amounts[each], "memory": f"{500 + number // 500}Mi"}
    return body


async def _time_all(
    plane: ControlPlane,
    nodes: int,
    waiting: int,
    rounds: int,
    seconds: float,
    contestants: Sequence[Contestant],
) -> dict[str, Times]:
    async with api_client(plane.url, plane.admin_context) as api:
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
        spaces = [{"metadata": {"name": name}} for name in (WAITING, PROBES, ORDINARY)]
        await api.create_all("/api/v1/namespaces", spaces)
        await api.create_all("/api/v1/nodes", (node(number, ()) for number in range(nodes)))
        trial = Trial(api, Launcher(plane), nodes, waiting, rounds, seconds)
        return {each.name: await trial.time(each) for each in contestants}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", multiple=True, type=int, help="How many nodes; may be repeated.")
@click.option("--waiting", multiple=True, type=int, help="How many distinct pods; likewise.")
@click.option(
    "--only", type=click.Choice([each.name for each in CONTESTANTS]), help="Only this one."
)
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(1, PER_NODE - 1))
@click.option("--seconds", default=60.0, show_default=True, help="How long the stream lasts.")
def main(
    nodes: Sequence[int], waiting: Sequence[int], only: str | None, rounds: int, seconds: float
) -> None:
    """Time pods that fit among distinct pods that do not, by both schedulers in turn."""
    contestants = [each for each in CONTESTANTS if only in (None, each.name)]
    shown = Table("nodes", "waiting", "scheduler", "probe", "stream p50", "p99", "slowest")
    for count, pods in SIZES:
        if (nodes and count not in nodes) or (waiting and pods not in waiting):
            continue
        click.echo(f"{count} nodes, {pods} distinct pods wait", err=True)
        with (
            tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
            ControlPlane(Path(directory), bare=True, apiserver_flags=APISERVER_FLAGS) as plane,
        ):
            times = asyncio.run(_time_all(plane, count, pods, rounds, seconds, contestants))
        for name, each in times.items():
            stream = (
                [statistics.median(each.stream), each.percentile(0.99), max(each.stream)]
                if each.stream
                else []
            )
            shown.add_row(
                f"{count:,}",
                f"{pods:,}",
                name,
                _seconds(each.probe),
                *(_seconds(value) for value in stream),
            )
    Console(width=110).print(shown)


def _seconds(value: float) -> str:
    """A time, or that it was longer than anybody waited."""
    return f"> {BOUND_SECONDS:.0f} s" if math.isinf(value) else f"{value:.2f} s"


if __name__ == "__main__":
    main()
