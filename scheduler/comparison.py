"""What placing a backlog at once would change: both ways simulated and compared.

Both plays are simulations over the whole core, so what is compared is what the daemon would do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.assembly import Core
from scheduler.flow.problem import Solution
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY, Amounts
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.pipeline.batch.stage import BandReport
from scheduler.simulation import Config, Object, Placed, eviction_of, played


class NodeShare(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a node is requested, as shares of what it has."""

    name: str
    cpu_before: float
    cpu: float
    memory_before: float
    memory: float
    others: dict[str, tuple[float, float]] = {}
    """Before and after, of the other resources that it has."""


class Play(msgspec.Struct, frozen=True, rename="camel"):
    """How one way of placing came out."""

    pods_to_place: int
    """All pods of the backlog: those that were placed in either way, and those that were not, or
    were evicted again."""
    placed: int
    placed_at_once: int
    """By a solved batch."""
    placed_one_by_one: int
    """One by one; the rest of those placed."""
    pending: int
    nodes_used: int
    """Nodes that pods of the backlog went to."""
    cpu: float
    memory: float
    """CPUs and bytes that were requested and placed."""
    preferred: int
    preferred_at_best: int
    """Weights of preferred node affinity terms: got, and what pods could have if alone."""
    spread: float
    """The standard deviation of the mean utilisation of nodes."""
    fullest: float
    """The greatest share of any resource of a node that is requested."""
    nodes: tuple[NodeShare, ...]
    pods: dict[str, str | None]
    """The node of each pod, in queue order."""
    batches: tuple[BandReport, ...] = ()


class Round(NamedTuple):
    """A problem that was solved, for `--plot`."""

    posed: BatchProblem
    solution: Solution
    examples: tuple[str, ...]
    """A pod of each class, by namespace and name."""


class Comparison(NamedTuple):
    """One by one, at once, and the problems that were solved for the latter."""

    one_by_one: Play
    at_once: Play
    placed: list[Placed]
    """At once, as ``simulation.place`` has it."""
    rounds: list[Round]

    @property
    def elsewhere(self) -> int:
        """How many pods go somewhere else, or only in one of the two ways."""
        other = self.at_once.pods
        return sum(node != other.get(pod) for pod, node in self.one_by_one.pods.items())


def compare(objects: Iterable[Object], config: Config = None) -> Comparison:
    """Place all pending pods one by one, and again at once."""
    objects = list(objects)
    rounds: list[Round] = []
    first, second = _Judge(), _Judge()
    one_by_one, _ = played(objects, config, first.judged, batch=False, begin=first.begin)
    at_once, placed = played(
        objects,
        config,
        second.judged,
        batch=True,
        begin=second.begin,
        watch=lambda posed, solution: rounds.append(_round(posed, solution)),
    )
    return Comparison(one_by_one, at_once, placed, rounds)


def play(
    objects: Iterable[Object],
    config: Config = None,
    *,
    batch: bool | None = False,
    evict: bool = False,
) -> tuple[Play, list[Placed]]:
    """Place all pending pods, one by one or as ``batch`` says; how it came out."""
    judge = _Judge()
    return played(objects, config, judge.judged, batch=batch, begin=judge.begin, evict=evict)


def _round(posed: BatchProblem, solution: Solution) -> Round:
    # Members leave their groups as they are placed, so names are taken now.
    examples = tuple(group[0].queued.key for group in posed.groups)
    return Round(posed, solution, examples)


def as_value(comparison: Comparison) -> dict[str, Any]:
    """For programs: equal input has one answer, so there are no times in it."""
    value = {
        "oneByOne": msgspec.to_builtins(comparison.one_by_one),
        "atOnce": msgspec.to_builtins(comparison.at_once),
        "elsewhere": comparison.elsewhere,
    }
    for report in value["atOnce"]["batches"]:
        for name in [name for name in report if name.endswith("_seconds")]:
            del report[name]
    return value


class _Judge:
    """Looks at a cluster before and after a play."""

    def __init__(self) -> None:
        self._before: dict[str, Amounts] = {}

    def begin(self, core: Core) -> None:
        """See what is requested of each node before the first pod is placed."""
        state = core.state
        self._before = {name: state.describe(name)["requested"] for name in state.names()}

    def judged(
        self, core: Core, waiting: list[PodInfo], placed: list[Placed]
    ) -> tuple[Play, list[Placed]]:
        """How it came out."""
        state = core.state
        by_key = {info.key: info for name in state.names() for info in state.pods_on(name)}
        found = {pod: by_key[pod] for pod, node, _ in placed if node is not None and pod in by_key}
        nodes = tuple(self._shares(core))
        means = [(node.cpu + node.memory) / 2 for node in nodes]
        got, best = _preferred(core, waiting, found)
        batches = core.scheduler.batches
        reports = tuple(batches.reports) if batches is not None else ()
        backlog = {info.key for info in waiting}  # victims of preemption may not be of it
        outcomes = {each.pod: each.node for each in placed if each.pod in backlog}
        evicted = sum(eviction_of(each) is not None for each in placed if each.pod in backlog)
        at_once = sum(report.placed for report in reports)
        play = Play(
            pods_to_place=len(outcomes),
            placed=len(found),
            placed_at_once=at_once,
            placed_one_by_one=len(found) - at_once,
            pending=len(outcomes) - len(found) - evicted,
            nodes_used=len({info.node_name for info in found.values()}),
            cpu=sum(info.requests.get(CPU, 0) for info in found.values()) / 1000,
            memory=float(sum(info.requests.get(MEMORY, 0) for info in found.values())),
            preferred=got,
            preferred_at_best=best,
            spread=float(np.std(means)) if means else 0.0,
            fullest=max(map(_fullest_share, nodes), default=0.0),
            nodes=nodes,
            pods=outcomes,
            batches=reports,
        )
        return play, placed

    def _shares(self, core: Core) -> Iterable[NodeShare]:
        """Utilisation of each node, before and after."""
        for name in sorted(core.state.names()):
            described, before = core.state.describe(name), self._before.get(name, {})
            there, taken = described["allocatable"], described["requested"]
            shares = {
                resource: (before.get(resource, 0) / amount, taken.get(resource, 0) / amount)
                for resource, amount in there.items()
                if amount
            }
            cpu, memory = shares.pop(CPU, (0.0, 0.0)), shares.pop(MEMORY, (0.0, 0.0))
            yield NodeShare(name, *cpu, *memory, others=dict(sorted(shares.items())))


def _fullest_share(node: NodeShare) -> float:
    """Of the resource that runs out first: a node whose CPUs are taken is full."""
    return max(node.cpu, node.memory, *(after for _, after in node.others.values()))


def _preferred(
    core: Core, waiting: Iterable[PodInfo], found: Mapping[str, PodInfo]
) -> tuple[int, int]:
    labels, rows = core.state.columns.labels, core.state.rows()
    position = {core.state.name(int(row)): i for i, row in enumerate(rows)}
    got = best = 0
    known: dict[object, Any] = {}
    for info in waiting:
        if not info.node_preferences:
            continue
        what = (info.node_preferences, info.node_matcher)
        weights = known.get(what)
        if weights is None:
            weights = np.zeros(len(rows), np.int64)
            for preference in info.node_preferences:
                weights += preference.weight * labels.match_term(preference.term, rows)
            known[what] = weights = np.where(labels.match(info.node_matcher, rows), weights, 0)
        if info.key in found:
            got += int(weights[position[found[info.key].node_name]])
        best += int(weights.max(initial=0))
    return got, best
