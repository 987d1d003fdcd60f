"""The daemon's memory stays in proportion to what it watches, and goes when that goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders import make_pod
from tests.daemon.flood import DaemonProcess, FloodServer
from tests.daemon.support import Cluster, eventually, running_daemon

PODS, LABELS = 40, 20_000
MANY = 30_000
PEAK_FACTOR = 12
LEFT_FACTOR = 1.3
WAITING_LEFT_FACTOR = 1.4
"""For very many small pods that are attempted: their events are kept for some minutes."""
IN_CACHE = 'scheduler_cache_size{type="pods"}'
NODES = 'scheduler_cache_size{type="nodes"}'
WAITING = 'scheduler_pending_pods{queue="unschedulable"}'


def pod(number: int) -> dict[str, Any]:
    """A pod of another scheduler with very many labels, none of them like another pod's."""
    labels = {f"k{i:05}": f"v{number}-{i}" for i in range(LABELS)}
    return make_pod(f"p{number}").scheduler("another").on("n").label(**labels).obj()


def tolerant(number: int) -> dict[str, Any]:
    """A pod with very many tolerations."""
    tolerations = [{"key": f"k{number}-{i}", "operator": "Exists"} for i in range(15_000)]
    return make_pod(f"p{number}").scheduler("another").on("n").spec(tolerations=tolerations).obj()


def choosy(number: int) -> dict[str, Any]:
    """A pod with very many values in its node affinity."""
    values = [f"v{number}-{i}" for i in range(40_000)]
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    builder = make_pod(f"p{number}").scheduler("another").on("n")
    return builder.spec(affinity={"nodeAffinity": required}).obj()


def small(number: int) -> dict[str, Any]:
    """A pod as small as most are."""
    builder = make_pod(f"p{number}").scheduler("another").on("n").cpu("100m")
    return builder.label(app=f"a{number % 100}").obj()


async def test_what_the_first_sync_brings_is_frozen(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    async def freezing(sync: Awaitable[None]) -> None:
        await sync
        steps.append("freezes while it syncs")

    monkeypatch.setattr("scheduler.process.freeze_while_syncing", freezing)
    monkeypatch.setattr("scheduler.process.freeze_after_sync", lambda: steps.append("freezes"))
    async with running_daemon(cluster):
        await eventually(lambda: len(steps) == 2, "both are called")
    assert steps == ["freezes while it syncs", "freezes"]


@pytest.mark.slow
async def test_very_many_small_pods_leave_no_memory(tmp_path: Path) -> None:
    async with FloodServer() as server, DaemonProcess.running(server, tmp_path) as daemon:
        await daemon.reaches(NODES, 1)
        await daemon.is_ready()
        start, sent = daemon.resident, 0
        for number in range(MANY):
            sent += await server.send("ADDED", small(number))
        await daemon.reaches(IN_CACHE, MANY)
        for number in range(MANY):
            await server.send("DELETED", small(number))
        await daemon.reaches(IN_CACHE, 0)
        assert daemon.peak - start <= PEAK_FACTOR * sent
        await daemon.shrinks_to(LEFT_FACTOR * start)


def hopeless(number: int) -> dict[str, Any]:
    """A pod of ours that no node has room for."""
    return make_pod(f"p{number}").cpu("2000").label(app=f"a{number % 100}").obj()


@pytest.mark.slow
async def test_very_many_waiting_pods_leave_little_memory(tmp_path: Path) -> None:
    async with FloodServer() as server, DaemonProcess.running(server, tmp_path) as daemon:
        await daemon.reaches(NODES, 1)
        await daemon.is_ready()
        start, sent = daemon.resident, 0
        for number in range(MANY):
            sent += await server.send("ADDED", hopeless(number))
        await daemon.reaches(WAITING, MANY)
        for number in range(MANY):
            await server.send("DELETED", hopeless(number))
        await daemon.reaches(WAITING, 0)
        assert daemon.peak - start <= PEAK_FACTOR * sent
        await daemon.shrinks_to(WAITING_LEFT_FACTOR * start)


@pytest.mark.slow
@pytest.mark.parametrize("pod", [pod, tolerant, choosy])
async def test_a_flood_on_the_watch_takes_little_memory_and_leaves_none(
    pod: Callable[[int], dict[str, Any]], tmp_path: Path
) -> None:
    async with FloodServer() as server, DaemonProcess.running(server, tmp_path) as daemon:
        await daemon.reaches(NODES, 1)
        await daemon.is_ready()
        start, sent = daemon.resident, 0
        for number in range(PODS):
            sent += await server.send("ADDED", pod(number))
        await daemon.reaches(IN_CACHE, PODS)
        for number in range(PODS):
            running = pod(number) | {"status": {"startTime": "2026-01-01T00:00:00Z"}}
            await server.send("MODIFIED", running)
        for number in range(PODS):
            await server.send("DELETED", pod(number))
        await daemon.reaches(IN_CACHE, 0)
        assert daemon.peak - start <= PEAK_FACTOR * sent
        await daemon.shrinks_to(LEFT_FACTOR * start)


@pytest.mark.slow
async def test_a_long_list_is_read_in_pieces(tmp_path: Path) -> None:
    listed = [msgspec.json.encode(pod(number)) for number in range(PODS)]
    whole = sum(map(len, listed))
    async with FloodServer(listed) as server, DaemonProcess.running(server, tmp_path) as daemon:
        await daemon.reaches(IN_CACHE, PODS)
        assert max(server.page_bytes) < whole
        assert daemon.peak <= PEAK_FACTOR * whole
