"""``make bench``: Equipoise beside kube-scheduler on a real etcd and kube-apiserver."""

import asyncio
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.bench.arena import prepare
from e2e.bench.contestants import CONTESTANTS, EQUIPOISE, KUBE_SCHEDULER, Launcher
from e2e.bench.machine import Machine
from e2e.bench.measuring import BenchError, Course
from e2e.bench.report import Report, Round
from e2e.bench.workloads import WORKLOADS, Workload, capacity
from e2e.harness.client import api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.processes import StartError

# Nobody reports nodes ready here, and no controller makes service accounts.
ADMISSION = "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"


@dataclass(frozen=True)
class Plan:
    """What to run."""

    nodes: int
    pods: int
    rounds: int
    workloads: tuple[Workload, ...]
    fairness: bool


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=500, show_default=True, type=click.IntRange(min=3))
@click.option("--pods", default=1_000, show_default=True, type=click.IntRange(min=2))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--workload",
    "names",
    multiple=True,
    default=["basic"],
    show_default=True,
    type=click.Choice(list(WORKLOADS)),
    help="What to schedule; may be given more than once.",
)
@click.option(
    "--apf/--no-apf", default=True, show_default=True, help="API Priority and Fairness, for both."
)
@click.option("-o", "output", type=click.Choice(["text", "json"]), default="text")
def main(
    nodes: int, pods: int, rounds: int, names: tuple[str, ...], apf: bool, output: str
) -> None:
    """Measure Equipoise and kube-scheduler in turn, on one cluster, with the same pods."""
    if pods > capacity(nodes):
        raise click.UsageError(f"{nodes} nodes take at most {capacity(nodes)} pods")
    plan = Plan(nodes, pods, rounds, tuple(WORKLOADS[name] for name in names), apf)
    # Whoever asks us to end gets the same clean ending as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = _bench(plan)
    except (BenchError, StartError, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.as_json() if output == "json" else report.as_text())


def _bench(plan: Plan) -> Report:
    flags = [ADMISSION, f"--enable-priority-and-fairness={str(plan.fairness).lower()}"]
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory:
        _tell("starting etcd and kube-apiserver")
        with ControlPlane(Path(directory), bare=True, apiserver_flags=flags) as plane:
            workloads = asyncio.run(_rounds(plan, plane))
    return Report(Machine.this(), plan.nodes, plan.pods, plan.fairness, workloads)


async def _rounds(plan: Plan, plane: ControlPlane) -> dict[str, list[Round]]:
    async with api_client(plane.url, plane.admin_context) as api:
        _tell(f"creating {plan.nodes} nodes")
        arena = await prepare(api, plan.nodes)
        course = Course(arena, Launcher(plane), plane.certificates.trust())
        return {
            workload.name: [
                await _round(course, workload, plan.pods, number) for number in range(plan.rounds)
            ]
            for workload in plan.workloads
        }


async def _round(course: Course, workload: Workload, pods: int, number: int) -> Round:
    """One run of each. Who begins changes from round to round, so that drift favours nobody."""
    results = {}
    for contestant in CONTESTANTS if number % 2 == 0 else reversed(CONTESTANTS):
        name = f"{workload.name}-{number + 1}-{contestant.name}"
        result = results[contestant.name] = await course.run(contestant, workload, pods, name)
        _tell(f"{name}: {result.pods_per_second:.0f} pods/s")
    return Round(results[KUBE_SCHEDULER.name], results[EQUIPOISE.name])


def _tell(progress: str) -> None:
    click.echo(progress, err=True)


if __name__ == "__main__":
    main()
