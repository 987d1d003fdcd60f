"""The results of a class: the answers of its plugins joined, for every row.

Filters are joined up to the first one whose answers are not kept; what a row's first rejecting
plugin said is its verdict. Scores are joined where they are kept: *absolute* ones as one sum, the
others as raw scores, since these are normalised over the rows that are feasible.

After a placement the log names one row. That row is judged and scored again, and nothing else is
touched; so for pods of one class in a row the choice is one among the kept rows with the highest
total (`top_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.equivalence.top_rows import Best, TopRows, best_of
from scheduler.equivalence.verdicts import AnswerColumn, ChangeReader
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Mask, Rows, Scores, where

UNFIT = -1
"""The total of a row that does not fit, or holds no node."""


class Evaluator(Protocol):
    """Asks the plugins of a profile about one pod."""

    def filter(self, plugin: str, rows: Rows) -> Codes:
        """A code per row."""
        ...

    def filter_one(self, plugin: str, row: int) -> int:
        """The code of one row."""
        ...

    def score_one(self, plugin: str, row: int) -> int:
        """The raw score of one row."""
        ...

    def score(self, plugin: str, rows: Rows) -> Scores:
        """A raw score per row."""
        ...

    def normalize(self, plugin: str, scores: Scores) -> Scores:
        """Raw scores of all feasible rows brought into 0..100."""
        ...


OVERHEAD = 4096
"""What the results of a class take besides their arrays, measured."""


class RelativeScores:
    """A plugin's kept raw scores in a class, which are normalised over feasible rows."""

    __slots__ = ("column", "level", "raw", "weight")

    def __init__(self, column: AnswerColumn, weight: int, capacity: int) -> None:
        self.column = column
        self.weight = weight
        self.raw: Scores = np.zeros(capacity, np.int64)
        """True for rows that fit."""
        self.level = True
        """Whether all rows that fit have the same raw score, and so any subset of them has."""


class AffectedColumns(NamedTuple):
    """The columns whose answers a change may affect."""

    everything: bool
    filters: list[AnswerColumn]
    absolute: list[tuple[AnswerColumn, int, bool]]
    """All absolute scores with their weights, and whether the change may affect them."""
    relative: list[RelativeScores]


_MOST_PLANS = 16
"""Sets of aspects that changed together: mostly there are two or three."""


class ClassResults:
    """A class's verdict, and as far as they are kept its scores, for every row."""

    def __init__(
        self,
        state: ClusterState,
        reads: Reads,
        filters: Sequence[AnswerColumn],
        absolute: Sequence[tuple[AnswerColumn, int]],
        relative: Sequence[tuple[AnswerColumn, int]],
        *,
        all_filters: bool,
        all_scores: bool,
    ) -> None:
        capacity = state.columns.capacity
        self._state = state
        self._reader: ChangeReader | None = None
        self._reads = reads
        self._filters = filters
        self._absolute = absolute
        self._relative = [RelativeScores(column, weight, capacity) for column, weight in relative]
        self.complete = all_filters and all_scores
        """Whether every filter and score is joined here, so that the totals decide."""
        self.codes: Codes = np.zeros(capacity, np.int32)
        self.fits: Mask = np.zeros(capacity, np.bool_)
        self.sums: Scores = np.zeros(capacity, np.int64)
        """Absolute scores, weighted; true for rows that fit."""
        self.totals: Scores = np.full(capacity, UNFIT, np.int64)
        """All kept scores, as if the rows that fit here were all the feasible ones."""
        self.count = 0
        """How many rows fit."""
        self._feasible: Rows | None = None
        self._top: TopRows | None = None
        self._in_run = False
        """Whether the class was the last one whose best rows were asked for."""
        self._passed: dict[AnswerColumn, int] = {}
        """Later filters that pass all feasible rows, each with its `AnswerColumn.changes`."""
        self._plans: dict[tuple[Aspect, ...], AffectedColumns] = {}

    @property
    def joined(self) -> int:
        """How many of the class's filters are in the verdicts; the others come after them."""
        return len(self._filters)

    @property
    def nbytes(self) -> int:
        """The memory it occupies, without its columns."""
        own = (
            OVERHEAD + self.codes.nbytes + self.fits.nbytes + self.sums.nbytes + self.totals.nbytes
        )
        return own + sum(rated.raw.nbytes for rated in self._relative)

    def feasible(self) -> Rows:
        """The rows that fit."""
        if self._feasible is None:
            self._feasible = np.flatnonzero(self.fits)
            self._passed.clear()
        return self._feasible

    def best(self) -> Best:
        """The rows with the highest total, `UNFIT` if none fits.

        They are kept from the second pod of the class in a run on, since what is kept for a single
        pod saves nothing.
        """
        if self._top is not None:
            return self._top.best()
        names = self._state.columns.name_hash
        if not self._in_run:
            self._in_run = True
            return best_of(self.totals, names)
        self._top = TopRows(self.totals, names)
        return self._top.best()

    def end_run(self) -> None:
        """Drop what only a run of pods of this class makes use of: another class is next."""
        self._top, self._in_run = None, False

    def rejected_by(self, column: AnswerColumn, rows: Rows, evaluator: Evaluator) -> Codes | None:
        """What a filter that is not joined says of rows that fit; None if it passes them all.

        Between two pods of a class mostly neither the rows nor its answers change.
        """
        everywhere = rows is self._feasible
        if everywhere and self._passed.get(column) == column.synced():
            column.statistics.hits += len(rows)
            return None
        codes: Codes = column.ask(rows, partial(evaluator.filter, column.plugin))
        if np.count_nonzero(codes):
            return codes
        if everywhere:
            self._passed[column] = column.changes
        return None

    def refresh(self, evaluator: Evaluator) -> None:
        """Judge and score again what has changed."""
        if self._reader is None:
            self._reader, touched = ChangeReader(self._state, self._reads), None
        else:
            touched = self._reader.news()
        if touched is None:
            self._erase()
        elif not touched:
            return
        affected = self._affected(() if touched is None else tuple(self._reader.changed))
        try:
            if touched is not None and len(set(touched)) == 1:
                self._judge_one(touched[0], affected, evaluator)
                return
            rows = (
                self._state.rows() if touched is None else np.array(sorted(set(touched)), np.intp)
            )
            if len(rows):
                self._judge(rows, affected, evaluator)
        except BaseException:
            self._reader = None  # half done: next time, from the start
            raise

    def _affected(self, changed: tuple[Aspect, ...]) -> AffectedColumns:
        """The columns whose answers may be different after these aspects changed; none: all."""
        known = self._plans.get(changed)
        if known is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            everything = not changed or Aspect.NODE in changed

            def reads_them(column: AnswerColumn) -> bool:
                return everything or not column.reads.rows.isdisjoint(changed)

            known = self._plans[changed] = AffectedColumns(
                everything,
                [column for column in self._filters if reads_them(column)],
                [(column, weight, reads_them(column)) for column, weight in self._absolute],
                [rated for rated in self._relative if reads_them(rated.column)],
            )
        return known

    def _judge(self, touched: Rows, affected: AffectedColumns, evaluator: Evaluator) -> None:
        at = where(touched)
        live = self._state.columns.live[at]
        rows = touched if live.all() else touched[live]
        fitted = np.array(self.fits[at])
        if affected.everything or not fitted.all():
            codes = self._verdicts(self._filters, rows, evaluator)
        else:  # every filter passed these rows, so only affected ones are called
            codes = self._verdicts(affected.filters, rows, evaluator)
        self.codes[where(rows)] = codes
        self.fits[at] = False
        self.fits[where(rows)] = codes == 0
        now = self.fits[at]
        fitting = touched if now.all() else touched[now]
        if (fitted != now).any():
            self.count += len(fitting) - int(fitted.sum())
            self._feasible = None
            self._score(fitting, None, evaluator)
            if len(fitting) < len(touched):
                self.totals[touched[~now]] = UNFIT
        else:
            self._score(fitting, affected, evaluator)

    def _judge_one(self, row: int, affected: AffectedColumns, evaluator: Evaluator) -> None:
        """The same for one row without arrays of length one, which cost more than they hold."""
        fitted = bool(self.fits[row])
        live = bool(self._state.columns.live[row])
        filters = affected.filters if fitted else self._filters
        code = 0
        for column in filters if live else ():
            code = column.ask_one(row, evaluator.filter_one)
            if code:
                break
        self.codes[row] = code
        now = live and not code
        if affected.everything:
            self._top = None  # the row may have another node, whose name is another
        if fitted and now:
            self._score_one(row, affected, evaluator)
        elif fitted != now:
            self.fits[row] = now
            self.count += 1 if now else -1
            self._feasible = None
            self.totals[row] = UNFIT
            self._score(_one(row) if now else _NO_ROWS, None, evaluator)

    def _score_one(self, row: int, affected: AffectedColumns, evaluator: Evaluator) -> None:
        for rated in affected.relative:  # for each placement: `any` would make a generator
            if int(rated.raw[row]) != rated.column.ask_one(row, evaluator.score_one):
                self._score(_one(row), None, evaluator)
                return
        total = 0
        for column, weight, ask in affected.absolute:
            raw = column.ask_one(row, evaluator.score_one) if ask else int(column.values[row])
            total += weight * raw
        self.totals[row] += total - int(self.sums[row])
        self.sums[row] = total
        if self._top is not None and not self._top.change(row, int(self.totals[row])):
            self._top = None

    @staticmethod
    def _verdicts(filters: Sequence[AnswerColumn], rows: Rows, evaluator: Evaluator) -> Codes:
        codes: Codes = np.zeros(len(rows), np.int32)
        passing, remaining = None, rows
        for column in filters:
            verdicts = column.ask(remaining, partial(evaluator.filter, column.plugin))
            if verdicts.any():
                if passing is None:
                    codes[:] = verdicts
                    passing = np.flatnonzero(verdicts == 0)
                else:
                    codes[passing] = verdicts
                    passing = passing[verdicts == 0]
                remaining = rows[passing]
                if not len(passing):
                    break
        return codes

    def _score(self, rows: Rows, affected: AffectedColumns | None, evaluator: Evaluator) -> None:
        """Score rows that fit; without ``affected``, other rows may have begun or ceased to."""
        at = where(rows)
        sums: Scores = np.zeros(len(rows), np.int64)
        for i, (column, weight) in enumerate(self._absolute):
            ask = affected is None or affected.absolute[i][2]
            raw = self._raw(column, rows, evaluator) if ask else column.values[at]
            sums += weight * raw
        shift = sums - self.sums[at]
        self.sums[at] = sums
        renormalize = affected is None
        for rated in self._relative if affected is None else affected.relative:
            raw = self._raw(rated.column, rows, evaluator)
            renormalize = renormalize or bool((rated.raw[at] != raw).any())
            rated.raw[at] = raw
        self._top = None
        if renormalize:
            feasible = self.feasible()
            everywhere = where(feasible)
            self.totals[everywhere] = self._totals(feasible, evaluator)
            for rated in self._relative:
                rated.level = _is_level(rated.raw[everywhere])
        else:
            self.totals[at] += shift

    @staticmethod
    def _raw(column: AnswerColumn, rows: Rows, evaluator: Evaluator) -> Scores:
        return column.ask(rows, partial(evaluator.score, column.plugin))

    def totals_of(self, rows: Rows, evaluator: Evaluator) -> Scores:
        """The sum of the kept scores of rows, as if these were all the feasible ones."""
        if len(rows) == self.count or all(rated.level for rated in self._relative):
            return self.totals.take(rows)
        return self._totals(rows, evaluator)

    def _totals(self, rows: Rows, evaluator: Evaluator) -> Scores:
        totals = self.sums[rows]
        if len(rows):
            for rated in self._relative:
                shares = evaluator.normalize(rated.column.plugin, rated.raw[rows])
                totals = totals + rated.weight * shares
        return totals

    def _erase(self) -> None:
        self.widen()
        self.fits[:] = False
        self.totals[:] = UNFIT
        self.count = 0
        self._feasible = self._top = None

    def widen(self) -> None:
        """Grow to all rows that there are now."""
        extra = (0, self._state.columns.capacity - len(self.codes))
        if not extra[1]:
            return
        self._top = None
        self.codes = np.pad(self.codes, extra)
        self.fits = np.pad(self.fits, extra)
        self.sums = np.pad(self.sums, extra)
        self.totals = np.pad(self.totals, extra, constant_values=UNFIT)
        for rated in self._relative:
            rated.raw = np.pad(rated.raw, extra)


def _is_level(raw: Scores) -> bool:
    return not len(raw) or bool(raw.min() == raw.max())


def _one(row: int) -> Rows:
    return np.array([row], np.intp)


_NO_ROWS: Rows = np.zeros(0, np.intp)
