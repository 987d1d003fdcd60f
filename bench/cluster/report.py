"""Results for people (tables that are also Markdown) and for programs (JSON)."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from bench.cluster.contestants import CONTESTANTS, EQUIPOISE, KUBE_SCHEDULER, QPS, Contestant
from bench.cluster.machine import Machine
from bench.cluster.measuring import Measurement
from bench.cluster.results import Result
from bench.cluster.targets import judged
from e2e.controlplane.binaries import ETCD, KUBERNETES

DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


@dataclass(frozen=True)
class Report:
    """All results, and what the figures depend on."""

    machine: Machine
    code: str
    """Names the content of the code that was measured."""
    origin: str
    """The date, and the commit if there is one."""
    fairness: bool
    """Whether API Priority and Fairness was on."""
    runs: int
    """How many runs of the bench the figures come from: more than one if it was resumed."""
    results: list[Result]
    failures: list[str]
    """Turns that went wrong; the first line of each says what happened."""

    def as_json(self) -> str:
        """One document; seconds, milliseconds and MiB as the names say."""
        document = {
            "machine": asdict(self.machine),
            "versions": _versions(),
            "code": self.code,
            "origin": self.origin,
            "qps": QPS,
            "priority_and_fairness": self.fairness,
            "runs": self.runs,
            "failures": self.failures,
            "results": [each.as_json() for each in self.results],
            "targets": [
                {
                    "workload": result.workload.name,
                    "nodes": result.size.nodes,
                    "target": target.text,
                    "seen": target.figure(result),
                    "met": met,
                }
                for result in self.results
                for target, met in judged(result)
            ],
        }
        return json.dumps(document, indent=2)

    def as_text(self) -> str:
        """For the terminal: a row for each contestant, with all figures."""
        return self._around(lambda results: table(_HEADER, _rows(results), names=2))

    def as_page(self) -> str:
        """For the documentation: a row for each workload."""
        return self._around(lambda results: table(_PAGE_HEADER, _page_rows(results), names=1))

    def _around(self, results_table: Callable[[Iterator[Result]], str]) -> str:
        """The conditions in words, a table for each number of nodes, and the targets."""
        parts = [self._conditions()]
        for nodes, results in groupby(self.results, key=lambda each: each.size.nodes):
            parts += [_heading(nodes), results_table(results)]
        targets = list(_target_rows(self.results))
        if targets:
            header = ["workload", "nodes", "target", "seen", "verdict"]
            parts += ["### Targets", table(header, targets, names=5)]
        if any(KUBE_SCHEDULER in each.contestants for each in self.results):
            parts += ["### Written alike", self._alike()]
        if self.failures:
            lines = (f"- {each.splitlines()[0]}" for each in self.failures)
            parts += ["### Not finished", "\n".join(lines)]
        return "\n\n".join(parts)

    def write_into(self, document: Path = DOCUMENT) -> None:
        """Replace what stands between the markers; the prose around them stays."""
        text = document.read_text()
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"{document} has no lines {BEGIN} and {END}")
        document.write_text(f"{before}{BEGIN}\n\n{self.as_page()}\n\n{END}{after}")

    def _conditions(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in _versions().items())
        machine, fairness = self.machine, "on" if self.fairness else "off"
        runs = "one run" if self.runs == 1 else f"{self.runs} runs, the later ones resumed"
        return "\n".join(
            [
                f"{machine.cores} {machine.architecture} cores for everything; {versions} "
                f"({self.origin}, code {self.code}), "
                f"Python {machine.python}, NumPy {machine.numpy};",
                f"qps and burst {QPS} for all, API Priority and Fairness {fairness}; "
                f"figures are medians over the rounds of {runs}.",
            ]
        )

    def _alike(self) -> str:
        """Whether both schedulers wrote the same; events are what must not be saved on."""
        lines = [
            f"- {result.workload.name}, {result.size.nodes} nodes: {difference}"
            for result in self.results
            for difference in result.differences
        ]
        same = "Both schedulers wrote the same number of events of each reason, and the same"
        return "\n".join(lines) if lines else f"{same} conditions, in every round."


def _versions() -> dict[str, str]:
    contestants = {each.name: each.version for each in (KUBE_SCHEDULER, EQUIPOISE)}
    server = {"kube-apiserver": KUBERNETES, "etcd": ETCD}
    return contestants | {name: each.version.removeprefix("v") for name, each in server.items()}


def _heading(nodes: int) -> str:
    sample = KUBE_SCHEDULER.scored(nodes) if KUBE_SCHEDULER.scored else nodes
    share = sample * 100 // nodes
    return (
        f"### {nodes:,} nodes\n\nkube-scheduler scores up to {sample} of them ({share} %, its "
        "adaptive default), Equipoise all."
    )


_COLUMNS: dict[str, Callable[[Result, Contestant], str]] = {
    "rounds": lambda result, who: str(len(result.rounds)),
    "pods/s": lambda result, who: f"{result.middle(who, lambda m: m.pods_per_second):.0f}",
    "min-max": lambda result, who: _range(result.all(who, lambda m: m.pods_per_second)),
    "start s": lambda result, who: f"{result.middle(who, lambda m: m.start_seconds):.1f}",
    "events s": lambda result, who: f"{result.middle(who, lambda m: m.events_seconds):.1f}",
    "CPU s": lambda result, who: f"{result.middle(who, lambda m: m.cpu_seconds):.1f}",
    "CPU ms/pod": lambda result, who: f"{result.middle(who, lambda m: m.cpu_ms_per_pod):.2f}",
    "server ms/pod": lambda result, who: f"{result.middle(who, _server):.2f}",
    "peak MiB": lambda result, who: f"{result.middle(who, lambda m: m.peak_memory_mib):.0f}",
    "events": lambda result, who: _counts(result.rounds[0].by(who)),
    "load": lambda result, who: f"{result.middle(who, lambda m: m.load_average):.1f}",
    "calibration ms": lambda result, who: f"{result.middle(who, lambda m: m.calibration_ms):.0f}",
}


def _server(measured: Measurement) -> float:
    return measured.server_ms_per_pod


_HEADER = ["workload", "who", *_COLUMNS, "to kube", "to limit", "with events"]


def _rows(results: Iterator[Result]) -> Iterator[list[str]]:
    for result in results:
        ratios = (result.ratio, result.ratio_to_limit, result.ratio_with_events)
        for number, who in enumerate(result.contestants):
            shown = [_ratio(each) if who is EQUIPOISE else "" for each in ratios]
            cells = [show(result, who) for show in _COLUMNS.values()]
            yield ["" if number else _name(result), who.name, *cells, *shown]


_PAGE_HEADER = [
    "workload",
    *(f"{who.name} pods/s" for who in CONTESTANTS),
    *("to kube", "to limit", "with events"),
    *("CPU ms/pod", "server ms/pod", "peak MiB", "rounds"),
]


def _page_rows(results: Iterator[Result]) -> Iterator[list[str]]:
    for result in results:
        ratios = (result.ratio, result.ratio_to_limit, result.ratio_with_events)
        yield [
            _name(result),
            *(_speed(result, who) for who in CONTESTANTS),
            *map(_ratio, ratios),
            *(
                " / ".join(_COLUMNS[figure](result, who) for who in result.contestants)
                for figure in ("CPU ms/pod", "server ms/pod", "peak MiB")
            ),
            str(len(result.rounds)),
        ]


def _speed(result: Result, who: Contestant) -> str:
    """The median, and the range if there is one."""
    if who not in result.contestants:
        return ""
    middle, span = _COLUMNS["pods/s"](result, who), _COLUMNS["min-max"](result, who)
    return f"{middle} ({span})" if len(result.rounds) > 1 else middle


def _ratio(figure: float) -> str:
    return "" if math.isnan(figure) else f"{figure:.2f}"


def _name(result: Result) -> str:
    """The workload and its counts: how many pods are there already, and how many are timed."""
    size, kinds = result.size, len(result.workload.init)
    init = f"{kinds} x {size.init}" if kinds > 1 else str(size.init)
    unfit = f" +{size.unfit} unfit" if size.unfit else ""
    return f"{result.workload.name} {init}/{size.measured}{unfit}"


def _target_rows(results: Sequence[Result]) -> Iterator[list[str]]:
    for result in results:
        for target, met in judged(result):
            verdict = "met" if met else "missed"
            where = [result.workload.name, str(result.size.nodes)]
            yield [*where, target.text, target.figure(result), verdict]


def _range(figures: list[float]) -> str:
    return f"{min(figures):.0f}-{max(figures):.0f}"


def _counts(measurement: Measurement | None) -> str:
    """Events by reason, those about pods that came or went meanwhile after a plus."""
    if measurement is None:
        return ""
    own, other = (
        ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        for counts in (measurement.events, measurement.other_events)
    )
    return f"{own} + {other}" if other else own


def table(header: list[str], rows: Iterator[list[str]] | list[list[str]], names: int) -> str:
    """Markdown that also lines up as plain text: so many names to the left, then numbers."""
    everything = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]

    def line(row: list[str]) -> str:
        cells = (
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(cells)} |"

    rules = [
        "-" * width if number < names else "-" * (width - 1) + ":"
        for number, width in enumerate(widths)
    ]
    return "\n".join([line(header), f"| {' | '.join(rules)} |", *map(line, everything[1:])])
