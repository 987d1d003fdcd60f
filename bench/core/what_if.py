"""``make bench-what-if``: what a question to a copy of a large cluster costs.

A process of its own serves the cluster: the embedded API server, its objects with the defaults and
managed fields that a real one adds. The command asks "how many more like this pod fit?", and the
kernel counts its CPU time, start of Python included. Then the same steps are taken in one process,
each timed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.cluster.templates import DEFAULT, INIT, MEASURED, NAMESPACES, node, node_name

Json = dict[str, Any]
ASKED = f"pod/{MEASURED}/pod-0"
ZONES = ("moon-1", "moon-2", "moon-3")
SERVE, PHASES = "--serve", "--phases"


class Cost(NamedTuple):
    """What one run of the command cost, and what it said."""

    cpu: float
    wall: float
    fit: int


class Scale(NamedTuple):
    """How large the cluster is, and how many of its pods wait."""

    nodes: int
    pods: int
    waiting: int


def objects(scale: Scale) -> Iterator[Json]:
    """The nodes and pods of SchedulingBasic; the last of the pods wait."""
    for number in range(scale.nodes):
        yield node(number, ZONES)
    for number in range(scale.pods):
        on = "" if number >= scale.pods - scale.waiting else node_name(number % scale.nodes)
        namespace = INIT if 0 < number < scale.pods // 10 else MEASURED
        yield DEFAULT.pod(namespace, f"pod-{number}", "equipoise", node=on)


async def serve(scale: Scale, kubeconfig: Path) -> None:
    """Hold the cluster until standard input ends; the kubeconfig appears when it is there."""
    from sandbox.apiserver import ApiServer
    from sandbox.registry import WriteOptions

    async with ApiServer(validate=False) as server:
        registry, options = server.registry, WriteOptions(manager="bench", tracked=True)
        for name in NAMESPACES:
            registry.create(registry.builtin("namespaces"), "", {"metadata": {"name": name}})
        for body in objects(scale):
            plural = f"{body['kind'].lower()}s"
            namespace = body["metadata"].get("namespace", "")
            registry.create(registry.builtin(plural), namespace, body, options)
        kubeconfig.with_suffix(".new").write_text(json.dumps(server.kubeconfig()))
        kubeconfig.with_suffix(".new").rename(kubeconfig)
        await asyncio.to_thread(sys.stdin.read)


@contextmanager
def served(scale: Scale) -> Iterator[Path]:
    """The kubeconfig of a cluster in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        command = [sys.executable, "-m", __spec__.name, SERVE, str(kubeconfig), *map(str, scale)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            while not kubeconfig.exists() and server.poll() is None:
                time.sleep(0.05)
            yield kubeconfig
            assert server.stdin is not None
            server.stdin.close()


def environment(kubeconfig: Path) -> dict[str, str]:
    """The environment of an installed program: its modules are compiled once."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(kubeconfig.parent / "compiled")}


def ask(kubeconfig: Path) -> Cost:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "scheduler", "simulate", "--from-cluster"]
    command += ["--kubeconfig", str(kubeconfig), "--more", ASKED, "-o", "json"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(kubeconfig)) as process:
        assert process.stdout is not None
        answer = json.load(process.stdout)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    return Cost(used.ru_utime + used.ru_stime, wall, answer["more"]["fit"])


def phases(kubeconfig: str) -> None:
    """Take the steps of the command one by one, and print the CPU seconds of each."""
    clock = time.process_time
    marks = [("start of Python", 0.0, clock())]

    def mark(name: str) -> None:
        marks.append((name, marks[-1][2], clock()))

    from scheduler.cli import capacity, snapshots
    from scheduler.cli.offline import as_in_cluster
    from scheduler.cli.snapshot_command import from_cluster
    from scheduler.kube import client
    from scheduler.simulation import how_many_more

    _ = snapshots, client  # they are loaded when they are needed, here before they are timed
    mark("imports")
    found = from_cluster(kubeconfig, None)
    mark("list and decode")
    found = as_in_cluster(found)
    mark("what controllers would add, defaults")
    how_many_more([each for each in found if each["kind"] == "Node"][:1], a_pod(found))
    mark("first use of the core")
    capacity.more(found, None, ASKED)
    mark("build, place and count")
    for name, before, after in marks:
        print(f"  {after - before:6.2f} s  {name}")


def a_pod(found: list[Json]) -> Json:
    """One of the pods."""
    return next(each for each in found if each["kind"] == "Pod")


def main() -> None:
    if sys.argv[1:2] == [SERVE]:
        nodes, pods, waiting = map(int, sys.argv[3:6])
        asyncio.run(serve(Scale(nodes, pods, waiting), Path(sys.argv[2])))
        return
    if sys.argv[1:2] == [PHASES]:
        phases(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, prog="make bench-what-if")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=0, help="how many of the pods wait")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with served(Scale(given.nodes, given.pods, given.waiting)) as kubeconfig:
        ask(kubeconfig)  # compiles
        for _ in range(given.runs):
            cost = ask(kubeconfig)
            print(f"{cost.cpu:.2f} s of CPU, {cost.wall:.2f} s in all: {cost.fit} more fit")
        command = [sys.executable, "-m", __spec__.name, PHASES, str(kubeconfig)]
        subprocess.run(command, check=True, env=environment(kubeconfig))


if __name__ == "__main__":
    main()
