"""Runs the filter plugins of a profile: all of them, or one for callers that keep verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import numpy as np

from scheduler.framework.declarations import declared_filter
from scheduler.framework.faults import PluginFaultReporter
from scheduler.framework.plugin_runner import PluginEntry, PluginRunner
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import OneRowFilter, QuickFilter, WhatIfPlugin
from scheduler.state.aspects import OF_PODS
from scheduler.state.columns import Codes, Rows
from scheduler.state.scratch import Scratch, scratch


class FilterRunner:
    """The filters of one profile, in order and by name."""

    def __init__(self, runner: PluginRunner) -> None:
        self._runner = runner
        self._entries = runner.entries["filter"]
        self._by_name = {entry.name: entry for entry in self._entries}
        self._one_row = {entry.name: self._for_one_row(entry) for entry in self._entries}
        self._row_by_row = frozenset(
            name for name, traits in runner.traits.items() if traits.row_by_row
        )
        self._sums_only = frozenset(
            entry.name for entry in self._entries if self._reads_sums_only(entry.name)
        )
        self._quick = [
            (entry.name, plugin)
            for entry in reversed(self._entries)  # the most selective ones are the last
            if isinstance(plugin := runner.plugins[entry.name], QuickFilter)
        ]
        self._what_if = [
            (name, plugin)
            for name in runner.names("preFilter", "filter")
            if isinstance(plugin := runner.plugins[name], WhatIfPlugin)
        ]

    def _for_one_row(self, entry: PluginEntry) -> PluginEntry:
        """A plugin's way to judge one row: its own, or by a column of length one."""
        plugin = self._runner.plugins[entry.name]
        if isinstance(plugin, OneRowFilter):
            return self._runner.with_call("filter", entry, plugin.filter_one)

        def judge_column(cycle: Cycle, row: int) -> Any:
            return _only(entry.call(cycle, np.array((row,), np.intp)))

        return msgspec.structs.replace(entry, call=judge_column)

    def run(self, cycle: Cycle, rows: Rows) -> Codes:
        """A verdict per row: of the first plugin that rejects it, or 0."""
        codes: Codes = np.zeros(len(rows), np.int32)
        passing, remaining = np.arange(len(rows)), rows
        with self._runner.timed("filter") as timing:
            for entry in self._runner.without["filter"][cycle.skipped["filter"]]:
                verdicts = self._judge(entry, cycle, remaining)
                if verdicts.any():
                    codes[passing] = verdicts
                    passing = passing[verdicts == 0]
                    remaining = rows[passing]
                    if not len(passing):
                        timing.code = Code.UNSCHEDULABLE
                        break
        return codes

    def run_by_sums(self, cycle: Cycle, rows: Rows) -> Codes:
        """The same by those filters that come before the first one that reads more than sums.

        A rejection is that of `run`; an acceptance says nothing.
        """
        codes: Codes = np.zeros(len(rows), np.int32)
        for entry in self._runner.without["filter"][cycle.skipped["filter"]]:
            passing = np.flatnonzero(codes == 0)
            if entry.name not in self._sums_only or not len(passing):
                break
            codes[passing] = self._judge(entry, cycle, rows[passing])
        return codes

    def include(self, name: str) -> bool:
        """Whether a plugin is one of these filters."""
        return name in self._by_name

    def judge(self, name: str, cycle: Cycle, rows: Rows) -> Codes:
        """One plugin's verdict per row."""
        return self._judge(self._by_name[name], cycle, rows)

    def judge_one(self, name: str, cycle: Cycle, row: int) -> int:
        """One plugin's verdict on one row."""
        entry = self._one_row[name]
        if entry.count is not None:
            entry.count()
        try:
            code = entry.call(cycle, row)
        except Exception as fault:
            raise self._runner.fault(name, "filter", fault) from fault
        if entry.external and (code or type(code) is not int):
            wrong = unusable_code(code, len(cycle.state.statuses))
            if wrong:
                raise self._runner.fault(name, "filter", wrong)
        return int(code)

    def _judge(self, entry: PluginEntry, cycle: Cycle, rows: Rows) -> Codes:
        verdicts: Codes = self._runner.call("filter", entry, cycle, rows)
        if entry.external:
            wrong = unusable_codes(verdicts, len(rows), len(cycle.state.statuses))
            if wrong:
                raise self._runner.fault(entry.name, "filter", wrong)
        return verdicts

    def judge_row_by_row(self, cycle: Cycle) -> bool:
        """Whether all filters that judge this pod have the trait ``row_by_row``."""
        skipped = cycle.skipped["filter"]
        return all(
            entry.name in self._row_by_row or entry.name in skipped for entry in self._entries
        )

    def judge_by_sums(self, cycle: Cycle) -> bool:
        """Whether, besides, removed pods change nothing for them but what is requested of rows.

        Verdicts without some pods can then be had without removing them.
        """
        skipped = cycle.skipped["filter"]
        return self.judge_row_by_row(cycle) and all(
            entry.name in self._sums_only or entry.name in skipped for entry in self._entries
        )

    def with_own_accounting(self, pod: PodInfo) -> list[str]:
        """Filters that check a pod against a record of their own, which trials do not change."""
        return [
            entry.name
            for entry in self._entries
            if self._runner.traits[entry.name].own_accounting
            and declared_filter(self._runner.plugins[entry.name], judges=True).key(pod) is not None
        ]

    def _reads_sums_only(self, name: str) -> bool:
        if self._runner.traits[name].by_sums:
            return True
        reads = declared_filter(self._runner.plugins[name], judges=True).reads
        return reads is not None and reads.all.isdisjoint(OF_PODS)

    def still_reject(self, plugins: Collection[str], pod: PodInfo, rows: Rows) -> bool:
        """Whether these plugins, as far as they are quick, reject a pod on each of these rows."""
        for name, plugin in self._quick:
            if name in plugins:
                try:
                    rows = rows[plugin.accepts(pod, rows)]
                except Exception as fault:
                    self._runner.fault(name, "filter", fault)
                    return False
                if not len(rows):
                    return True
        return False

    def trial(self, cycle: Cycle) -> AbstractContextManager[Scratch]:
        """Change the state for the length of a block, within an attempt. Nothing inside may await.

        Plugins that keep sums of their own per cycle (``WhatIfPlugin``) follow the changes.
        """
        following = [
            (name, plugin) for name, plugin in self._what_if if name not in cycle.skipped["filter"]
        ]
        listener = _TrialListener(self._runner.fault_reporter, cycle, following)
        return scratch(cycle.state, listener if following else None)


class _TrialListener:
    """Passes the changes of a trial on to plugins; a fault of one ends the attempt."""

    def __init__(
        self,
        fault_reporter: PluginFaultReporter,
        cycle: Cycle,
        plugins: Sequence[tuple[str, WhatIfPlugin]],
    ) -> None:
        self._fault_reporter = fault_reporter
        self._cycle = cycle
        self._plugins = plugins

    def added(self, pod: PodInfo, node: str) -> None:
        for name, plugin in self._plugins:
            try:
                plugin.add_pod(self._cycle, pod, node)
            except Exception as fault:
                raise self._fault_reporter.fault(name, "AddPod", fault) from fault

    def removed(self, pod: PodInfo, node: str) -> None:
        for name, plugin in self._plugins:
            try:
                plugin.remove_pod(self._cycle, pod, node)
            except Exception as fault:
                raise self._fault_reporter.fault(name, "RemovePod", fault) from fault


def _only(codes: Codes) -> int | None:
    """The code of a column of length one; None if it is something else."""
    usable = isinstance(codes, np.ndarray) and codes.shape == (1,) and codes.dtype == np.int32
    return codes.item() if usable else None


def unusable_codes(codes: Any, count: int, known: int) -> str:
    """What is wrong with verdicts on ``count`` rows, of ``known`` codes; empty if nothing is."""
    if not isinstance(codes, np.ndarray) or codes.shape != (count,):
        return "wrong number of verdicts"
    if codes.dtype != np.int32:
        return f"verdicts are {codes.dtype}, not int32"
    if codes.any() and (codes.min() < 0 or codes.max() >= known):
        return "a verdict is not the code of a status"
    return ""


def unusable_code(code: Any, known: int) -> str:
    """The same for one verdict."""
    if not isinstance(code, int | np.integer) or not 0 <= code < known:
        return "a verdict is not the code of a status"
    return ""
