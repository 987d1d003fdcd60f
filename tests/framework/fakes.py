"""Plugins named by what they do, and a framework made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status, unschedulable
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import POINTS, PostFilterResult, PreFilterResult
from scheduler.plugin_api.scoring import normalize_by_max
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows, Scores
from tests.builders import make_pod, make_worker


class Fake:
    """A plugin that notes each of its calls in a diary it may share with others."""

    def __init__(self, name: str, diary: list[str] | None = None) -> None:
        self.name = name
        self.diary = [] if diary is None else diary

    def note(self, what: str) -> None:
        self.diary.append(f"{self.name} {what}")


class Gate(Fake):
    """PreEnqueue with a fixed verdict."""

    def __init__(self, name: str, status: Status, diary: list[str] | None = None) -> None:
        super().__init__(name, diary)
        self.status = status

    def pre_enqueue(self, pod: PodInfo) -> Status:
        self.note("pre_enqueue")
        return self.status


class FixedPreFilter(Fake):
    """PreFilter with a fixed verdict, perhaps naming nodes; its filter notes being called."""

    def __init__(
        self,
        name: str,
        status: Status = SUCCESS,
        nodes: Sequence[str] | None = None,
        diary: list[str] | None = None,
    ) -> None:
        super().__init__(name, diary)
        self.result = PreFilterResult(status, None if nodes is None else frozenset(nodes))

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        self.note("pre_filter")
        return self.result

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self.note("filter")
        return np.zeros(len(rows), np.int32)


class TrueFilter(Fake):
    """Lets every node pass."""

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self.note(f"filter {names(cycle, rows)}")
        return np.zeros(len(rows), np.int32)


class FalseFilter(Fake):
    """Lets no node pass, or none but those it likes."""

    def __init__(
        self, name: str, likes: Sequence[str] = (), diary: list[str] | None = None
    ) -> None:
        super().__init__(name, diary)
        self.likes = likes
        self.refusal = unschedulable(f"{name} says no").by(name)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        self.note(f"filter {names(cycle, rows)}")
        liked = np.array([cycle.state.name(int(row)) in self.likes for row in rows], np.bool_)
        return cycle.reject(~liked, self.refusal)


class WrongShapeFilter(Fake):
    """Answers for one node too few."""

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        return np.zeros(len(rows) - 1, np.int32)


class CodedFilter(Fake):
    """Answers what it was given, whatever it is asked."""

    def __init__(self, name: str, codes: Any) -> None:
        super().__init__(name)
        self.codes = codes

    def filter(self, cycle: Cycle, rows: Rows) -> Any:
        return self.codes

    def filter_one(self, cycle: Cycle, row: int) -> Any:
        return None if self.codes is None else self.codes[0]


class RaisingFilter(Fake):
    """Has a bug."""

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        raise RuntimeError("boom")


class FixedPostFilter(Fake):
    """PostFilter with a fixed result."""

    def __init__(self, name: str, status: Status, node: str | None, diary: list[str]) -> None:
        super().__init__(name, diary)
        self.result = PostFilterResult(status, node)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        self.note("post_filter")
        return self.result


class FixedScore(Fake):
    """Gives every node the score of its position, times a factor."""

    def __init__(self, name: str, factor: int = 1, pre_score: Status = SUCCESS) -> None:
        super().__init__(name)
        self.factor = factor
        self.status = pre_score

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        return self.status

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        self.note("score")
        return np.arange(len(rows), dtype=np.int64) * self.factor

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        return scores


class GivenScore(Fake):
    """Scores as given, whatever they are; higher raw scores are worse if it normalises."""

    def __init__(self, name: str, scores: Any, normalized: Any = None) -> None:
        super().__init__(name)
        self.scores = scores
        self.normalized = normalized

    def score(self, cycle: Cycle, rows: Rows) -> Any:
        return self.scores

    def normalize(self, cycle: Cycle, scores: Scores) -> Any:
        if self.normalized is not None:
            return self.normalized
        return normalize_by_max(scores, reverse=True)


class Reviewing(Fake):
    """AfterFilter and PostScore with fixed verdicts; vetoes the nodes it names."""

    def __init__(
        self,
        name: str,
        diary: list[str],
        after: Status = SUCCESS,
        vetoed: Sequence[str] = (),
        veto: Status | None = None,
    ) -> None:
        super().__init__(name, diary)
        self.after = after
        self.vetoed = vetoed
        self.veto = veto or unschedulable(f"{name} vetoed")

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        self.note(f"after_filter {names(cycle, rows)}")
        return self.after

    def post_score(self, cycle: Cycle, node: str) -> Status:
        self.note(f"post_score {node}")
        return self.veto if node in self.vetoed else SUCCESS


class RaisingScore(FixedScore):
    """Has a bug in score."""

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        raise RuntimeError("boom")


class RaisingNormalize(FixedScore):
    """Has a bug in normalize."""

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        raise RuntimeError("boom")


class WrongShapeScore(FixedScore):
    """One score for all nodes."""

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        return np.zeros(1, np.int64)


class Booking(Fake):
    """Reserve with a fixed verdict; its undoing may have a bug."""

    def __init__(
        self, name: str, diary: list[str], status: Status = SUCCESS, *, broken: bool = False
    ) -> None:
        super().__init__(name, diary)
        self.status = status
        self.broken = broken

    def reserve(self, cycle: Cycle, node: str) -> Status:
        self.note("reserve")
        return self.status

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.note("unreserve")
        if self.broken:
            raise RuntimeError("boom")


class FixedPermit(Fake):
    """Permit with a fixed verdict and timeout."""

    def __init__(self, name: str, status: Status, timeout: float = 0.0) -> None:
        super().__init__(name)
        self.answer = (status, timeout)

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return self.answer


class Binder(Fake):
    """PreBind and Bind with a fixed verdict."""

    def __init__(self, name: str, diary: list[str], status: Status = SUCCESS) -> None:
        super().__init__(name, diary)
        self.status = status

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        self.note("pre_bind")
        return self.status

    async def bind(self, cycle: Cycle, node: str) -> Status:
        self.note("bind")
        return self.status


class RaisingBinder(Fake):
    """Has a bug in everything that happens around binding."""

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        raise RuntimeError("boom")

    async def bind(self, cycle: Cycle, node: str) -> Status:
        raise RuntimeError("boom")

    def post_bind(self, cycle: Cycle, node: str) -> None:
        raise RuntimeError("boom")


SKIPPED = PreFilterResult(SKIP)
WAIT = Status(Code.WAIT)


def names(cycle: Cycle, rows: Rows) -> str:
    return " ".join(cycle.state.name(int(row)) for row in rows)


def framework_of(*plugins: Any, weights: dict[str, int] | None = None) -> Framework:
    """All plugins at all points they implement, in the order given."""
    enabled = {
        key: [
            (plugin.name, (weights or {}).get(plugin.name, 1))
            for plugin in plugins
            if hasattr(plugin, point.method)
        ]
        for key, point in POINTS.items()
    }
    return Framework("fakes", {plugin.name: plugin for plugin in plugins}, enabled, Metrics())


def a_cycle(nodes: int = 3) -> Cycle:
    """A pod without wishes, and n0, n1, …"""
    state = ClusterState()
    for i in range(nodes):
        state.set_node(make_worker(f"n{i}").struct())
    return Cycle(make_pod("p").info(), state)


def faults(framework: Framework, plugin: str, point: str) -> float:
    """How many faults of a plugin were counted."""
    sample = framework.runner.metrics.registry.get_sample_value
    labels = {"plugin": plugin, "extension_point": point}
    return sample("equipoise_plugin_errors_total", labels) or 0.0
