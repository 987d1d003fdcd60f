"""The live screen of the demo: nodes, queue, latest decisions."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sandbox.demo.session import Demo
from sandbox.workload import APPS
from scheduler.assembly import Core

_BLOCKS = " ▁▂▃▄▅▆▇█"
_DECISIONS = 12
_CELL_NODES = 6
_BAR = 16


def screen(demo: Demo) -> RenderableType:
    """The whole screen, drawn anew each time."""
    core = demo.daemon.core
    return Group(
        _headline(demo),
        Panel(_pools(core), title="Nodes", title_align="left", border_style="dim"),
        Panel(_cells(demo), title="NUMA cells", title_align="left", border_style="dim"),
        Panel(_queue(core), title="Queue", title_align="left", border_style="dim"),
        Panel(_decisions(core), title="Latest decisions", title_align="left", border_style="dim"),
    )


def _headline(demo: Demo) -> Text:
    server = demo.daemon.server
    metrics = f"{server.url}/metrics" if server is not None else "off"
    text = Text("Equipoise demo", style="bold")
    text.append(f"   API server {demo.api.url}   metrics {metrics}   Ctrl-C stops", style="dim")
    return text


def _pools(core: Core) -> Table:
    """A line per pool of nodes: how full they are, each node a block."""
    table = Table(box=None, expand=True, header_style="dim")
    for heading in ("POOL", "NODES", "PODS", "CPU", "MEMORY"):
        table.add_column(heading, justify="right" if heading in ("NODES", "PODS") else "left")
    table.add_column("EACH NODE'S CPU", ratio=1, no_wrap=True, overflow="ellipsis")
    pools: dict[str, list[int]] = {}
    for row in core.state.rows():
        pools.setdefault(core.state.name(int(row)).rsplit("-", 1)[0], []).append(int(row))
    for pool, rows in sorted(pools.items()):
        taken = core.state.columns.requested[:2, rows]
        whole = np.maximum(core.state.columns.allocatable[:2, rows], 1)
        shares = taken[0] / whole[0]
        total = taken.sum(axis=1) / whole.sum(axis=1)
        pods = int(core.state.columns.pod_count[rows].sum())
        table.add_row(
            pool,
            str(len(rows)),
            str(pods),
            f"{total[0]:.0%}",
            f"{total[1]:.0%}",
            Text("".join(_block(share) for share in shares), style="cyan"),
        )
    return table


def _block(share: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, round(share * (len(_BLOCKS) - 1)))]


def _cells(demo: Demo) -> Table:
    """A line per node with cells: the CPUs that pods have of their own, as its kubelet sees it."""
    table = Table(box=None, expand=True, header_style="dim")
    table.add_column("NODE")
    table.add_column("CPUS TAKEN OF EACH CELL", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(f"REFUSED {demo.numa.refused}", justify="right")
    for name, kubelet in list(demo.numa.kubelets.items())[:_CELL_NODES]:
        line = Text()
        free = kubelet.free()
        for cell in kubelet.machine.cells:
            whole = len(kubelet.machine.cpus_of(cell))
            taken = whole - free[cell.id]["cpu"]
            filled = round(_BAR * taken / max(whole, 1))
            line.append("█" * filled, style="cyan").append("░" * (_BAR - filled), style="dim")
            line.append(f" {taken:2d}/{whole:2d}   ")
        table.add_row(name, line, "")
    return table


def _queue(core: Core) -> RenderableType:
    counts = core.queue.view.counts()
    numbers = Text("   ".join(f"{tier} {count}" for tier, count in counts.items()))
    table = Table(box=None, expand=True, header_style="dim")
    for heading in ("PODS", "LIKE", "TIER"):
        table.add_column(heading, no_wrap=True)
    table.add_column("WHY", ratio=1, overflow="ellipsis", no_wrap=True)
    alike: dict[tuple[str, str], list[str]] = {}
    for entry in core.queue.view.snapshot():
        alike.setdefault((entry.tier, entry.message), []).append(entry.pod)
    for (tier, message), pods in list(alike.items())[:6]:
        table.add_row(str(len(pods)), pods[0], tier, Text(message))
    return Group(numbers, table)


def _decisions(core: Core) -> Table:
    table = Table(box=None, expand=True, header_style="dim")
    for heading in ("TIME", "POD", "NODE", "SCORE", "FIT", "TOOK"):
        table.add_column(heading, no_wrap=True)
    table.add_column("WHY NOT", ratio=1, overflow="ellipsis", no_wrap=True)
    for decision in core.decisions.latest(_DECISIONS):
        table.add_row(
            datetime.fromtimestamp(decision.time).strftime("%H:%M:%S"),
            decision.pod,
            decision.node or Text("none", style="yellow"),
            "" if decision.score is None else str(decision.score),
            f"{decision.feasible}/{decision.evaluated}",
            f"{decision.duration * 1000:.1f} ms",
            Text(decision.message),
        )
    return table


# What became of the demo's pods, in one table.


def pending_reasons(demo: Demo) -> dict[str, str]:
    """Why pods of an app wait: the newest message of any of them."""
    return {
        entry.pod.split("/", 1)[1].rsplit("-", 1)[0]: entry.message
        for entry in demo.daemon.core.queue.view.snapshot()
    }


def summary_table(demo: Demo) -> Table:
    """One line per app: wanted, bound, pending and why."""
    wanted = {app.name: 0 for app in APPS}
    for pod in demo.pods():
        wanted[pod.metadata.labels["app"]] += 1
    bound, reasons = demo.bound_by_app(), pending_reasons(demo)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("APP", "PODS", "BOUND", "PENDING"):
        table.add_column(heading, justify="left" if heading == "APP" else "right")
    table.add_column("WHY", overflow="fold")
    for name, count in wanted.items():
        pending = count - bound[name]
        table.add_row(
            name,
            str(count),
            str(bound[name]),
            str(pending),
            Text(reasons.get(name, "") if pending else ""),
        )
    return table


def summary_line(demo: Demo, seconds: float) -> str:
    """The totals, and how fast."""
    total, bound = len(demo.pods()), sum(demo.bound_by_app().values())
    rate = bound / seconds if seconds else 0.0
    return (
        f"{bound} of {total} pods bound on {demo.daemon.core.state.node_count} nodes "
        f"in {seconds:.2f} s ({rate:.0f} pods/s), {total - bound} pending"
    )


def cells_line(demo: Demo) -> str:
    """How the nodes with NUMA cells fared."""
    kubelets = demo.numa.kubelets.values()
    pinned = sum(listed.exclusive for kubelet in kubelets for listed in kubelet.listed())
    cells = sum(len(kubelet.machine.cells) for kubelet in kubelets)
    return (
        f"Then {pinned} pods more got CPUs of their own in {cells} NUMA cells, "
        f"{demo.numa.refused} refused with TopologyAffinityError"
    )
