"""What a bench found, as a value, as JSON and as tables that read well in text and in Markdown."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from e2e.bench.contestants import EQUIPOISE, KUBE_SCHEDULER, QPS
from e2e.bench.machine import Machine
from e2e.bench.measuring import Measurement
from e2e.controlplane.binaries import ETCD, KUBERNETES


@dataclass(frozen=True)
class Round:
    """Both contestants, one right after the other."""

    kube_scheduler: Measurement
    equipoise: Measurement

    @property
    def ratio(self) -> float:
        """How many pods Equipoise binds while kube-scheduler binds one."""
        return self.equipoise.pods_per_second / self.kube_scheduler.pods_per_second

    @property
    def ratio_with_events(self) -> float:
        """The same for all that is written: whoever puts events off has to catch up with them."""
        return self.kube_scheduler.events_seconds / self.equipoise.events_seconds

    def as_json(self) -> dict[str, Any]:
        """Contestants by name, and the ratio."""
        return {
            KUBE_SCHEDULER.name: asdict(self.kube_scheduler),
            EQUIPOISE.name: asdict(self.equipoise),
            "ratio": self.ratio,
            "ratio_with_events": self.ratio_with_events,
        }


@dataclass(frozen=True)
class Report:
    """All rounds of all workloads, and what the figures depend on."""

    machine: Machine
    nodes: int
    pods: int
    fairness: bool
    """Whether API Priority and Fairness was on."""
    workloads: dict[str, list[Round]]

    def as_json(self) -> str:
        """One document; seconds, milliseconds and MiB as the names say."""
        document = {
            "machine": asdict(self.machine),
            "versions": _versions(),
            "nodes": self.nodes,
            "pods": self.pods,
            "nodes_scored": {
                each.name: each.scored(self.nodes) for each in (KUBE_SCHEDULER, EQUIPOISE)
            },
            "qps": QPS,
            "priority_and_fairness": self.fairness,
            "workloads": {
                name: {
                    "rounds": [each.as_json() for each in rounds],
                    "median_ratio": median(each.ratio for each in rounds),
                    "median_ratio_with_events": median(each.ratio_with_events for each in rounds),
                }
                for name, rounds in self.workloads.items()
            },
        }
        return json.dumps(document, indent=2)

    def as_text(self) -> str:
        """The conditions in words, then a table for each workload."""
        parts = [self._conditions()]
        for name, rounds in self.workloads.items():
            ratio = median(each.ratio for each in rounds)
            with_events = median(each.ratio_with_events for each in rounds)
            title = f"{name}: median ratio {ratio:.2f}, with events {with_events:.2f}"
            parts += [title, _table(rounds)]
        return "\n\n".join(parts)

    def _conditions(self) -> str:
        versions = " ".join(f"{name} {version}" for name, version in _versions().items())
        sample = KUBE_SCHEDULER.scored(self.nodes)
        machine = self.machine
        return "\n".join(
            [
                f"{self.nodes} nodes, {self.pods} pods pending before the start; {versions}",
                f"{machine.cores} cores {machine.architecture}, Python {machine.python}, "
                f"NumPy {machine.numpy}",
                f"nodes scored per pod: {KUBE_SCHEDULER.name} up to {sample} "
                f"({sample * 100 // self.nodes} %, its adaptive default), {EQUIPOISE.name} all",
                f"clients: qps and burst {QPS}; API Priority and Fairness "
                + ("on" if self.fairness else "off"),
            ]
        )


def _versions() -> dict[str, str]:
    contestants = {each.name: each.version for each in (KUBE_SCHEDULER, EQUIPOISE)}
    server = {"kube-apiserver": KUBERNETES, "etcd": ETCD}
    return contestants | {name: each.version.removeprefix("v") for name, each in server.items()}


_COLUMNS: dict[str, Callable[[Measurement], str]] = {
    "pods/s": lambda m: f"{m.pods_per_second:.0f}",
    "start s": lambda m: f"{m.start_seconds:.1f}",
    "bound s": lambda m: f"{m.scheduling_seconds:.2f}",
    "events": lambda m: str(m.events),
    "events s": lambda m: f"{m.events_seconds:.2f}",
    "CPU s": lambda m: f"{m.cpu_seconds:.2f}",
    "CPU ms/pod": lambda m: f"{m.cpu_ms_per_pod:.2f}",
    "peak MiB": lambda m: f"{m.peak_memory_mib:.0f}",
    "nodes used": lambda m: str(m.nodes_used),
    "load": lambda m: f"{m.load_average:.1f}",
    "calibration ms": lambda m: f"{m.calibration_ms:.0f}",
}


def _table(rounds: list[Round]) -> str:
    header = ["round", "scheduler", *_COLUMNS, "ratio", "with events"]
    return "\n".join(_lines([header, *_rows(rounds)]))


def _rows(rounds: list[Round]) -> Iterator[list[str]]:
    for number, each in enumerate(rounds, start=1):
        ratios = [f"{each.ratio:.2f}", f"{each.ratio_with_events:.2f}"]
        yield [str(number), KUBE_SCHEDULER.name, *_cells(each.kube_scheduler), "", ""]
        yield [str(number), EQUIPOISE.name, *_cells(each.equipoise), *ratios]


def _cells(measurement: Measurement) -> Iterator[str]:
    return (show(measurement) for show in _COLUMNS.values())


def _lines(rows: list[list[str]]) -> Iterator[str]:
    """Markdown that also lines up as plain text: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = (
            cell.ljust(width) if title == "scheduler" else cell.rjust(width)
            for title, cell, width in zip(rows[0], row, widths, strict=True)
        )
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            rules = (
                "-" * width if title == "scheduler" else "-" * (width - 1) + ":"
                for title, width in zip(rows[0], widths, strict=True)
            )
            yield f"| {' | '.join(rules)} |"
