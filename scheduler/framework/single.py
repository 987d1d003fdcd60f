"""One plugin of a profile at a time: filters and scores for those who keep the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from scheduler.framework.calls import Entry, PluginCalls
from scheduler.framework.cycle import Cycle
from scheduler.framework.declaring import is_absolute
from scheduler.framework.interface import MAX_SCORE, POINTS, Plugin, Point
from scheduler.observe.metrics import Metrics
from scheduler.state.columns import Codes, Rows, Scores

# The points whose calls ``scheduler_plugin_evaluation_total`` counts.
_EVALUATED = frozenset(("preFilter", "filter", "preScore", "score"))


class SinglePlugins(PluginCalls):
    """The plugins of a profile by point, each of which can be asked alone."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
    ) -> None:
        super().__init__(profile, metrics)
        self.plugins = plugins
        self._entries = {
            point.key: tuple(
                self._entry(point, name, weight) for name, weight in enabled.get(point.key, ())
            )
            for point in POINTS.values()
        }
        self._by_name = {
            (point, entry.name): entry for point, all_ in self._entries.items() for entry in all_
        }
        self._singly = {
            (point, entry.name): msgspec.structs.replace(entry, call=call)
            for point in ("filter", "score")
            for entry in self._entries[point]
            if (call := getattr(plugins[entry.name], f"{point}_one", None))
        }
        """The plugins that have a way of their own to answer for one row."""

    def _entry(self, point: Point, name: str, weight: int) -> Entry:
        count = None
        if point.key in _EVALUATED:
            count = self._metrics.plugin_evaluations.labels(name, point.label, self.profile).inc
        return Entry(name, getattr(self.plugins[name], point.method), weight or 1, count)

    def judges(self, name: str) -> bool:
        """Whether a plugin filters nodes."""
        return ("filter", name) in self._by_name

    def filter_by(self, name: str, cycle: Cycle, rows: Rows) -> Codes:
        """One plugin's verdict per row."""
        return self._filter(self._by_name["filter", name], cycle, rows)

    def filter_one_by(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's verdict on one row."""
        entry = self._singly.get(("filter", name))
        if entry is None:
            return int(self.filter_by(name, cycle, np.array((row,), np.intp))[0])
        return int(self._call("filter", entry, cycle, row))

    def score_one_by(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's raw score of one row."""
        entry = self._singly.get(("score", name))
        if entry is None:
            return int(self.score_by(name, cycle, np.array((row,), np.intp))[0])
        score = int(self._call("score", entry, cycle, row))
        if not 0 <= score <= MAX_SCORE and is_absolute(self.plugins[name]):
            raise self._fault(name, "score", f"a score is outside 0..{MAX_SCORE}")
        return score

    def score_by(self, name: str, cycle: Cycle, rows: Rows) -> Scores:
        """One plugin's raw score per row; a score that is final is checked."""
        raw = self._score(self._by_name["score", name], cycle, rows)
        return self._in_range(name, raw) if is_absolute(self.plugins[name]) else raw

    def normalize(self, name: str, cycle: Cycle, raw: Scores) -> Scores:
        """One plugin's raw scores brought into range, over these rows."""
        try:
            # Typed by the ScorePlugin protocol; the registry only lets such plugins score.
            scores: Scores = self.plugins[name].normalize(cycle, raw)  # type: ignore[attr-defined]  # see above
        except Exception as fault:
            raise self._fault(name, "score", fault) from fault
        if len(scores) != len(raw):
            raise self._fault(name, "score", "wrong number of scores")
        return self._in_range(name, scores)

    def _filter(self, entry: Entry, cycle: Cycle, rows: Rows) -> Codes:
        verdicts: Codes = self._call("filter", entry, cycle, rows)
        if len(verdicts) != len(rows):
            raise self._fault(entry.name, "filter", "wrong number of verdicts")
        return verdicts

    def _score(self, entry: Entry, cycle: Cycle, rows: Rows) -> Scores:
        raw: Scores = self._call("score", entry, cycle, rows)
        if len(raw) != len(rows):
            raise self._fault(entry.name, "score", "wrong number of scores")
        return raw

    def _in_range(self, name: str, scores: Scores) -> Scores:
        if len(scores) and (scores.min() < 0 or scores.max() > MAX_SCORE):
            raise self._fault(name, "score", f"a score is outside 0..{MAX_SCORE}")
        return scores
