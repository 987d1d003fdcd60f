"""Runs the score plugins of a profile: all of them, or one for callers that keep scores.

A fault never ends an attempt here: the rows concerned get no score from the plugin.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework.plugin_runner import PluginEntry, PluginRunner
from scheduler.model.status import Code, Status, error
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import (
    MAX_SCORE,
    POINTS,
    LevelScore,
    OneRowScore,
    ScorePlugin,
)
from scheduler.state.columns import Mask, Rows, Scores

FAULTY = int(np.iinfo(np.int64).min)
"""The raw score of a row for which a plugin failed: zero, once scores are normalised."""

_LIMIT = 2**62
"""Scores must be smaller: sums and products of scores must fit 64 bits."""

_EFFECT = "nodes concerned get no score from it"
_NOT_FINITE = "a score is not a finite number"
_OUTSIDE = f"a score is outside 0..{MAX_SCORE}"


class ScoredRows(msgspec.Struct, frozen=True):
    """Totals per row, and each plugin's weighted part of them."""

    totals: Scores
    plugins: dict[str, Scores]


class ScoreRunner:
    """The score plugins of one profile, in order and by name."""

    def __init__(self, runner: PluginRunner) -> None:
        self._runner = runner
        self._entries = runner.entries["score"]
        self._by_name = {entry.name: entry for entry in self._entries}
        self._plugins: dict[str, ScorePlugin] = {}
        self._one_row: dict[str, PluginEntry] = {}
        """The plugins that have a way of their own to score one row."""
        self._level: dict[str, LevelScore] = {}
        """The plugins that may find that they rate all nodes alike."""
        for entry in self._entries:
            plugin = runner.plugins[entry.name]
            assert isinstance(plugin, ScorePlugin), "only such plugins are enabled at score"
            self._plugins[entry.name] = plugin
            if isinstance(plugin, OneRowScore):
                self._one_row[entry.name] = runner.with_call("score", entry, plugin.score_one)
            if isinstance(plugin, LevelScore):
                self._level[entry.name] = plugin
        traits = runner.traits.items()
        self._absolute = frozenset(name for name, each in traits if each.absolute)
        self._unbounded = frozenset(name for name, each in traits if each.unbounded)
        self._faulty: set[str] = set()
        """The plugins that have given a raw score ``FAULTY``, so that others are not searched."""

    def run(self, cycle: Cycle, rows: Rows) -> ScoredRows:
        """Weighted scores of feasible rows, normalised over these rows."""
        self.run_pre_score(cycle, rows)
        parts: dict[str, Scores] = {}
        totals: Scores = np.zeros(len(rows), np.int64)
        with self._runner.timed("score"):
            for entry in self._runner.without["score"][cycle.skipped["score"]]:
                scores = self.normalize(entry.name, cycle, self._score(entry, cycle, rows))
                parts[entry.name] = scores * entry.weight
                totals += parts[entry.name]
        return ScoredRows(totals, parts)

    def totals(self, cycle: Cycle, rows: Rows) -> Scores | None:
        """The totals of `run`; None if they are zero, because no plugin prefers any node.

        For callers that have run PreScore, and take the time.
        """
        totals: Scores | None = None
        for entry in self._runner.without["score"][cycle.skipped["score"]]:
            if self._is_level(entry.name, cycle):
                continue
            scores = self.normalize(entry.name, cycle, self._score(entry, cycle, rows))
            weighted = scores * entry.weight
            totals = weighted if totals is None else totals + weighted
        return totals

    def _is_level(self, name: str, cycle: Cycle) -> bool:
        plugin = self._level.get(name)
        try:
            return plugin is not None and plugin.is_level(cycle)
        except Exception as fault:
            self._no_score(name, cycle, fault)
            return True

    def run_pre_score(self, cycle: Cycle, rows: Rows) -> None:
        """Have plugins look at all feasible rows; those that skip give no scores."""
        with self._runner.timed("preScore"):
            for entry in self._runner.without["preScore"][cycle.skipped["score"]]:
                if entry.count is not None:
                    entry.count()
                try:
                    status: Status = entry.call(cycle, rows)
                except Exception as fault:
                    status = error(f"{type(fault).__name__}: {fault}")
                if not status.ok:
                    cycle.skip("score", frozenset((entry.name,)))
                    if status.code is not Code.SKIP:
                        self._no_score(entry.name, cycle, status.message, "preScore")

    def prepare(self, name: str, cycle: Cycle, rows: Rows) -> bool:
        """Run PreScore of one plugin alone; whether it has anything to say. Faults are none."""
        for entry in self._runner.entries["preScore"]:
            if entry.name == name:
                try:
                    return bool(entry.call(cycle, rows).ok)
                except Exception:  # the attempt reports it
                    return False
        return True

    def score_one(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's raw score of one row."""
        entry = self._one_row.get(name)
        if entry is None:
            return int(self.score(name, cycle, np.array((row,), np.intp))[0])
        if entry.count is not None:
            entry.count()
        try:
            score = int(entry.call(cycle, row))
        except Exception as fault:
            return self._without_score(name, cycle, fault)
        if 0 <= score <= MAX_SCORE:
            return score
        if abs(score) >= _LIMIT:
            return self._without_score(name, cycle, _NOT_FINITE)
        return self._without_score(name, cycle, _OUTSIDE) if name in self._absolute else score

    def _without_score(self, name: str, cycle: Cycle, fault: Exception | str) -> int:
        self._no_score(name, cycle, fault)
        return 0 if name in self._absolute else self._faulted(name)

    def score(self, name: str, cycle: Cycle, rows: Rows) -> Scores:
        """One plugin's raw score per row; those that are final are checked."""
        raw = self._score(self._by_name[name], cycle, rows)
        return self._in_range(name, cycle, raw) if name in self._absolute else raw

    def normalize(self, name: str, cycle: Cycle, raw: Scores) -> Scores:
        """One plugin's raw scores brought into range, over these rows."""
        if name not in self._faulty:
            return self._normalize(name, cycle, raw)
        sound = raw != FAULTY
        scores: Scores = np.zeros(len(raw), np.int64)
        scores[sound] = self._normalize(name, cycle, raw[sound])
        return scores

    def _normalize(self, name: str, cycle: Cycle, raw: Scores) -> Scores:
        try:
            scores = self._plugins[name].normalize(cycle, raw)
        except Exception as fault:
            self._no_score(name, cycle, fault)
            return np.zeros(len(raw), np.int64)
        if name not in self._runner.external:
            return scores  # trusted, like verdicts
        return self._in_range(name, cycle, self._numbers(name, cycle, scores, len(raw)))

    def _score(self, entry: PluginEntry, cycle: Cycle, rows: Rows) -> Scores:
        if entry.count is not None:
            entry.count()
        try:
            raw = entry.call(cycle, rows)
        except Exception as fault:
            self._no_score(entry.name, cycle, fault)
            return np.full(len(rows), self._faulted(entry.name), np.int64)
        return self._numbers(entry.name, cycle, raw, len(rows))

    def _numbers(self, name: str, cycle: Cycle, scores: Any, count: int) -> Scores:
        """So many whole numbers; where there is none, ``FAULTY``, which is never in range."""
        if type(scores) is np.ndarray and scores.dtype == np.int64 and scores.shape == (count,):
            return scores
        if isinstance(scores, list):
            scores = self._numbers_only(name, cycle, scores)
        try:
            given = np.asarray(scores)
        except Exception as fault:
            self._no_score(name, cycle, fault)
            return np.full(count, self._faulted(name), np.int64)
        if given.shape != (count,):
            self._no_score(name, cycle, "wrong number of scores")
        elif given.dtype.kind not in "iufb":
            self._no_score(name, cycle, f"scores are {given.dtype}, not numbers")
        else:
            return self._whole(name, cycle, given)
        return np.full(count, self._faulted(name), np.int64)

    def _numbers_only(self, name: str, cycle: Cycle, scores: list[Any]) -> list[Any]:
        """Answers for single rows; one that is no number (a fault, say) costs that row only."""
        strange = [score for score in scores if not _is_number(score)]
        if not strange:
            return scores
        self._faulty.add(name)
        first = strange[0]
        fault = first if isinstance(first, Exception) else f"a score is {first!r:.40}"
        self._no_score(name, cycle, fault)
        return [score if _is_number(score) else FAULTY for score in scores]

    def _whole(self, name: str, cycle: Cycle, given: NDArray[Any]) -> Scores:
        sound: Mask = np.isfinite(given) & (np.abs(given.astype(np.float64)) < _LIMIT)
        if sound.all():
            return given.astype(np.int64)
        if (given[~sound] != FAULTY).any():
            self._no_score(name, cycle, _NOT_FINITE)
        scores: Scores = np.full(len(given), self._faulted(name), np.int64)
        scores[sound] = given[sound].astype(np.int64)
        return scores

    def _faulted(self, name: str) -> int:
        self._faulty.add(name)
        return FAULTY

    def _in_range(self, name: str, cycle: Cycle, scores: Scores) -> Scores:
        if name in self._unbounded:
            return scores
        if len(scores) and (scores.min() < 0 or scores.max() > MAX_SCORE):
            outside = (scores < 0) | (scores > MAX_SCORE)
            if (scores[outside] != FAULTY).any():
                self._no_score(name, cycle, _OUTSIDE)
            return np.where(outside, 0, scores)
        return scores

    def _no_score(
        self, name: str, cycle: Cycle, fault: Exception | str, point: str = "score"
    ) -> None:
        """Count and report a fault that costs nodes this plugin's score, and nothing else."""
        reporter, label = self._runner.fault_reporter, POINTS[point].label
        reporter.report_contained(cycle.pod, name, label, fault, _EFFECT)


def _is_number(score: Any) -> bool:
    """Whether an answer can be put into an array of numbers."""
    if isinstance(score, int):
        return abs(score) < _LIMIT
    return isinstance(score, float | np.number)
