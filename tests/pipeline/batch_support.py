"""Backlogs for tests of the batch stage, and short words for what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.flow.problem import Problem, Solution
from scheduler.flow.process import SolverProcess
from tests.builders import Json, NodeBuilder, PodBuilder, make_node, make_pod, requirement, term
from tests.pipeline.support import Stage, TickingClock

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def settings(**fields: Any) -> Json:
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "batch": {"enabled": True, "minPending": 2, "window": "0s", **fields},
    }


def stage(**fields: Any) -> Stage:
    return Stage(config=(settings(**fields),), clock=TickingClock())


def node(name: str, cpu: int = 4, **labels: str) -> NodeBuilder:
    keys = {HOST: name, **labels}
    return make_node(name).cpu(cpu).memory("64Gi").pods(20).label(**keys)


def pod(name: str, cpu: str | int = 1) -> PodBuilder:
    return make_pod(name).cpu(cpu).memory("1Gi")


def rather(pod_: PodBuilder, weight: int, **labels: str) -> PodBuilder:
    """A pod that prefers nodes with these labels."""
    wanted = term(*(requirement(key, "In", value) for key, value in labels.items()))
    preferred = [{"weight": weight, "preference": wanted}]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return pod_.spec(affinity={"nodeAffinity": affinity})


def must(pod_: PodBuilder, **labels: str) -> PodBuilder:
    return pod_.spec(nodeSelector=labels)


def contended(count: int = 8) -> tuple[list[NodeBuilder], list[PodBuilder]]:
    """A hot pool for half of the pods: some like it a little, and came first; others only it."""
    nodes = [node(f"hot-{i}", pool="hot") for i in range(2)]
    nodes += [node(f"cold-{i}", pool="cold") for i in range(2)]
    easy = [rather(pod(f"easy-{i}"), 100, pool="hot") for i in range(count)]
    bound = [must(pod(f"bound-{i}"), pool="hot") for i in range(count)]
    return nodes, easy + bound


async def at_once(stage_: Stage) -> None:
    """Place the backlog at once, then whatever is left, and let all bindings end."""
    batches = stage_.core.scheduler.batches
    # A test may have put its own in place of the core's.
    solvers = (stage_.core.solver, batches._solver if batches is not None else None)
    try:
        while await stage_.core.scheduler.run_batch():
            await stage_.idle()
        await stage_.run()
    finally:
        for solver in solvers:
            if isinstance(solver, SolverProcess):
                await solver.close()


def where(stage_: Stage) -> dict[str, str]:
    return {key.split("/")[1]: node_ for key, node_ in stage_.outlet.bound}


def overcommitted(stage_: Stage) -> list[str]:
    columns = stage_.core.state.columns
    return [
        stage_.core.state.name(int(row))
        for row in stage_.core.state.rows()
        if (columns.requested[:, row] > columns.allocatable[:, row]).any()
        or columns.pod_count[row] > columns.pod_limit[row]
    ]


class Interrupted(SolverProcess):
    """The real solver; something happens in the cluster while it computes."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__(60.0)
        self._happens = happens

    async def solve(self, problem: Problem) -> Solution:
        solution = await super().solve(problem)
        self._happens()
        return solution


def interrupt(stage_: Stage, happens: Callable[[], None]) -> None:
    """Have something happen, once, while the solver computes."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            happens()

    batches = stage_.core.scheduler.batches
    assert batches is not None
    batches._solver = Interrupted(once)


def result(stage_: Stage) -> str:
    batches = stage_.core.scheduler.batches
    assert batches is not None
    return batches.reports[0].result
