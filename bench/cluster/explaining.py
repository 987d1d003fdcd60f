"""``make bench-explain``: what explanations cost while pods are placed, on a real API server.

Equipoise places pods on one cluster in turn after turn. In every second turn somebody asks it,
many times a second, why a pod that fits nowhere does not fit, with facts and remedies. The ratio
of the two rates is what the questions cost the pods; the time of each answer is noted too.
"""

import asyncio
import ssl
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from bench.cluster.arena import prepare
from bench.cluster.contestants import EQUIPOISE, Launcher, Running
from bench.cluster.measuring import Course
from bench.cluster.running import APISERVER_FLAGS
from bench.cluster.templates import UNFIT
from bench.cluster.workloads import LARGE, WORKLOADS
from e2e.harness.client import api_client
from e2e.harness.cluster import ControlPlane

ASKED = f"{UNFIT}/pod-0"


@dataclass
class Visitor:
    """Asks for one explanation after the other at a steady rate, and notes how long each took."""

    trust: ssl.SSLContext
    per_second: float
    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    largest: int = 0

    async def ask(self, running: Running) -> None:
        """Ask until cancelled; questions do not wait for each other's answers, and are not cut."""
        assert running.readyz is not None, "it serves"
        url = running.readyz.removesuffix("/readyz") + "/api/v1/explain"
        connector = aiohttp.TCPConnector(ssl=self.trust)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            asyncio.TaskGroup() as tasks,
        ):
            start, number = time.perf_counter(), 0
            with suppress(asyncio.CancelledError):
                while True:
                    tasks.create_task(self._ask_once(session, url))
                    number += 1
                    await asyncio.sleep(start + number / self.per_second - time.perf_counter())

    async def _ask_once(self, session: aiohttp.ClientSession, url: str) -> None:
        began = time.perf_counter()
        try:
            async with session.get(url, params={"pod": ASKED}) as answer:
                answer.raise_for_status()
                body = await answer.read()
        except aiohttp.ClientError:
            self.refused += 1
            return
        self.seconds.append(time.perf_counter() - began)
        self.largest = max(self.largest, len(body))


@dataclass(frozen=True)
class Outcome:
    """The rates of all turns, and how the answers were."""

    alone: list[float]
    asked: list[float]
    visitor: Visitor

    @property
    def ratio(self) -> float:
        """The rate while questions are asked, of that without."""
        return statistics.median(self.asked) / statistics.median(self.alone)


async def _alternate(
    plane: ControlPlane, nodes: int, pods: int | None, rounds: int, per_second: float
) -> Outcome:
    workload = WORKLOADS["SchedulingBasic"]
    size = replace(workload.size(nodes), unfit=1)
    size = replace(size, measured=pods or size.measured)
    trust = plane.certificates.trust()
    visitor = Visitor(trust, per_second)
    alone: list[float] = []
    asked: list[float] = []
    async with api_client(plane.url, plane.admin_context) as api:
        arena = await prepare(api, workload, size, lambda text: click.echo(text, err=True))
        course = Course(arena, Launcher(plane), trust, plane.pids)
        for number in range(2 * rounds):
            # Both orders in turn, so that none has always the warmer machine.
            with_questions = number % 4 in (1, 2)
            turn = replace(course, beside=visitor.ask) if with_questions else course
            measured = await turn.run(EQUIPOISE, lambda: None)
            (asked if with_questions else alone).append(measured.pods_per_second)
            name = "asked" if with_questions else "alone"
            click.echo(f"{name}: {measured.pods_per_second:.0f} pods/s", err=True)
    return Outcome(alone, asked, visitor)


def _show(outcome: Outcome) -> None:
    visitor = outcome.visitor
    shown = Table("", "pods/s, median", "all turns")
    for name, rates in (("alone", outcome.alone), ("asked", outcome.asked)):
        turns = ", ".join(f"{rate:.0f}" for rate in rates)
        shown.add_row(name, f"{statistics.median(rates):.0f}", turns)
    Console(width=100).print(shown)
    times = sorted(visitor.seconds)
    if not times:
        raise click.ClickException(f"no answer, {visitor.refused} refused")
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    click.echo(
        f"{len(times)} answers of up to {visitor.largest >> 10} KiB, {visitor.refused} refused: "
        f"median {statistics.median(times) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; "
        f"ratio of the rates {outcome.ratio:.3f}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=LARGE, show_default=True, type=click.IntRange(min=3))
@click.option("--pods", type=click.IntRange(min=2), help="How many pods to time in a turn.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--per-second", default=20.0, show_default=True, help="How many questions.")
def main(nodes: int, pods: int | None, rounds: int, per_second: float) -> None:
    """Place pods with and without questions beside, in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        ControlPlane(Path(directory), bare=True, apiserver_flags=APISERVER_FLAGS) as plane,
    ):
        _show(asyncio.run(_alternate(plane, nodes, pods, rounds, per_second)))


if __name__ == "__main__":
    main()
