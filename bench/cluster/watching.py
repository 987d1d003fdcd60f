"""``make bench-page``: what open pages and a recording cost while pods are placed.

Equipoise places pods on one real API server in turn after turn. In every second turn five readers
do what five open pages do, each at the page's own intervals: two show the overview, which follows
the stream, one the pending pods, one the map of nodes, one the decisions; and the scheduler records
what it sees and decides. They are HTTP clients, not browsers: five browsers on two cores would
take CPU from the API server and the scheduler alike, and the ratio would say nothing of either.
"""

import asyncio
import ssl
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from bench.cluster.arena import prepare
from bench.cluster.contestants import EQUIPOISE, Contestant, Launcher, Running
from bench.cluster.measuring import Course
from bench.cluster.running import APISERVER_FLAGS
from bench.cluster.workloads import LARGE, WORKLOADS
from e2e.harness.client import api_client
from e2e.harness.cluster import ControlPlane

STREAM = "/api/v1/stream"
PAGES: tuple[tuple[tuple[str, float], ...], ...] = (
    (("/api/v1/overview", 10.0), (STREAM, 0.0)),
    (("/api/v1/overview", 10.0), (STREAM, 0.0)),
    (("/api/v1/queue?group=true&limit=200", 3.0),),
    (("/api/v1/nodes?view=map&resource=cpu", 5.0),),
    (("/api/v1/decisions?limit=500", 60.0), (STREAM, 0.0)),
)
"""What each page asks for, and every how many seconds; 0: it reads on for ever."""


@dataclass
class Readers:
    """Five pages that are open beside a turn, and what they read."""

    trust: ssl.SSLContext
    answers: int = 0
    refused: int = 0
    read: int = 0
    seconds: list[float] = field(default_factory=list)

    async def look(self, running: Running) -> None:
        """Until cancelled."""
        assert running.readyz is not None, "it serves"
        base = running.readyz.removesuffix("/readyz")
        connector = aiohttp.TCPConnector(ssl=self.trust)
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(base, connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for page in PAGES:
                for path, every in page:
                    work = self._poll(session, path, every) if every else self._follow(session)
                    tasks.create_task(work)

    async def _poll(self, session: aiohttp.ClientSession, path: str, every: float) -> None:
        while True:
            began = time.perf_counter()
            try:
                async with session.get(path) as answer:
                    answer.raise_for_status()
                    self.read += len(await answer.read())
            except aiohttp.ClientError:
                self.refused += 1
            else:
                self.answers += 1
                self.seconds.append(time.perf_counter() - began)
            await asyncio.sleep(every)

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        while True:
            try:
                async with session.get(STREAM) as answer:
                    answer.raise_for_status()
                    self.answers += 1
                    async for chunk in answer.content.iter_any():
                        self.read += len(chunk)
            except aiohttp.ClientError:
                self.refused += 1
            await asyncio.sleep(1)


def recording(directory: Path) -> Contestant:
    """Equipoise, recording into a directory."""
    program = EQUIPOISE.program
    return replace(EQUIPOISE, program=lambda: [*program(), f"--record={directory}"])


@dataclass(frozen=True)
class Outcome:
    """The rates of all turns in pods a second, and what the readers saw."""

    alone: list[float]
    watched: list[float]
    readers: Readers
    recorded: int

    @property
    def ratio(self) -> float:
        """The rate while pages are open, of that without."""
        return statistics.median(self.watched) / statistics.median(self.alone)


async def _alternate(plane: ControlPlane, nodes: int, pods: int | None, rounds: int) -> Outcome:
    workload = WORKLOADS["SchedulingBasic"]
    size = workload.size(nodes)
    size = replace(size, measured=pods or size.measured)
    trust = plane.certificates.trust()
    readers = Readers(trust)
    records = plane.directory / "recording"
    alone: list[float] = []
    watched: list[float] = []
    async with api_client(plane.url, plane.admin_context) as api:
        arena = await prepare(api, workload, size, lambda text: click.echo(text, err=True))
        course = Course(arena, Launcher(plane), trust, plane.pids)
        for number in range(2 * rounds):
            # Both orders in turn, so that none has always the warmer machine.
            if number % 4 in (1, 2):
                turn = replace(course, beside=readers.look)
                measured = await turn.run(recording(records), lambda: None)
                watched.append(measured.pods_per_second)
            else:
                measured = await course.run(EQUIPOISE, lambda: None)
                alone.append(measured.pods_per_second)
            name = "watched" if number % 4 in (1, 2) else "alone"
            click.echo(f"{name}: {measured.pods_per_second:.0f} pods/s", err=True)
    recorded = sum(each.stat().st_size for each in records.rglob("*") if each.is_file())
    return Outcome(alone, watched, readers, recorded)


def _show(outcome: Outcome) -> None:
    readers = outcome.readers
    shown = Table("", "pods/s, median", "all turns")
    for name, rates in (("alone", outcome.alone), ("watched, recorded", outcome.watched)):
        turns = ", ".join(f"{rate:.0f}" for rate in rates)
        shown.add_row(name, f"{statistics.median(rates):.0f}", turns)
    Console(width=100).print(shown)
    if not readers.seconds or not outcome.recorded:
        raise click.ClickException("nothing was read or nothing was recorded")
    click.echo(
        f"{readers.answers} answers ({readers.read >> 10} KiB), {readers.refused} refused, median "
        f"{statistics.median(readers.seconds) * 1000:.0f} ms; {outcome.recorded >> 10} KiB "
        f"recorded; ratio of the rates {outcome.ratio:.3f}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=LARGE, show_default=True, type=click.IntRange(min=3))
@click.option("--pods", type=click.IntRange(min=2), help="How many pods to time in a turn.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
def main(nodes: int, pods: int | None, rounds: int) -> None:
    """Place pods with and without open pages and a recording, in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        ControlPlane(Path(directory), bare=True, apiserver_flags=APISERVER_FLAGS) as plane,
    ):
        _show(asyncio.run(_alternate(plane, nodes, pods, rounds)))


if __name__ == "__main__":
    main()
