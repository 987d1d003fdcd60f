"""All classes and what is kept for them, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.bounded import Usage
from scheduler.equivalence.class_results import ClassResults
from scheduler.equivalence.classes import FILTER, SCORE, Classes, PodClass
from scheduler.equivalence.reads import Declaration
from scheduler.equivalence.verdicts import AnswerColumn, CacheStatistics, ChangeReader
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.state.aspects import Aspect, Aspects
from scheduler.state.cache import ClusterState

DEFAULT_BUDGET = 64 * 1024 * 1024
LOOKED_AT = 64
IDLE_LOOKS = 1200
"""Five minutes: the daemon looks four times in a second."""
_DTYPES = {FILTER: np.int32, SCORE: np.int64}


class HostPredicate(msgspec.Struct, frozen=True):
    """What is kept of one plugin's verdict on one node, for one class."""

    fit: bool
    reasons: tuple[str, ...] = ()


class EquivalenceCache:
    """The classes of all profiles. Columns are shared by classes and go with the last of them.

    When the budget is exceeded, the class that was not used for longest loses what is kept for it.
    """

    def __init__(
        self,
        state: ClusterState,
        declared: Mapping[str, Mapping[str, Sequence[Declaration]]],
        *,
        by_controller: bool = False,
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        self.state = state
        self.budget = budget
        self.by_plugin = {
            (point, each.plugin): CacheStatistics()
            for points in declared.values()
            for point, plugins in points.items()
            for each in plugins
            if each.kept
        }
        """What was saved of each plugin's answers at each point, over all profiles."""
        self.evictions = 0
        self.bytes = 0
        self._columns: dict[tuple[str, str, str, Hashable], AnswerColumn] = {}
        """By profile (whose plugins may have arguments of their own), point, plugin and key."""
        self._recent: dict[PodClass, int] = {}
        """Classes that have results and the bytes of these, the most recently used last."""
        self._last: PodClass | None = None
        """The most recently used class."""
        self._capacity = 0
        self.classes = {
            profile: Classes(
                profile,
                points,
                state.changes,
                by_controller=by_controller,
            )
            for profile, points in declared.items()
        }

    # Finding

    def class_of(self, pod: PodInfo) -> PodClass | None:
        """The class of a pod that waits; None if it must be looked at alone."""
        classes = self.classes[pod.pod.spec.scheduler_name]
        pod_class = classes.of(pod)
        while classes.overfull:
            self.release(classes.drop_oldest())
        return pod_class

    def derive_keys(self, pod: PodInfo) -> None:
        """Derive what decides the class of a long pod, with checkpoints."""
        self.classes[pod.pod.spec.scheduler_name].derive_keys(pod)

    def results(self, pod_class: PodClass) -> ClassResults:
        """The results of a class; to be refreshed before they are read."""
        known, capacity = pod_class.results, self.state.columns.capacity
        if known is not None and pod_class is self._last and capacity == self._capacity:
            return known  # as in a run of equal pods
        if self._last is not None and self._last.results is not None:
            self._last.results.end_run()
        self._last = pod_class
        size = self._recent.pop(pod_class, None)
        if pod_class.results is None or size is None:
            pod_class.results = self._build(pod_class)
            size = pod_class.results.nbytes
            self.bytes += size
        self._recent[pod_class] = size
        self._keep_up()
        while self.bytes > self.budget and len(self._recent) > 1:
            self.release(next(iter(self._recent)))
            self.evictions += 1
        return pod_class.results

    def _build(self, pod_class: PodClass) -> ClassResults:
        readers: dict[tuple[Aspects, Aspects], ChangeReader] = {}
        for point in (FILTER, SCORE):
            for each, key in pod_class.plugins[point]:
                if each.kept:
                    column = self._column(pod_class.profile, point, each, key, readers)
                    column.users += 1
                    pod_class.columns[point, each.plugin] = column
        filters: list[AnswerColumn] = []
        for each, _ in pod_class.plugins[FILTER]:
            if not each.kept:
                break
            filters.append(pod_class.columns[FILTER, each.plugin])
        scored = [each for each, _ in pod_class.plugins[SCORE]]
        rated = [
            (pod_class.columns[SCORE, each.plugin], each.weight, each.absolute)
            for each in scored
            if each.kept
        ]
        return ClassResults(
            self.state,
            pod_class.reads,
            filters,
            [(column, weight) for column, weight, absolute in rated if absolute],
            [(column, weight) for column, weight, absolute in rated if not absolute],
            all_filters=len(filters) == len(pod_class.plugins[FILTER]),
            all_scores=len(rated) == len(scored),
        )

    def _column(
        self,
        profile: str,
        point: str,
        declared: Declaration,
        key: Hashable,
        readers: dict[tuple[Aspects, Aspects], ChangeReader],
    ) -> AnswerColumn:
        assert declared.reads is not None, "only declared answers are kept"
        identity = (profile, point, declared.plugin, key)
        column = self._columns.get(identity)
        if column is None:
            # What keys are derived from is no business of a column, which has one key.
            depends_on = declared.reads.rows, declared.reads.cluster
            reader = readers.get(depends_on)
            if reader is None:
                reader = readers[depends_on] = ChangeReader(self.state, declared.reads)
            column = self._columns[identity] = AnswerColumn(
                declared.plugin,
                key,
                declared.reads,
                reader,
                self.state.columns.capacity,
                _DTYPES[point],
                self.by_plugin[point, declared.plugin],
            )
            self.bytes += column.nbytes
        return column

    # Letting go

    def forget_idle(self) -> None:
        """Forget some of the templates and classes that had no pod for `IDLE_LOOKS` calls.

        A call looks at few of them, and takes a fraction of a millisecond.
        """
        for classes in self.classes.values():
            for pod_class in classes.forget_idle(LOOKED_AT, IDLE_LOOKS):
                self.release(pod_class)

    def release(self, pod_class: PodClass) -> None:
        """Drop all that is kept for a class and for no other."""
        self.bytes -= self._recent.pop(pod_class, 0)
        pod_class.results = None
        pod_class.verdict = None
        for (point, plugin), column in pod_class.columns.items():
            column.users -= 1
            if not column.users:
                self._columns.pop((pod_class.profile, point, plugin, column.key), None)
                column.leave()
                self.bytes -= column.nbytes
        pod_class.columns.clear()

    def _keep_up(self) -> None:
        """Widen all arrays when there are more rows, and count their bytes again."""
        capacity = self.state.columns.capacity
        if capacity == self._capacity:
            return
        self._capacity = capacity
        for pod_class in self._recent:
            if pod_class.results is not None:
                pod_class.results.widen()
                self._recent[pod_class] = pod_class.results.nbytes
        for column in self._columns.values():
            column.widen(capacity)
        columns = sum(column.nbytes for column in self._columns.values())
        self.bytes = columns + sum(self._recent.values())

    # For people

    @property
    def statistics(self) -> CacheStatistics:
        """What was saved of all answers."""
        total = CacheStatistics()
        for each in self.by_plugin.values():
            total.hits += each.hits
            total.misses += each.misses
            total.evaluated += each.evaluated
        return total

    @property
    def column_count(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    @property
    def mismatches(self) -> int:
        """How many revisions of controllers turned out to have pods that differ."""
        return sum(classes.mismatches for classes in self.classes.values())

    def usage(self) -> dict[str, Usage]:
        """How much is kept."""
        columns = Usage(len(self._columns), self.bytes, self.evictions)
        kept = [classes.usage() for classes in self.classes.values()]
        return {
            "equivalence_columns": columns,
            "pod_templates": Usage(
                sum(each.templates for each in kept), sum(each.template_bytes for each in kept)
            ),
            "pod_classes": Usage(
                sum(each.classes for each in kept), sum(each.class_bytes for each in kept)
            ),
        }

    @property
    def class_count(self) -> int:
        """How many classes are known."""
        return sum(map(len, self.classes.values()))

    def __iter__(self) -> Iterator[PodClass]:
        """All classes that something is kept for, the most recently used last."""
        return iter(list(self._recent))

    def find(self, equivalence_hash: int) -> PodClass | None:
        """The class of this name, if something is kept for it."""
        return next((each for each in self if each.hash == equivalence_hash), None)

    def lookup(self, node: str, plugin: str, equivalence_hash: int) -> HostPredicate | None:
        """What is kept of a plugin's verdict on a node; None (invalid) if it must be asked."""
        pod_class, row = self.find(equivalence_hash), self.state.row(node)
        if pod_class is None or row is None:
            return None
        column = pod_class.columns.get((FILTER, plugin))
        if column is None:
            return None
        self._keep_up()
        column.sync(row)
        if not column.known[row]:
            return None
        status = self.state.statuses.status(int(column.values[row]))
        return HostPredicate(status.ok, status.reasons)

    def log_appends(self) -> dict[str, int]:
        """How often each aspect of the cluster has changed."""
        changes = self.state.changes
        return {aspect.name.lower(): changes.appends(aspect) for aspect in Aspect}

    def describe(self, pod_class: PodClass) -> dict[str, Any]:
        """A class in plain values."""
        results = pod_class.results
        return {
            "hash": str(pod_class.hash),
            "profile": pod_class.profile,
            "priority": pod_class.identity[2],
            "pods": pod_class.pods,
            "feasible": results.count if results else None,
            "bytes": self._recent.get(pod_class, 0),
            "plugins": {
                point: [self._describe(pod_class, point, each) for each, _ in chosen]
                for point, chosen in pod_class.plugins.items()
            },
            "silent": {point: sorted(names) for point, names in pod_class.silent.items()},
        }

    def _describe(self, pod_class: PodClass, point: str, each: Declaration) -> dict[str, Any]:
        column = pod_class.columns.get((point, each.plugin))
        mode = "fresh" if each.reads is None else "kept" if each.kept else "recomputed"
        answer: dict[str, Any] = {"name": each.plugin, "mode": mode}
        if column is not None:
            answer |= {"sharedBy": column.users, "known": int(column.known.sum())}
        return answer

    def verdicts(self, pod_class: PodClass) -> dict[str, dict[str, Status | None]]:
        """What is kept of each plugin's verdict on each node; None where it must be asked."""
        self._keep_up()
        rows = self.state.rows()
        table: dict[str, dict[str, Status | None]] = {self.state.name(int(r)): {} for r in rows}
        for (point, plugin), column in pod_class.columns.items():
            if point == FILTER:
                column.sync(int(rows[-1]) if len(rows) else 0)
                for row in rows.tolist():
                    table[self.state.name(row)][plugin] = (
                        self.state.statuses.status(int(column.values[row]))
                        if column.known[row]
                        else None
                    )
        return table
