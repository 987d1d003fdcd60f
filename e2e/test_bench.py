"""``make bench`` runs both schedulers and notices a placement that no scheduler may make."""

import asyncio
import json
import sys
from typing import Any

import pytest

from e2e.bench.contestants import adaptive_sample
from e2e.bench.workloads import PODS_PER_NODE, WORKLOADS, ZONES, Placement

BENCH_SECONDS = 240.0
SHAPE = {
    "pods",
    "pods_per_second",
    "start_seconds",
    "scheduling_seconds",
    "events",
    "events_seconds",
    "cpu_seconds",
    "cpu_ms_per_pod",
    "peak_memory_mib",
    "nodes_used",
    "load_average",
    "calibration_ms",
}


async def bench(*arguments: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "e2e.bench", "-o", "json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, complaints = await asyncio.wait_for(process.communicate(), BENCH_SECONDS)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    document: dict[str, Any] = json.loads(output)
    return document


async def test_both_schedulers_are_measured_on_the_same_cluster() -> None:
    document = await bench("--nodes", "20", "--pods", "40", "--rounds", "1")

    assert document["nodes_scored"] == {"kube-scheduler": 20, "equipoise": 20}
    assert document["versions"].keys() == {"kube-scheduler", "equipoise", "kube-apiserver", "etcd"}
    (basic,) = document["workloads"].values()
    (only,) = basic["rounds"]
    kube, ours = only["kube-scheduler"], only["equipoise"]
    assert basic["median_ratio"] == only["ratio"]
    assert only["ratio"] == pytest.approx(ours["pods_per_second"] / kube["pods_per_second"])
    for measured in (kube, ours):
        assert measured.keys() == SHAPE
        assert measured["pods"] == measured["events"] == 40
        assert measured["nodes_used"] in range(1, 21)
        assert all(measured[key] > 0 for key in ("pods_per_second", "cpu_seconds"))


def placed(node: int, zone: int, group: int = 0) -> Placement:
    return Placement(f"node-{node}", f"zone-{zone}", f"group-{group}")


@pytest.mark.parametrize(
    ("workload", "placements", "fault"),
    [
        pytest.param(
            "basic", [placed(0, 0)] * PODS_PER_NODE, None, id="a node may be filled to the brim"
        ),
        pytest.param(
            "basic",
            [placed(0, 0)] * (PODS_PER_NODE + 1),
            "41 pods on node-0",
            id="but not over it",
        ),
        pytest.param(
            "anti-affinity",
            [placed(0, 0, group=0), placed(0, 0, group=1), placed(1, 1, group=0)],
            None,
            id="groups may share a node",
        ),
        pytest.param(
            "anti-affinity",
            [placed(0, 0), placed(1, 1), placed(1, 1)],
            "2 pods of group-0 on node-1",
            id="members of a group may not",
        ),
        pytest.param(
            "affinity",
            [placed(0, 0, group=0), placed(3, 0, group=0), placed(1, 1, group=1)],
            None,
            id="each group stays in a zone",
        ),
        pytest.param(
            "affinity",
            [placed(0, 0), placed(1, 1)],
            "group-0 is in zones ['zone-0', 'zone-1']",
            id="a group in two zones",
        ),
        pytest.param(
            "spread",
            [placed(number, number % ZONES) for number in range(20)],
            None,
            id="a group is spread evenly",
        ),
        pytest.param(
            "spread",
            [placed(number, 0) for number in range(6)],
            "group-0 is spread unevenly: [0, 0, 6]",
            id="zones without pods count",
        ),
    ],
)
def test_faults(workload: str, placements: list[Placement], fault: str | None) -> None:
    assert WORKLOADS[workload].fault(placements) == fault


@pytest.mark.parametrize(
    ("nodes", "scored"),
    [(20, 20), (100, 100), (500, 230), (1_000, 420), (5_000, 500), (15_000, 750)],
)
def test_adaptive_sample(nodes: int, scored: int) -> None:
    assert adaptive_sample(nodes) == scored
