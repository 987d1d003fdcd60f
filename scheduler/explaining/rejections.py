"""Every rejection of every node, not only the first: who rejects it, and on what facts.

The cycle stops at the first filter that rejects a node. Here each filter is asked about all nodes
that are rejected at all::

    collect ─► PreFilter of each plugin alone, if one rejected or narrowed ─► each Filter on all
               rejected rows, with and without the pods that are nominated there ─► failures
    spell   ─► the facts of each distinct failure, once; nodes that fail alike share one list

``collect`` belongs into one moment: it reads rows. ``spell`` has checkpoints and reads none. Remote
plugins are not asked again: their verdicts are listed where the cycle asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, TypeVar

import msgspec
import numpy as np

from scheduler.framework.faults import PluginFault, PluginFaultReporter
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status, unresolvable
from scheduler.pipeline.evaluation import OWN_VERDICTS, Evaluation
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import PreFilterResult
from scheduler.plugin_api.facts import MAX_FACTS, MAX_TEXT, Fact, FactsPlugin, fact
from scheduler.slices import checkpoint, whole_slice
from scheduler.state.columns import Codes, Mask, Rows
from scheduler.state.interning import distinct_codes

T = TypeVar("T")
Entry = Mapping[str, Any]
"""One rejection as plain values: plugin, code, reasons, facts."""

_POINT = "Facts"
_MAX_TRIALS = 64
"""On so many nodes nominated pods are tried one node at a time."""


class Part(msgspec.Struct, frozen=True):
    """Nodes that one plugin rejects: a place in the list of nodes, a verdict and a failure each."""

    plugin: str
    nodes: Rows
    """Places in the list of nodes."""
    codes: Codes
    failures: Sequence[Hashable] | None
    """None: the plugin gives no facts."""
    nominated: Sequence[Sequence[str]] | None = None
    """The nominated pods without which the plugin would accept each node; None: none counted."""


class Rejections(msgspec.Struct, frozen=True):
    """All rejections of a pod at one moment; nothing here refers to rows."""

    pod: PodInfo
    framework: Framework
    statuses: Mapping[int, Status]
    """The verdicts behind the codes."""
    parts: Sequence[Part]
    """In the order in which the profile's filters run."""
    cluster: Sequence[Fact] = ()
    """Facts about all nodes together, most telling first."""


def collect(evaluation: Evaluation, diagnosis: Diagnosis) -> Rejections:
    """Ask every filter about every node that the diagnosis rejects. Changes nothing.

    Belongs right after the evaluation, before the state can change.
    """
    return _Collector(evaluation, diagnosis).collected()


class _Collector:
    """The verdict columns of all plugins over the rejected rows, as they are gathered."""

    def __init__(self, evaluation: Evaluation, diagnosis: Diagnosis) -> None:
        self._framework = evaluation.framework
        self._cycle = evaluation.cycle
        self._reporter = self._framework.fault_reporter
        state = self._cycle.state
        rows, whole = state.rows(), diagnosis.pre_filter
        first = diagnosis.codes
        if whole is not None:
            first = np.full(len(rows), state.statuses.code(whole), np.int32)
        self._places = np.flatnonzero(first)
        self._rows: Rows = rows[self._places]
        self._first: Codes = first[self._places]
        self._asks = not (whole is not None and whole.plugin in OWN_VERDICTS)
        self._alone = whole is not None or evaluation.node_names is not None
        """Whether PreFilter of each plugin has to be asked alone."""
        self._columns: dict[str, Codes] = {}
        """Each plugin's verdicts on the rejected rows."""
        self._whole: set[str] = set()
        """Plugins whose PreFilter rejects the pod: their filters are not prepared."""

    def collected(self) -> Rejections:
        parts: list[Part] = []
        cluster: list[Fact] = []
        if len(self._rows):
            if self._asks:
                if self._alone:
                    self._prepare()
                self._filter()
            special = self._with_nominated_pods() if self._asks else {}
            self._overlay()
            for plugin in self._ordered():
                parts += self._parts(plugin, special.get(plugin, ()))
                cluster += self._cluster_facts(plugin)
        # Several plugins may say the same of a claim, which is told once.
        said = {(each["type"], each["message"]): each for each in reversed(cluster)}
        cluster = list(said.values())[::-1]
        near = self._nearest()  # the sort is stable: else in the order of the profile
        cluster.sort(key=lambda each: (each["plugin"] not in near, -each["nodes"]))
        table = self._cycle.state.statuses
        codes = {code for part in parts for code in distinct_codes(part.codes)}
        known = {code: table.status(code) for code in codes}
        return Rejections(self._cycle.pod, self._framework, known, parts, cluster)

    def _nearest(self) -> set[str]:
        """The plugins that reject the nodes with the fewest rejections, which lack least."""
        rejects = {plugin: column != 0 for plugin, column in self._columns.items()}
        if not rejects:
            return set()
        counts = np.sum(list(rejects.values()), axis=0)
        nearest = counts == counts.min()
        return {plugin for plugin, rejected in rejects.items() if rejected[nearest].any()}

    def _ordered(self) -> list[str]:
        """The plugins that reject some node, as the profile's filters run; others come last."""
        names = self._framework.runner.names("filter", "preFilter", "afterFilter", "postScore")
        rank = {name: number for number, name in enumerate(names)}
        return sorted(self._columns, key=lambda name: rank.get(name, len(rank)))

    def _prepare(self) -> None:
        """Ask PreFilter of each plugin alone: the cycle stops at the first that rejects."""
        runner, state = self._framework.runner, self._cycle.state
        prepared = Cycle(self._cycle.pod, state)
        for entry in runner.entries["preFilter"]:
            name = entry.name
            if name in self._framework.remote.plugins:
                prepared.skip("filter", frozenset((name,)))
                continue
            try:
                result: PreFilterResult = runner.call("preFilter", entry, prepared)
            except PluginFault as fault:
                self._reporter.report(None, fault, "an explanation leaves its verdicts out")
                self._whole.add(name)
                continue
            status = result.status
            if status.code is Code.SKIP:
                prepared.skip("filter", frozenset((name,)))
            elif status.rejected:
                self._whole.add(name)
                self._reject(name, np.ones(len(self._rows), np.bool_), status.by(name))
            elif not status.ok:
                self._whole.add(name)
            elif result.node_names is not None:
                named = [r for n in result.node_names if (r := state.row(n)) is not None]
                left_out = unresolvable(f"node(s) didn't satisfy plugin(s) [{name}]").by(name)
                self._reject(name, ~np.isin(self._rows, named), left_out)
        self._cycle = prepared

    def _reject(self, plugin: str, failed: Mask, status: Status) -> None:
        self._columns[plugin] = self._cycle.reject(failed, status)

    def _asked(self) -> Iterable[str]:
        skipped = self._cycle.skipped["filter"]
        for entry in self._framework.runner.entries["filter"]:
            name = entry.name
            silent = name in skipped or name in self._whole
            if not silent and name not in self._framework.remote.plugins:
                yield name

    def _judge(self, plugin: str, rows: Rows) -> Codes | None:
        """One filter's verdicts; None if it fails on rows that the cycle never shows to it."""
        try:
            return self._framework.filters.judge(plugin, self._cycle, rows)
        except PluginFault as fault:
            self._reporter.report(None, fault, "an explanation leaves its verdicts out")
            return None

    def _filter(self) -> None:
        for plugin in self._asked():
            codes = self._judge(plugin, self._rows)
            if codes is None or not codes.any():
                continue
            narrowed = self._columns.get(plugin)
            self._columns[plugin] = (
                codes if narrowed is None else np.where(narrowed, narrowed, codes)
            )

    def _overlay(self) -> None:
        """Take over the first rejection of each node, as the cycle found it."""
        status, by_plugin = self._cycle.state.statuses.status, dict[str, list[int]]()
        for code in distinct_codes(self._first):
            by_plugin.setdefault(status(code).plugin, []).append(code)
        for plugin, codes in by_plugin.items():  # every node may have a code of its own
            column = self._columns.get(plugin)
            column = np.zeros(len(self._rows), np.int32) if column is None else column.copy()
            here = np.isin(self._first, codes)
            column[here] = self._first[here]
            self._columns[plugin] = column

    def _parts(self, plugin: str, special: Sequence[Part]) -> Iterable[Part]:
        codes = self._columns[plugin].copy()
        for part in special:
            codes[np.isin(self._places, part.nodes)] = 0
        (at,) = codes.nonzero()
        if len(at):
            rows, codes = self._rows[at], codes[at]
            failures = self._failures(plugin, rows, codes)
            yield Part(plugin, self._places[at], codes, failures)
        yield from special

    def _failures(self, plugin: str, rows: Rows, codes: Codes) -> Sequence[Hashable] | None:
        source = self._framework.plugins.get(plugin)
        if not isinstance(source, FactsPlugin):
            return None

        def asked() -> Sequence[Hashable]:
            failures = source.failures(self._cycle, rows, codes)
            if len(failures) != len(rows):
                raise ValueError("wrong number of failures")
            return failures

        return contained(self._reporter, plugin, asked)

    def _cluster_facts(self, plugin: str) -> Sequence[Fact]:
        source = self._framework.plugins.get(plugin)
        if not isinstance(source, FactsPlugin):
            return ()
        (at,) = self._columns[plugin].nonzero()
        rows, codes = self._rows[at], self._columns[plugin][at]

        def asked() -> list[Fact]:
            told = _bounded(source.cluster_facts(self._cycle, rows, codes))
            return [{"plugin": plugin, "nodes": len(rows), **each} for each in told]

        return contained(self._reporter, plugin, asked) or ()

    # Nominated pods

    def _with_nominated_pods(self) -> dict[str, list[Part]]:
        """The rejections of nodes to which pods are nominated, as if those were there."""
        parts: dict[str, list[Part]] = {}
        cycle, framework = self._cycle, self._framework
        if not cycle.state.nominations:
            return parts
        (at,) = np.isin(self._rows, cycle.state.nominations.rows_ahead_of(cycle.pod)).nonzero()
        together = len(at) > 0 and framework.filters.judge_row_by_row(cycle)
        for group in [at] if together else at[:_MAX_TRIALS, np.newaxis]:
            rows = self._rows[group].tolist()
            ahead = [self._ahead_of(row) for row in rows]
            with framework.trial(cycle) as changes:
                for row, pods in zip(rows, ahead, strict=True):
                    for pod in pods:
                        changes.add(pod, cycle.state.name(row))
                names = [tuple(pod.key for pod in pods) for pods in ahead]
                for plugin in self._asked():
                    if (part := self._part_in_trial(plugin, group, names)) is not None:
                        parts.setdefault(plugin, []).append(part)
        for plugin, found in parts.items():
            column = self._columns.setdefault(plugin, np.zeros(len(self._rows), np.int32))
            for part in found:
                column[np.searchsorted(self._places, part.nodes)] = part.codes
        return parts

    def _ahead_of(self, row: int) -> Sequence[PodInfo]:
        state = self._cycle.state
        return state.nominations.ahead_of(self._cycle.pod, state.name(row))

    def _part_in_trial(
        self, plugin: str, group: Rows, nominated: Sequence[Sequence[str]]
    ) -> Part | None:
        """The rows of a group that a plugin rejects, now that a trial has put pods there."""
        codes = self._judge(plugin, self._rows[group])
        if codes is None or not codes.any():
            return None
        (at,) = codes.nonzero()
        places, codes = group[at], codes[at]
        alone = self._columns.get(plugin)
        names = [
            () if alone is not None and alone[place] else nominated[i]
            for i, place in zip(at.tolist(), places.tolist(), strict=True)
        ]
        failures = self._failures(plugin, self._rows[places], codes)
        return Part(plugin, self._places[places], codes, failures, names)


# Spelling


def spell(rejections: Rejections, first: Sequence[Status]) -> list[list[Entry]]:
    """The rejections of each node, the first one first. Has checkpoints.

    ``first`` has the verdict on each node. Nodes that are rejected alike share one list.
    """
    entries: list[list[Entry]] = [[] for _ in first]
    for part in rejections.parts:
        checkpoint()
        for place, entry in zip(
            part.nodes.tolist(), _Speller(rejections, part).entries(), strict=True
        ):
            checkpoint()
            entries[place].append(entry)
    shared: dict[tuple[int, ...], list[Entry]] = {}
    for place, found in enumerate(entries):
        checkpoint()
        if not found:
            continue
        if found[0]["plugin"] != first[place].plugin:
            found.sort(key=lambda each: each["plugin"] != first[place].plugin)
        entries[place] = shared.setdefault(tuple(map(id, found)), found)
    return entries


class _Speller:
    """The entries of one part; equal ones are one object."""

    def __init__(self, rejections: Rejections, part: Part) -> None:
        self._rejections = rejections
        self._part = part
        plugin = rejections.framework.plugins.get(part.plugin)
        self._plugin = plugin if isinstance(plugin, FactsPlugin) else None
        self._external = part.plugin in rejections.framework.runner.external
        self._reporter = rejections.framework.fault_reporter

    def entries(self) -> Iterator[Entry]:
        """The entry of each node of the part."""
        part, known = self._part, dict[tuple[int, Hashable, Sequence[str]], Entry]()
        for code, failure, nominated in zip(
            part.codes.tolist(),
            self._failures(),
            repeat(()) if part.nominated is None else part.nominated,
            strict=False,  # the last may be endless
        ):
            key = code, failure, nominated
            if (entry := known.get(key)) is None:
                facts = [_nominated(nominated)] if nominated else []
                facts += self._facts(failure)
                entry = known[key] = rejection(self._rejections.statuses[code], facts)
            yield entry

    def _failures(self) -> Iterable[Hashable]:
        failures = self._part.failures
        if failures is not None:
            whole_slice()
            made = contained(self._reporter, self._part.plugin, lambda: list(failures))
            checkpoint()
            if made is not None and len(made) == len(failures):
                return made
        return repeat(None, len(self._part.codes))

    def _facts(self, failure: Hashable) -> Sequence[Fact]:
        if self._plugin is None or failure is None:
            return ()
        try:
            told = _bounded(self._plugin.facts(self._rejections.pod, failure))
            return [_checked(each) for each in told] if self._external else told
        except Exception as fault:
            _report(self._reporter, self._part.plugin, fault)
            return ()


def rejection(status: Status, facts: Sequence[Fact] = ()) -> Entry:
    """A rejection as plain values."""
    return {
        "plugin": status.plugin,
        "code": status.code.value,
        "reasons": list(status.reasons),
        "facts": list(facts),
    }


def _nominated(pods: Sequence[str]) -> Fact:
    names = ", ".join(pods[:MAX_FACTS])
    more = len(pods) - MAX_FACTS
    said = f"{names} and {more} more" if more > 0 else names
    return fact(
        "nominated", f"keeps room for pods nominated to it: {said}", pods=list(pods[:MAX_FACTS])
    )


def contained(reporter: PluginFaultReporter, plugin: str, asked: Callable[[], T]) -> T | None:
    """What a plugin says; None, counted and reported, if it fails."""
    try:
        return asked()
    except Exception as fault:
        _report(reporter, plugin, fault)
        return None


def _report(reporter: PluginFaultReporter, plugin: str, fault: Exception) -> None:
    reporter.report_contained(None, plugin, _POINT, fault, "an explanation has no facts of it")


def _bounded(facts: Iterable[Fact]) -> list[Fact]:
    return list(islice(facts, MAX_FACTS))


def _checked(told: Any) -> Fact:
    """A fact of a plugin from outside the tree, if it is one; texts are cut."""
    if not isinstance(told, dict):
        raise TypeError(f"a fact is {type(told).__name__}, not dict")
    for key in ("type", "message"):
        if not isinstance(told.get(key), str):
            raise TypeError(f"a fact has no text {key!r}")
    if len(told) > MAX_FACTS:
        raise ValueError(f"a fact has {len(told)} values, more than {MAX_FACTS}")
    return {str(key): _plain(value) for key, value in told.items()}


def _plain(value: Any, depth: int = 3) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if depth and isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value[:MAX_FACTS]]
    if depth and isinstance(value, dict):
        kept = islice(value.items(), MAX_FACTS)
        return {str(key): _plain(each, depth - 1) for key, each in kept}
    raise TypeError(f"a fact holds {type(value).__name__}, which is no plain value")
