"""``make bench-page``: what open pages and a recording cost while pods are placed.

Equipoise places pods on one real API server in turn after turn. In every second turn five readers
do what five open pages do, each at the page's own intervals: two show the overview, which follows
the stream, one the pending pods, one the map of nodes, one the decisions; and the scheduler records
what it sees and decides; ``--only`` has one of the two. They are HTTP clients, not browsers: five
browsers on two cores would take CPU from the API server and the scheduler alike, and the ratio
would say nothing of either. Beside the rates stands the CPU time of the scheduler for a pod, which
other work on the machine changes less.
"""

import asyncio
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from bench.cluster.arena import prepare
from bench.cluster.contestants import EQUIPOISE, Contestant, Launcher, Running
from bench.cluster.measuring import Course, Measurement
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
PATIENT = 12
"""A page waits for so many times as long as an answer took, if that is longer (`resource.ts`)."""


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
            await asyncio.sleep(max(every, PATIENT * (time.perf_counter() - began)))

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


PAGES_ONLY, RECORDING_ONLY = "pages", "recording"


@dataclass(frozen=True)
class Outcome:
    """What all turns showed, and what the readers saw."""

    alone: list[Measurement]
    watched: list[Measurement]
    readers: Readers
    recorded: int

    def ratio(self, of: Callable[[Measurement], float]) -> float:
        """The median while pages are open, of that without."""
        return statistics.median(map(of, self.watched)) / statistics.median(map(of, self.alone))


def rate(turn: Measurement) -> float:
    """Pods a second."""
    return turn.pods_per_second


def cpu(turn: Measurement) -> float:
    """Milliseconds of the scheduler for a pod."""
    return turn.cpu_ms_per_pod


async def _alternate(
    plane: ControlPlane, nodes: int, pods: int | None, rounds: int, only: str | None
) -> Outcome:
    workload = WORKLOADS["SchedulingBasic"]
    size = workload.size(nodes)
    size = replace(size, measured=pods or size.measured)
    trust = plane.certificates.trust()
    readers = Readers(trust)
    records = plane.directory / "recording"
    alone: list[Measurement] = []
    watched: list[Measurement] = []
    async with api_client(plane.url, plane.admin_context) as api:
        arena = await prepare(api, workload, size, lambda text: click.echo(text, err=True))
        course = Course(arena, Launcher(plane), trust, plane.pids)
        beside = course if only == RECORDING_ONLY else replace(course, beside=readers.look)
        contestant = EQUIPOISE if only == PAGES_ONLY else recording(records)
        for number in range(2 * rounds):
            # Both orders in turn, so that none has always the warmer machine.
            other = number % 4 in (1, 2)
            turn = await (beside if other else course).run(
                contestant if other else EQUIPOISE, lambda: None
            )
            (watched if other else alone).append(turn)
            said = f"{rate(turn):.0f} pods/s, {cpu(turn):.3f} ms of CPU a pod"
            servers = f"API server and etcd {turn.server_ms_per_pod:.2f}"
            click.echo(f"{'watched' if other else 'alone'}: {said} ({servers})", err=True)
    recorded = sum(each.stat().st_size for each in records.rglob("*") if each.is_file())
    return Outcome(alone, watched, readers, recorded)


def _show(outcome: Outcome, only: str | None) -> None:
    readers = outcome.readers
    shown = Table("", "pods/s, median", "all turns", "ms of CPU a pod, median", "all turns")
    other = {None: "watched, recorded", PAGES_ONLY: "watched", RECORDING_ONLY: "recorded"}[only]
    for name, turns in (("alone", outcome.alone), (other, outcome.watched)):
        shown.add_row(
            name,
            f"{statistics.median(map(rate, turns)):.0f}",
            ", ".join(f"{rate(turn):.0f}" for turn in turns),
            f"{statistics.median(map(cpu, turns)):.3f}",
            ", ".join(f"{cpu(turn):.3f}" for turn in turns),
        )
    Console(width=120).print(shown)
    if only != RECORDING_ONLY and not readers.seconds:
        raise click.ClickException("nothing was read")
    if only != PAGES_ONLY and not outcome.recorded:
        raise click.ClickException("nothing was recorded")
    if readers.seconds:
        median = statistics.median(readers.seconds) * 1000
        answers = f"{readers.answers} answers ({readers.read >> 10} KiB), {readers.refused} refused"
        click.echo(f"{answers}, median {median:.0f} ms")
    click.echo(
        f"{outcome.recorded >> 10} KiB recorded; ratio of the rates {outcome.ratio(rate):.3f}, "
        f"of the CPU {outcome.ratio(cpu):.3f}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=LARGE, show_default=True, type=click.IntRange(min=3))
@click.option("--pods", type=click.IntRange(min=2), help="How many pods to time in a turn.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--only", type=click.Choice([PAGES_ONLY, RECORDING_ONLY]), help="Only this; default: both."
)
def main(nodes: int, pods: int | None, rounds: int, only: str | None) -> None:
    """Place pods with and without open pages and a recording, in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory,
        ControlPlane(Path(directory), bare=True, apiserver_flags=APISERVER_FLAGS) as plane,
    ):
        _show(asyncio.run(_alternate(plane, nodes, pods, rounds, only)), only)


if __name__ == "__main__":
    main()
