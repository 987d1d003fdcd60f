"""Where to put a pod, by what is known of its class.

Answers the same as `placement.place`, which looks at everything anew; what is kept only saves work.
A pod of a class that was looked at before costs the rows that have changed since::

    class_of(pod) ─► verdict still true? ─► same diagnosis
          │
          ├─ standing.refresh: judge and score the changed rows
          ├─ filters whose answers are not kept, on the rows that fit
          └─ the highest total
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from scheduler.equivalence.cache import Equivalence
from scheduler.equivalence.classes import FILTER, SCORE, PodClass
from scheduler.equivalence.notes import Notes
from scheduler.equivalence.reads import Declaration
from scheduler.equivalence.standing import UNFIT, Standing
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.runtime import Framework
from scheduler.pipeline.choosing import among_equals, choose, veto_codes
from scheduler.pipeline.placement import (
    Placement,
    after_filters,
    crowded,
    finish,
    prepare,
    promised_row,
    promised_to_others,
    rejected,
)
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows, Scores


class Survey(NamedTuple):
    """Where a class fits, and what each place is worth to it."""

    rows: Rows
    totals: Scores
    loads: Scores
    """The part of the totals that depends on how much is requested of a row."""


class _Looked(NamedTuple):
    """What all filters said about a class."""

    standing: Standing
    asked: _Asked
    rows: Rows
    said: list[tuple[Rows, Codes]]
    overruled: tuple[Rows, Codes] | None


class _Asked:
    """The plugins of a profile, asked about one pod."""

    __slots__ = ("_cycle", "_framework")

    def __init__(self, framework: Framework, cycle: Cycle) -> None:
        self._framework = framework
        self._cycle = cycle

    def filter(self, plugin: str, rows: Rows) -> Codes:
        return self._framework.filter_by(plugin, self._cycle, rows)

    def score(self, plugin: str, rows: Rows) -> Scores:
        return self._framework.score_by(plugin, self._cycle, rows)

    def filter_one(self, plugin: str, row: int) -> int:
        return self._framework.filter_one_by(plugin, self._cycle, row)

    def score_one(self, plugin: str, row: int) -> int:
        return self._framework.score_one_by(plugin, self._cycle, row)

    def normalize(self, plugin: str, scores: Scores) -> Scores:
        return self._framework.normalize(plugin, self._cycle, scores)


class ByClass:
    """Places pods with the help of all that is kept."""

    def __init__(self, equivalence: Equivalence, seed: int) -> None:
        self._equivalence = equivalence
        self._seed = seed
        self._crowds: Notes[int] = Notes(equivalence.changes, kinds=64)
        """Verdicts on rows as they will be when promised pods have come; they have priority."""

    def class_of(self, cycle: Cycle) -> PodClass | None:
        """The class of a cycle's pod; None if it has to be looked at alone.

        A pod beyond the limits is rejected without a look at what it asks for.
        """
        if cycle.pod.excess:
            return None
        return self._equivalence.class_of(cycle.pod)

    def stamp(self, profile: str) -> tuple[int, ...]:
        """Another one as soon as the class of some pod of a profile may have become another."""
        return self._equivalence.classes[profile].stamp()

    def clear(self) -> None:
        """Let go of everything."""
        self._equivalence.clear()
        self._crowds.clear()

    def known_verdict(self, pod_class: PodClass, cycle: Cycle) -> Diagnosis | None:
        """Why no pod of the class fits anywhere, if that was found out and nothing has changed."""
        state = cycle.state
        if pod_class.verdict_at != state.changes.version:
            return None
        if state.nominations.node_of(cycle.pod.uid):
            return None
        verdict: Diagnosis = pod_class.verdict
        return verdict

    def remember(self, pod_class: PodClass, cycle: Cycle, diagnosis: Diagnosis) -> None:
        """Have a verdict hold for the whole class, until something changes.

        Not that on a pod with a promise: what it is told depends on the node that is kept for it.
        """
        if pod_class.known and not cycle.state.nominations.node_of(cycle.pod.uid):
            pod_class.verdict = diagnosis
            pod_class.verdict_at = cycle.state.changes.version

    def place(
        self, framework: Framework, cycle: Cycle, pod_class: PodClass
    ) -> Placement | Diagnosis:
        """The best node, or why there is none."""
        cycle.skipped["filter"] |= pod_class.silent[FILTER]
        prepared = prepare(framework, cycle)
        if isinstance(prepared, Diagnosis):
            return rejected(prepared, cycle)
        cycle.skipped["score"] |= pod_class.silent[SCORE]
        if prepared.node_names is not None or promised_row(cycle) is not None:
            return finish(framework, cycle, prepared, self._seed)
        standing, asked, rows, rest, overruled = self._look(framework, cycle, pod_class)
        if (ended := after_filters(framework, cycle, rows)) is not None:
            return ended
        if not len(rows):
            return rejected(_diagnosis(cycle, standing, rest, overruled), cycle)
        if standing.complete and len(rows) == standing.count and not framework.vetoes:
            with framework.timed("score"):
                best, score = self._best_kept(cycle, standing)
            return Placement(cycle.state.name(best), score, len(rows), cycle.state.node_count)
        with framework.timed("score"):
            totals = self._totals(framework, cycle, pod_class, standing, rows, asked)
        position, vetoes = choose(framework, cycle, rows, totals, self._seed)
        if position is None:
            rest.append((rows, veto_codes(cycle, rows, vetoes)))
            return rejected(_diagnosis(cycle, standing, rest, overruled), cycle)
        node, score = cycle.state.name(int(rows[position])), int(totals[position])
        return Placement(node, score, len(rows), cycle.state.node_count)

    def survey(self, framework: Framework, cycle: Cycle, pod_class: PodClass) -> Survey | None:
        """Every row that fits and what it is worth; None if the pod is a case of its own.

        Which it is if it is rejected as a whole, bound to nodes by name, or was promised one.
        """
        cycle.skipped["filter"] |= pod_class.silent[FILTER]
        prepared = prepare(framework, cycle)
        if isinstance(prepared, Diagnosis) or prepared.node_names is not None:
            return None
        cycle.skipped["score"] |= pod_class.silent[SCORE]
        if promised_row(cycle) is not None:
            return None
        standing, asked, rows, _, _ = self._look(framework, cycle, pod_class)
        loads: Scores = np.zeros(len(rows), np.int64)
        if not len(rows):
            return Survey(rows, loads, loads)
        with framework.timed("score"):
            totals = self._totals(framework, cycle, pod_class, standing, rows, asked)
        for each in load_scores(pod_class):
            loads += each.weight * pod_class.columns[SCORE, each.plugin].values[rows]
        return Survey(rows, totals, loads)

    def _look(self, framework: Framework, cycle: Cycle, pod_class: PodClass) -> _Looked:
        standing = self._equivalence.standing(pod_class)
        asked = _Asked(framework, cycle)
        with framework.timed("filter"):
            standing.refresh(asked)
            overruled = self._overruled(framework, cycle)
            rows, said = self._feasible(framework, cycle, pod_class, standing, asked)
            if overruled is not None:
                rows = rows[~np.isin(rows, overruled[0])]
        return _Looked(standing, asked, rows, said, overruled)

    def _overruled(self, framework: Framework, cycle: Cycle) -> tuple[Rows, Codes] | None:
        """The rows that do not fit because they are promised to others, and why."""
        if not cycle.state.nominations:
            return None
        rows = promised_to_others(cycle)
        if cycle.kind is None or not framework.judges_row_by_row(cycle):
            codes = crowded(framework, cycle, rows)
        else:
            noted = self._crowds.about(cycle.kind)
            unknown = np.array([row for row in rows.tolist() if row not in noted], np.intp)
            noted.update(zip(unknown.tolist(), crowded(framework, cycle, unknown), strict=True))
            codes = np.array([noted[row] for row in rows.tolist()], np.int32)
        failed = codes != 0
        return rows[failed], codes[failed]

    def _best_kept(self, cycle: Cycle, standing: Standing) -> tuple[int, int]:
        top = int(standing.totals.max())
        assert top != UNFIT, "a row that fits has a total"
        (ties,) = (standing.totals == top).nonzero()
        return int(ties[among_equals(cycle, ties, self._seed)]), top

    @staticmethod
    def _feasible(
        framework: Framework,
        cycle: Cycle,
        pod_class: PodClass,
        standing: Standing,
        asked: _Asked,
    ) -> tuple[Rows, list[tuple[Rows, Codes]]]:
        """The rows that pass all filters, and what those said that are not in the standing."""
        rows = standing.feasible()
        said: list[tuple[Rows, Codes]] = []
        for each, _ in pod_class.plugins[FILTER][standing.joined :]:
            if not len(rows):
                break
            name = each.plugin
            column = pod_class.columns.get((FILTER, name))
            if column is not None:
                codes = column.ask(rows, partial(asked.filter, name))
            elif name not in cycle.skipped["filter"] and framework.judges(name):
                codes = asked.filter(name, rows)
            else:
                continue
            if codes.any():
                said.append((rows, codes))
                rows = rows[codes == 0]
        return rows, said

    @staticmethod
    def _totals(
        framework: Framework,
        cycle: Cycle,
        pod_class: PodClass,
        standing: Standing,
        rows: Rows,
        asked: _Asked,
    ) -> Scores:
        totals = standing.totals_of(rows, asked)
        live = [each for each, _ in pod_class.plugins[SCORE] if not each.kept]
        if live:
            kept = {each.plugin for each, _ in pod_class.plugins[SCORE] if each.kept}
            cycle.skipped["score"] |= kept
            totals = totals + framework.run_scores(cycle, rows).totals
        return totals


def load_scores(pod_class: PodClass) -> list[Declaration]:
    """The plugins that rate how full rows are, and whose ratings are final."""
    return [
        each
        for each, _ in pod_class.plugins[SCORE]
        if each.kept and each.absolute and each.reads and Aspect.REQUESTED in each.reads.rows
    ]


def _diagnosis(
    cycle: Cycle,
    standing: Standing,
    said: list[tuple[Rows, Codes]],
    overruled: tuple[Rows, Codes] | None,
) -> Diagnosis:
    """The verdict on each node, of the first plugin that rejected it."""
    rows = cycle.state.rows()
    codes = standing.codes.copy()
    for where, verdicts in said:
        codes[where] = verdicts
    if overruled is not None:
        codes[overruled[0]] = overruled[1]
    return Diagnosis(rows, codes[rows])
