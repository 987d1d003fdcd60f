"""One plugin of a profile at a time: filters and scores for those who keep the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework.calls import Entry, PluginCalls
from scheduler.framework.complaints import Complaints
from scheduler.framework.cycle import Cycle
from scheduler.framework.declaring import is_absolute
from scheduler.framework.guests import guarded, unusable_code, unusable_codes
from scheduler.framework.interface import MAX_SCORE, Plugin
from scheduler.framework.points import POINTS, Point
from scheduler.observe.metrics import Metrics
from scheduler.state.columns import Codes, Mask, Rows, Scores

# The points whose calls ``scheduler_plugin_evaluation_total`` counts.
_EVALUATED = frozenset(("preFilter", "filter", "preScore", "score"))

FAULTY = int(np.iinfo(np.int64).min)
"""The raw score of a row for which a plugin failed: zero, once scores are normalised."""

_LIMIT = 2**62
"""What is as great as that is no score: sums and products of scores must fit 64 bits."""

_EFFECT = "nodes concerned get no score from it"


class SinglePlugins(PluginCalls):
    """The plugins of a profile by point, each of which can be asked alone."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
        complaints: Complaints | None = None,
        guests: Collection[str] | None = None,
    ) -> None:
        super().__init__(profile, metrics, complaints or Complaints(metrics))
        self.plugins = plugins
        self._guests = frozenset(plugins if guests is None else guests)
        """The plugins whose answers are checked; all, if nobody says which."""
        self._unbounded = frozenset(
            name for name, plugin in plugins.items() if getattr(plugin, "unbounded", False) is True
        )
        """The plugins whose scores are taken as they are, as kube-scheduler takes extenders'."""
        self._faulty: set[str] = set()
        """The plugins that have given a raw score ``FAULTY``, so that others are not searched."""
        self._entries = {
            point.key: tuple(
                self._entry(point, name, weight) for name, weight in enabled.get(point.key, ())
            )
            for point in POINTS.values()
        }
        self._by_name = {
            (point, entry.name): entry for point, all_ in self._entries.items() for entry in all_
        }
        filters = self._entries["filter"]
        self._filter_one = {entry.name: self._one_filter(entry) for entry in filters}
        self._score_one = {
            entry.name: msgspec.structs.replace(entry, call=self._guarded("score", entry, call))
            for entry in self._entries["score"]
            if (call := getattr(plugins[entry.name], "score_one", None))
        }
        """The plugins that have a way of their own to score one row."""

    def _entry(self, point: Point, name: str, weight: int) -> Entry:
        count = None
        if point.key in _EVALUATED:
            count = self._metrics.plugin_evaluations.labels(name, point.label, self.profile).inc
        call = getattr(self.plugins[name], point.method)
        if name in self._guests:
            call = guarded(call, point, name, self.complaints)
        return Entry(name, call, weight or 1, count)

    def _guarded(self, point: str, entry: Entry, call: Any) -> Any:
        if entry.name not in self._guests:
            return call
        return guarded(call, POINTS[point], entry.name, self.complaints)

    def _one_filter(self, entry: Entry) -> Entry:
        """A plugin's way to judge one row: its own, or by a column of length one."""
        call = getattr(self.plugins[entry.name], "filter_one", None)
        if call is None:

            def call(cycle: Cycle, row: int) -> Any:
                return self._only(entry.call(cycle, np.array((row,), np.intp)))

            return msgspec.structs.replace(entry, call=call)
        return msgspec.structs.replace(entry, call=self._guarded("filter", entry, call))

    @staticmethod
    def _only(codes: Codes) -> int | None:
        """The code of a column of length one; None if it is something else."""
        usable = isinstance(codes, np.ndarray) and codes.shape == (1,) and codes.dtype == np.int32
        return codes.item() if usable else None

    def judges(self, name: str) -> bool:
        """Whether a plugin filters nodes."""
        return ("filter", name) in self._by_name

    def filter_by(self, name: str, cycle: Cycle, rows: Rows) -> Codes:
        """One plugin's verdict per row."""
        return self._filter(self._by_name["filter", name], cycle, rows)

    def filter_one_by(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's verdict on one row."""
        entry = self._filter_one[name]
        if entry.count is not None:
            entry.count()
        try:
            code = entry.call(cycle, row)
        except Exception as fault:
            raise self._fault(name, "filter", fault) from fault
        if (code or type(code) is not int) and name in self._guests:
            wrong = unusable_code(code, len(cycle.state.statuses))
            if wrong:
                raise self._fault(name, "filter", wrong)
        return int(code)

    def score_one_by(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's raw score of one row."""
        entry = self._score_one.get(name)
        if entry is None:
            return int(self.score_by(name, cycle, np.array((row,), np.intp))[0])
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
        return self._without_score(name, cycle, _OUTSIDE) if self._absolute(name) else score

    def _without_score(self, name: str, cycle: Cycle, fault: Exception | str) -> int:
        self._no_score(name, cycle, fault)
        return 0 if self._absolute(name) else self._faulted(name)

    def _absolute(self, name: str) -> bool:
        return is_absolute(self.plugins[name])

    def score_by(self, name: str, cycle: Cycle, rows: Rows) -> Scores:
        """One plugin's raw score per row; those that are final are checked."""
        raw = self._score(self._by_name["score", name], cycle, rows)
        return self._in_range(name, cycle, raw) if is_absolute(self.plugins[name]) else raw

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
            # Typed by the ScorePlugin protocol; the registry only lets such plugins score.
            scores = self.plugins[name].normalize(cycle, raw)  # type: ignore[attr-defined]  # see above
        except Exception as fault:
            self._no_score(name, cycle, fault)
            return np.zeros(len(raw), np.int64)
        return self._in_range(name, cycle, self._numbers(name, cycle, scores, len(raw)))

    def _filter(self, entry: Entry, cycle: Cycle, rows: Rows) -> Codes:
        verdicts: Codes = self._call("filter", entry, cycle, rows)
        if entry.name in self._guests:
            wrong = unusable_codes(verdicts, len(rows), len(cycle.state.statuses))
            if wrong:
                raise self._fault(entry.name, "filter", wrong)
        return verdicts

    def _score(self, entry: Entry, cycle: Cycle, rows: Rows) -> Scores:
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
        """Count and tell a fault that costs nodes this plugin's score, and nobody anything else."""
        self.complaints.contained(cycle.pod, name, POINTS[point].label, fault, _EFFECT)


def _is_number(score: Any) -> bool:
    """Whether an answer can be put into an array of numbers."""
    if isinstance(score, int):
        return abs(score) < _LIMIT
    return isinstance(score, float | np.number)


_NOT_FINITE = "a score is not a finite number"
_OUTSIDE = f"a score is outside 0..{MAX_SCORE}"
