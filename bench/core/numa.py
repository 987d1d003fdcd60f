"""``python -m bench.core.numa``: what NUMA costs on 5,000 nodes of 8 cells, beside a fixed loop.

CPU times of the one thread there is. The targets are those that the project has set itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from bench.core.micro import calibrate
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.numa.fingerprint import fingerprint
from scheduler.plugin_api.cycle import Cycle
from tests.numa.support import Numa, TopologyBuilder, pinned
from tests.pipeline.support import Change

CELLS = 8
PODS = 110
PUBLISHED_EVERY = 10.0
_FEWEST = {"scoringStrategy": {"type": "LeastNUMANodes"}}


def topology(name: str, busy: int, pods: list[tuple[str, str]]) -> TopologyBuilder:
    """Cells that are in use to different degrees, and near to each other in different degrees."""
    built = TopologyBuilder(name, "single-numa-node", "container")
    for cell in range(CELLS):
        built.cell(4 + (busy + 5 * cell) % 12, f"{8 + (busy + 3 * cell) % 56}Gi")
    for i, zone in enumerate(built.zones):
        zone["costs"] = [
            {"name": f"node-{j}", "value": 10 if i == j else 20 + 5 * (i // 4 != j // 4)}
            for j in range(CELLS)
        ]
    return built.attribute("nodeTopologyPodsFingerprint", fingerprint(pods))


def world(nodes: int, **args: Any) -> Numa:
    """A cluster whose nodes are all confirmed."""
    numa = Numa(**args)
    for i in range(nodes):
        numa.nodes(f"n{i}", cpu=256, memory="4096Gi")
        numa.publish(topology(f"n{i}", i, []))
    return numa


def timed(work: Callable[[], object], rounds: int = 1) -> float:
    """CPU milliseconds of the fastest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.thread_time()
        work()
        best = min(best, time.thread_time() - started)
    return best * 1000


def judged(numa: Numa, pod: PodInfo) -> None:
    """Filter and score of all nodes, by the plugin alone."""
    cycle, rows = Cycle(pod, numa.state), numa.state.rows()
    fit = rows[numa.plugin.filter(cycle, rows) == 0]
    numa.plugin.score(cycle, fit)


def one_row(numa: Numa, pod: PodInfo) -> None:
    cycle = Cycle(pod, numa.state)
    numa.plugin.filter_one(cycle, 17)
    numa.plugin.score_one(cycle, 17)


def comparison(numa: Numa) -> float:
    """One fingerprint of a node with many pods against what is known there."""
    names = [("default", f"resident-{i}") for i in range(PODS)]
    for i in range(PODS):
        numa.runs(pinned(f"resident-{i}", 1, "1Gi"), node="n5")
    numa.publish(topology("n5", 5, names))
    ledger = numa.ledger("n5")
    assert ledger.confirmed
    return timed(ledger.compare, 50)


def publishing(numa: Numa, nodes: int) -> float:
    """The share of a core that clean nodes cost which publish the same again and again."""
    handler = numa.stage.core.event_handlers.handler("NodeResourceTopology")
    published = {}
    for i in range(nodes):
        body = topology(f"n{i}", i, []).obj()
        body["metadata"]["resourceVersion"] = "2"
        published[i] = from_dict(body, NodeResourceTopology)
    changes = [
        Change(numa.state.objects.get(NodeResourceTopology, f"n{i}"), published[i])
        for i in range(nodes)
        if i != 5
    ]
    milliseconds = timed(lambda: [handler([change]) for change in changes])
    return milliseconds / 1000 / PUBLISHED_EVERY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    print(f"{'what':<52} {'CPU ms':>9} {'target':>8} {'calibration':>12}")

    def show(what: str, milliseconds: float, target: float) -> None:
        print(f"{what:<52} {milliseconds:>9.3f} {target:>8.3f} {calibrate(rounds=200):>12.3f}")

    numa = world(nodes)
    pod = pinned("p", 6, "8Gi").info()
    _ = pod.pinning, pod.faults
    judged(numa, pod)
    show("a new class, LeastAllocated", timed(lambda: judged(numa, pod), 20), 2.0)
    show("a following pod: one row again", timed(lambda: one_row(numa, pod), 50), 0.1)
    show(f"one comparison, {PODS} pods", comparison(numa), 0.05)
    share = publishing(numa, nodes)
    show("a core's second, clean nodes publishing every 10 s", share * 1000, 50.0)
    fewest = world(nodes, **_FEWEST)
    show("a new class, LeastNUMANodes", timed(lambda: judged(fewest, pod), 5), 60.0)


if __name__ == "__main__":
    main()
