"""The best rows are kept while single totals change, and are those that a pass over all rows finds.

First the rows alone, then a class of pods that is the only one asked about, as in a run of pods.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike

from scheduler.equivalence.class_results import ClassResults
from scheduler.equivalence.reads import Reads
from scheduler.equivalence.top_rows import Best, NameHashes, TopRows, best_of
from scheduler.equivalence.verdicts import AnswerColumn, CacheStatistics, ChangeReader
from scheduler.model.pods import Pod
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows, Scores
from tests.equivalence import law
from tests.equivalence.searching import SHORTER, Change, changes
from tests.equivalence.templates import PROFILES, waiting
from tests.equivalence.things import NODES
from tests.equivalence.world import World

ROWS = 6
totals = st.integers(-1, 3)


def told(best: Best) -> tuple[int, dict[int, int]]:
    """The best total, and the hash of the name of each row that has it."""
    assert len(best.rows) == len(best.names) == len(set(best.rows.tolist()))
    return best.total, dict(zip(best.rows.tolist(), best.names.tolist(), strict=True))


def column(numbers: list[int]) -> tuple[Scores, NameHashes]:
    return np.array(numbers, np.int64), np.arange(len(numbers), dtype=np.uint64) * np.uint64(10)


@given(
    st.lists(totals, min_size=ROWS, max_size=ROWS),
    st.lists(st.tuples(st.integers(0, ROWS - 1), totals), max_size=12),
)
def test_the_best_rows_are_those_of_all(first: list[int], then: list[tuple[int, int]]) -> None:
    now, names = column(first)
    top = TopRows(now, names)
    for row, total in then:
        now[row] = total
        if not top.change(row, total):
            top = TopRows(now, names)
        assert told(top.best()) == told(best_of(now, names))


@pytest.mark.parametrize(
    ("first", "row", "total", "kept"),
    [
        pytest.param([3, 3, 1], 0, 2, True, id="one of several falls"),
        pytest.param([3, 2, 1], 0, 2, False, id="the only one falls"),
        pytest.param([3, 3, 1], 2, 2, True, id="one that is not among them rises below them"),
        pytest.param([3, 3, 1], 2, 4, True, id="one rises above them"),
        pytest.param([3, 3, 1], 0, 4, True, id="one of them rises"),
        pytest.param([3, 3, 1], 2, 3, False, id="one more than there have been"),
        pytest.param([3, 3, 1], 0, 3, True, id="nothing changes"),
    ],
)
def test_when_all_rows_are_looked_at_again(
    first: list[int], row: int, total: int, kept: bool
) -> None:
    assert TopRows(*column(first)).change(row, total) is kept


def wrong(world: World, pod: Pod) -> list[str]:
    """What is wrong with where a pod goes, and with the best rows that its class keeps."""
    alone, together = law.outcome_alone(world, pod), law.outcome_by_class(world, pod)
    found = [] if alone == together else [f"alone {alone}, by class {together}"]
    for pod_class in law.equivalence_of(world):
        results = pod_class.results
        if results is not None and results.count:
            kept = told(results.best())
            fresh = told(best_of(results.totals, world.core.state.columns.name_hash))
            if kept != fresh:
                found.append(f"best rows: kept {kept}, now {fresh}")
    return found


def a_cluster(cpus: Iterable[int] = (0, 0, 0, 0)) -> World:
    world = World()
    for number, cpu in enumerate(cpus):
        world.change("Node", f"n{number}", cpu=cpu, zone=number % 2)
    return world


Step = Change | str
"""A change of an object; or the name of a node or a pod that goes."""
steps = st.one_of(
    changes("Pod", "Pod", "Pod", "Node"),
    st.sampled_from(("n0", "n1", "n2", "x0", "x1", "x2")),
)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("template", ["cpu", "labelled", "choosy", "tolerant"])
@given(taken=st.lists(st.lists(steps, min_size=1, max_size=3), max_size=12))
@SHORTER
def test_a_class_keeps_its_best_rows(template: str, profile: str, taken: list[list[Step]]) -> None:
    world = a_cluster()
    pod = waiting(template, "probe", profile).struct()
    assert wrong(world, pod) == []
    for together in taken:
        for step in together:
            if isinstance(step, str):
                world.remove("Node" if step.startswith("n") else "Pod", step)
            else:
                kind, name, traits = step
                world.change(kind, name, **traits)
        assert wrong(world, pod) == []


class Opinion:
    """A filter, a final score and one that is normalised; all read one row each."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.unfit: set[int] = set()
        self.scores = {"final": dict.fromkeys(range(ROWS), 1), "raw": dict.fromkeys(range(ROWS), 1)}

    def filter(self, plugin: str, rows: Rows) -> Codes:
        return np.array([self.filter_one(plugin, row) for row in rows.tolist()], np.int32)

    def filter_one(self, plugin: str, row: int) -> int:
        return int(row in self.unfit)

    def score(self, plugin: str, rows: Rows) -> Scores:
        return np.array([self.scores[plugin][row] for row in rows.tolist()], np.int64)

    def score_one(self, plugin: str, row: int) -> int:
        return self.scores[plugin][row]

    def normalize(self, plugin: str, scores: Scores) -> Scores:
        highest = int(scores.max())
        return highest - scores

    def results(self) -> ClassResults:
        reads, state = Reads(rows=frozenset({Aspect.REQUESTED})), self.state

        def column(plugin: str, dtype: DTypeLike) -> AnswerColumn:
            reader, capacity = ChangeReader(state, reads), state.columns.capacity
            statistics = CacheStatistics()
            return AnswerColumn(plugin, "", reads, reader, capacity, dtype, statistics)

        filters = [column("fits", np.int32)]
        final, raw = column("final", np.int64), column("raw", np.int64)
        return ClassResults(
            state, reads, filters, [(final, 1)], [(raw, 2)], all_filters=True, all_scores=True
        )


rows_of_nodes = st.integers(0, 3)
events = st.one_of(
    st.tuples(st.sampled_from(("final", "raw")), rows_of_nodes, st.integers(0, 3)),
    st.tuples(st.sampled_from(("fits", "another node")), rows_of_nodes, st.integers(0, 1)),
)


@given(st.lists(st.lists(events, min_size=1, max_size=2), max_size=20))
def test_results_keep_their_best_rows(taken: list[list[tuple[str, int, int]]]) -> None:
    world = a_cluster()
    state = world.core.state
    opinion = Opinion(state)
    results = opinion.results()
    for together in [[], [], *taken]:
        for what, row, number in together:
            if what == "another node":
                new = next(name for name in NODES if state.row(name) is None)
                world.remove("Node", state.name(row))
                world.change("Node", new)
            elif what == "fits":
                (opinion.unfit.discard if number else opinion.unfit.add)(row)
            else:
                opinion.scores[what][row] = number
            state.changes.touch(row, (Aspect.REQUESTED,))
        results.refresh(opinion)
        fresh = opinion.results()
        fresh.refresh(opinion)
        assert told(results.best()) == told(best_of(fresh.totals, state.columns.name_hash))


def test_best_rows_are_kept_in_runs_only() -> None:
    world = a_cluster()
    one, other = waiting("cpu", "probe").struct(), waiting("port", "probe").struct()
    for pod, kept in ((one, False), (one, True), (other, False), (one, False), (one, True)):
        law.outcome_by_class(world, pod)
        held = [each.results for each in law.equivalence_of(world) if each.results]
        assert sum(results._top is not None for results in held) == kept
