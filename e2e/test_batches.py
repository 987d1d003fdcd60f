"""A backlog of 2,000 pods with contended preferences: one by one and at once, in one run."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import yaml

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import ZONE, Json, is_bound, is_rejected, node_of, pod
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace

NODES, HOT = 40, 10
BOUND, FOND = 600, 1_400
SECONDS = 1200.0
TOGETHER = 50


class Run(NamedTuple):
    """What became of the backlog."""

    placed: Counter[str]
    liked: int
    """Pods that got the zone they prefer."""


def configuration(directory: Path, *, batch: bool) -> str:
    """A configuration file with batches on or off, as an argument of the program."""
    document = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "batch": {"enabled": batch, "solverTimeout": "120s"},
    }
    file = directory / f"batch-{batch}.yaml"
    file.write_text(yaml.safe_dump(document))
    return f"--config={file}"


def backlog(run_: str) -> list[Json]:
    """Pods that would rather be in the hot zone come first, by name, then those that must be."""
    preferred = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["hot"]}]},
    }
    rather = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    fond = [
        pod(f"{run_}-1-fond-{i:04}", cpu="500m", labels={"app": "fond"}, affinity=rather)
        for i in range(FOND)
    ]
    bound = [
        pod(f"{run_}-2-bound-{i:04}", cpu="1", labels={"app": "bound"}, nodeSelector={ZONE: "hot"})
        for i in range(BOUND)
    ]
    return fond + bound


async def run(space: Workspace, scheduler: SchedulerProcess, hot: set[str]) -> Run:
    def is_settled(each: Json) -> bool:
        return is_bound(each) or is_rejected(each)

    pods = await space.wait_for_pods(BOUND + FOND, is_settled, timeout=SECONDS)
    placed = [each for each in pods if is_bound(each)]
    liked = [each for each in placed if node_of(each) in hot]
    requested = Counter[str]()
    for each in placed:
        cpu = each["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        requested[node_of(each)] += 500 if cpu == "500m" else 1000
    assert max(requested.values()) <= 64_000, "no node is over-committed"
    return Run(
        Counter(each["metadata"]["labels"]["app"] for each in placed),
        sum(each["metadata"]["labels"]["app"] == "fond" for each in liked),
    )


async def remove_pods(space: Workspace) -> None:
    # All in one request would take longer than requests may.
    names = [each["metadata"]["name"] for each in await space.api.items(space.pods)]
    for begin in range(0, len(names), TOGETHER):
        some = names[begin : begin + TOGETHER]
        await asyncio.gather(
            *(space.api.delete(f"{space.pods}/{name}", gracePeriodSeconds="0") for name in some)
        )
    await space.api.wait_until(space.pods, lambda pods: not pods["items"], timeout=SECONDS)


async def test_a_backlog_at_once_and_one_by_one(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    zones = ["hot"] * HOT + ["cold"] * (NODES - HOT)
    names = await space.add_nodes(NODES, cpu="64", memory="256Gi", zones=zones)
    hot = set(names[:HOT])
    runs = {}
    for batch in (False, True):
        await space.create_pods(backlog("at-once" if batch else "singly"))
        # Started now, it finds the whole backlog: both runs begin with the same queue.
        scheduler = launch(*NO_ELECTION, configuration(tmp_path, batch=batch))
        runs[batch] = await run(space, scheduler, hot)
        scheduler.process.stop()
        await remove_pods(space)
    one_by_one, at_once = runs[False], runs[True]
    print(f"one by one: {one_by_one}; at once: {at_once}")

    assert at_once.placed.total() == BOUND + FOND, "every pod has a node"
    assert one_by_one.placed.total() < BOUND + FOND, "one by one some do not"
    assert at_once.liked <= 2 * (HOT * 64 - BOUND), "what is left of the zone goes to the fond"
