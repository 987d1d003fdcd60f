"""Two replicas, one is killed while it leads: the other takes over, in the same way every time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from scheduler.config.loading import Configuration
from tests.builders import make_pod, make_worker
from tests.daemon.support import Cluster, configuration
from tests.sim.history import Write
from tests.sim.simulation import Simulation

NODES = 30
PODS = 60
LEASE_SECONDS = 15.0


def replicated() -> Configuration:
    """Leader election with kube-scheduler's defaults."""
    return configuration(kube={"leaderElection": {"leaderElect": True}}, own={})


async def until(simulation: Simulation, what: str, condition: object, seconds: float) -> None:
    """Let virtual time pass until something holds."""
    assert callable(condition)
    deadline = simulation.now + seconds
    while not condition():
        assert simulation.now < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.05)


async def takeover(simulation: Simulation) -> str:
    """Half of the pods before the leader is killed, half after; returns who took over."""
    await simulation.start()
    cluster = Cluster(simulation.server)
    cluster.add(*(make_worker(f"node-{n:02d}").cpu(8).memory("32Gi") for n in range(NODES)))
    for name in ("a", "b"):
        simulation.replica(name, replicated()).start()
    half = PODS // 2
    names = [f"pod-{n:02d}" for n in range(PODS)]
    cluster.submit(*(make_pod(name).cpu("500m") for name in names[:half]))
    await until(simulation, "half", lambda: len(cluster.bound()) == half, 30.0)
    leader = next(each for each in simulation.replicas.values() if each.leading)
    cluster.submit(*(make_pod(name).cpu("500m") for name in names[half:]))
    leader.kill_after(callbacks=20)
    await until(simulation, "killed", lambda: not leader.alive, 30.0)
    await until(simulation, "all", lambda: len(cluster.bound()) == PODS, 3 * LEASE_SECONDS)
    (other,) = [each for each in simulation.replicas.values() if each is not leader]
    assert other.leading
    return other.name


def history_of(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run(takeover(simulation))
    assert simulation.faults == [], simulation.faults
    return simulation


def test_the_other_replica_takes_over_and_no_pod_is_bound_twice() -> None:
    simulation = history_of(1)
    bound: dict[tuple[str, str], str] = {}
    writers: set[str] = set()
    for entry in simulation.history.entries:
        if isinstance(entry, Write) and entry.table == "pods" and entry.after is not None:
            node = entry.after.body["spec"].get("nodeName")
            if node:
                assert bound.setdefault(entry.key, node) == node
                writers.add(entry.writer)
    assert len(bound) == PODS
    assert writers == {"a", "b"}


def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    code = (
        "import tests.sim.test_takeover as t, sys;sys.stdout.write(t.history_of(7).history.text())"
    )
    root = Path(__file__).parents[2]
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout.decode()
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert texts[0].count("/binding → 201") == PODS
    assert history_of(8).history.text() != texts[0]
