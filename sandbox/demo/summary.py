"""What became of the demo's pods, in one table and two lines: for ``--once``."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from sandbox.demo.session import Demo
from sandbox.devices.driver import boards_of
from sandbox.workload import APPS


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
        if (app := pod.metadata.labels.get("app")) in wanted:
            wanted[app] += 1
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
        f"Then {pinned} more pods got exclusive CPUs in {cells} NUMA cells, "
        f"{demo.numa.refused} rejected with TopologyAffinityError"
    )


def devices_line(demo: Demo) -> str:
    """How the boards fared."""
    wanted = {app.name for app in APPS if app.devices}
    bound = sum(count for name, count in demo.bound_by_app().items() if name in wanted)
    boards = sum(map(boards_of, demo.nodes()))
    return f"Then {bound} more pods got {demo.allocated_devices()} parts of {boards} boards"
