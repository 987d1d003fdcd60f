"""What the live screen shows, as plain values, read from a running demo."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from sandbox.demo.session import Demo
from scheduler.cli.units import amount
from scheduler.queueing.view import QueueEntry

_WAITING = 2_000
"""Waiting pods that are grouped; of more, only the counts are shown."""
_DECISIONS = 500
_HEAD = re.compile(r"^\d+/\d+ nodes are available: ")
_REASONS = re.compile(r"(?:^|, )(\d+) ")
_NODES = re.compile(r"^node\(s\) (had )?")
_EXCLUSIONS = ("node affinity/selector", "untolerated taint", "were unschedulable")
_SUFFIX = re.compile(r"-(\d+|[bcdfghjklmnpqrstvwxz2456789]{5})$")


@dataclass(frozen=True)
class Pool:
    """Equal nodes: how full they are together, and each."""

    name: str
    nodes: int
    pods: int
    cpu: float
    memory: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class NodeLine:
    """One node: shares of what is requested, and what keeps pods away."""

    name: str
    cpu: float
    memory: float
    pods: int
    limit: int
    taints: str = ""


@dataclass(frozen=True)
class Waiting:
    """Equal pods that wait in one tier: the first of them, and why it waits."""

    count: int
    like: str
    pod: str
    tier: str
    seconds: float
    message: str


@dataclass(frozen=True)
class Decided:
    """One decision."""

    time: str
    pod: str
    node: str
    score: str
    fit: str
    milliseconds: float
    message: str


@dataclass(frozen=True)
class Cells:
    """The CPUs that pods have of their own, of each cell of a node."""

    node: str
    taken: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class View:
    """Everything on the screen at one moment."""

    page: str = ""
    """The address of the scheduler's web page."""
    nodes: int = 0
    pods: int = 0
    bound: int = 0
    rate: float = 0.0
    tiers: dict[str, int] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    lines: tuple[NodeLine, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    decisions: tuple[Decided, ...] = ()
    cells: tuple[Cells, ...] = ()
    refused: int = 0
    churning: bool = True


def informative(message: str) -> str:
    """A verdict without what all of them begin and end with, the most telling reason first.

    Of nodes that a pod does not mean, by selector or taint, nothing can be learned while there
    are others; then what most nodes lack comes first.
    """
    told, heads = _HEAD.subn("", message)
    if not heads:
        return message
    # After the reasons, further sentences say what preemption and the like came to.
    reasons = _REASONS.split(told.partition(". ")[0].rstrip("."))[1:]
    counted = zip(map(int, reasons[::2]), reasons[1::2], strict=True)
    ordered = sorted(counted, key=lambda reason: (_is_exclusion(reason[1]), -reason[0]))
    return ", ".join(f"{count} {_NODES.sub('', text)}" for count, text in ordered) or message


def _is_exclusion(reason: str) -> bool:
    return any(words in reason for words in _EXCLUSIONS)


def stem(pod: str) -> str:
    """What equal pods have in common: their name without what is generated."""
    return _SUFFIX.sub("", pod)


class DemoObserver:
    """Reads a demo for the screen; remembers how many decisions there were, to tell the rate."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._last = (time.monotonic(), 0)
        self._rate = 0.0

    def look(self, *, every_node: bool) -> View:
        """How things are now; single nodes cost time and are read only if they are shown."""
        demo, core = self._demo, self._demo.daemon.core
        pods, server = demo.daemon.pods(), demo.daemon.server
        return View(
            page=f"{server.url}/ui/" if server else "",
            nodes=core.state.node_count,
            pods=len(pods),
            bound=sum(1 for pod in pods.values() if pod.spec.node_name),
            rate=self._decisions_per_second(),
            tiers=core.queue.view.counts(),
            pools=tuple(self._pools()),
            lines=tuple(self._lines()) if every_node else (),
            waiting=tuple(self._waiting()),
            decisions=tuple(self._decisions()),
            cells=tuple(self._cells()),
            refused=demo.numa.refused,
            churning=demo.churning,
        )

    def node(self, name: str) -> list[str]:
        """A node in lines: its taints, what is requested of what it offers, and its pods."""
        state = self._demo.daemon.core.state
        if state.row(name) is None:
            return [f"{name} is gone."]
        known = state.describe(name)
        offered, taken = known["allocatable"], known["requested"]
        lines = [f"taint {each['key']}:{each['effect']}" for each in known["taints"]]
        for resource in sorted(offered):
            used = amount(resource, taken.get(resource, 0))
            lines.append(f"{resource}: {used} of {amount(resource, offered[resource])} requested")
        pods = sorted(
            key for key, pod in self._demo.daemon.pods().items() if pod.spec.node_name == name
        )
        return [*lines, "", f"{len(pods)} pods", *(f"  {key}" for key in pods)]

    def _decisions_per_second(self) -> float:
        now, made = time.monotonic(), self._demo.daemon.core.decisions.latest(1)
        count = made[0].seq if made else 0
        then, before = self._last
        if now - then >= 1.0:
            self._rate = (count - before) / (now - then)
            self._last = (now, count)
        return self._rate

    def _pools(self) -> list[Pool]:
        state = self._demo.daemon.core.state
        rows: dict[str, list[int]] = {}
        for row in state.rows():
            rows.setdefault(state.name(int(row)).rsplit("-", 1)[0], []).append(int(row))
        pools = []
        for name, chosen in sorted(rows.items()):
            taken = state.columns.requested[:2, chosen]
            whole = np.maximum(state.columns.allocatable[:2, chosen], 1)
            total = taken.sum(axis=1) / whole.sum(axis=1)
            pools.append(
                Pool(
                    name,
                    len(chosen),
                    int(state.columns.pod_count[chosen].sum()),
                    float(total[0]),
                    float(total[1]),
                    tuple((taken[0] / whole[0]).tolist()),
                )
            )
        return pools

    def _lines(self) -> list[NodeLine]:
        state = self._demo.daemon.core.state
        lines = []
        for name in sorted(state.names()):
            node = state.describe(name)
            offered, taken = node["allocatable"], node["requested"]
            lines.append(
                NodeLine(
                    name,
                    taken.get("cpu", 0) / max(1, offered.get("cpu", 0)),
                    taken.get("memory", 0) / max(1, offered.get("memory", 0)),
                    node["pods"],
                    node["podLimit"],
                    ", ".join(f"{taint['key']}:{taint['effect']}" for taint in node["taints"]),
                )
            )
        return lines

    def _waiting(self) -> list[Waiting]:
        entries = self._demo.daemon.core.queue.view.first(_WAITING)
        counts = Counter((entry.tier, stem(entry.pod)) for entry in entries)
        first: dict[tuple[str, str], QueueEntry] = {}
        for entry in entries:
            first.setdefault((entry.tier, stem(entry.pod)), entry)
        return [
            Waiting(
                counts[key],
                key[1],
                entry.pod,
                entry.tier,
                entry.waiting_seconds,
                informative(entry.message),
            )
            for key, entry in first.items()
        ]

    def _decisions(self) -> list[Decided]:
        return [
            Decided(
                datetime.fromtimestamp(decision.time).strftime("%H:%M:%S"),
                decision.pod,
                decision.node,
                "" if decision.score is None else str(decision.score),
                f"{decision.feasible}/{decision.evaluated}",
                decision.duration * 1000,
                informative(decision.message),
            )
            for decision in self._demo.daemon.core.decisions.latest(_DECISIONS)
        ]

    def _cells(self) -> list[Cells]:
        found = []
        for name, kubelet in self._demo.numa.kubelets.items():
            free, machine = kubelet.free(), kubelet.machine
            wholes = {cell.id: len(machine.cpus_of(cell)) for cell in machine.cells}
            taken = [(whole - free[cell]["cpu"], whole) for cell, whole in wholes.items()]
            found.append(Cells(name, tuple(taken)))
        return found
