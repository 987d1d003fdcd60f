"""Calls the plugins of one profile: counts and times the calls, and contains their faults.

Answers of plugins from outside the tree are also timed one by one and checked. In-tree plugins are
trusted, since their tests check them; a check is cheap, but there are many calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from scheduler import machine
from scheduler.framework.declarations import check_declarations, traits_of
from scheduler.framework.faults import PluginFault, PluginFaultReporter
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.observe.instruments import Histogram
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import POINTS, Plugin, Point
from scheduler.queueing.queued_pod import QueuedPod

# The points whose calls ``scheduler_plugin_evaluation_total`` counts.
_EVALUATED = frozenset(("preFilter", "filter", "preScore", "score"))

_SUCCESS = Code.SUCCESS

_MOST_SKIPPED = 256
"""Sets of plugins that are skipped together at one point: mostly there are some dozens."""

Call = Callable[..., Any]


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin at one extension point."""

    name: str
    call: Call
    weight: int
    """Of its scores."""
    count: Callable[[], None] | None
    """Counts a call, at the points where calls are counted."""
    external: bool
    """Whether its answers are checked."""


class Timing:
    """The time of one extension point in one attempt.

    A class, because a generator costs three times as much, and there are eight for each pod.
    """

    __slots__ = ("_durations", "_started", "code")

    def __init__(self, durations: _Durations) -> None:
        self._durations = durations
        self.code = _SUCCESS
        """The outcome, under which the time is observed."""
        self._started = machine.perf_counter()

    def __enter__(self) -> Timing:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        elapsed = machine.perf_counter() - self._started
        if kind is not None:
            if not issubclass(kind, Exception):
                return  # a suspended attempt is made again
            self.code = Code.ERROR
        self._durations[self.code].observe(elapsed)


class _Durations(dict[Code, Histogram]):
    """The durations of one point in one profile, by outcome."""

    def __init__(self, family: Histogram, label: str, profile: str) -> None:
        super().__init__()
        self._family = family
        self._label = label
        self._profile = profile

    def __missing__(self, code: Code) -> Histogram:
        made = self[code] = self._family.labels(self._label, code.value, self._profile)
        return made


class _EntriesWithout(dict[frozenset[str], Sequence[PluginEntry]]):
    """The plugins of one point but for those that are skipped; found once for equal pods."""

    def __init__(self, entries: Sequence[PluginEntry]) -> None:
        super().__init__()
        self._entries = entries

    def __missing__(self, skipped: frozenset[str]) -> Sequence[PluginEntry]:
        if len(self) >= _MOST_SKIPPED:
            self.clear()
        found = self[skipped] = tuple(each for each in self._entries if each.name not in skipped)
        return found


class PluginRunner:
    """The plugins of one profile, resolved: their traits, and what to call at each point."""

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Plugin],
        enabled: Mapping[str, Sequence[tuple[str, int]]],
        metrics: Metrics,
        fault_reporter: PluginFaultReporter,
        external: Collection[str],
    ) -> None:
        """``enabled`` names the plugins of each point, in order, with weights.

        Raises DeclarationError.
        """
        for name, plugin in plugins.items():
            check_declarations(name, plugin)
        self.profile = profile
        self.plugins = plugins
        self.metrics = metrics
        self.fault_reporter = fault_reporter
        self.external = frozenset(external)
        """The plugins whose answers are checked."""
        self.traits = {name: traits_of(plugin) for name, plugin in plugins.items()}
        self.entries = {
            point.key: tuple(
                self._entry(point, name, weight) for name, weight in enabled.get(point.key, ())
            )
            for point in POINTS.values()
        }
        """By the key of a point in configuration, in the configured order."""
        self.without = {point: _EntriesWithout(each) for point, each in self.entries.items()}
        """By the key of a point, and the plugins that are skipped there."""
        family = metrics.extension_point_duration
        self._durations = {
            key: _Durations(family, point.label, profile) for key, point in POINTS.items()
        }

    def _entry(self, point: Point, name: str, weight: int) -> PluginEntry:
        count = None
        if point.key in _EVALUATED:
            count = self.metrics.plugin_evaluations.labels(name, point.label, self.profile).inc
        external = name in self.external
        call: Call = getattr(self.plugins[name], point.method)
        entry = PluginEntry(name, call, weight or 1, count, external)
        return self.with_call(point.key, entry, call)

    def with_call(self, point: str, entry: PluginEntry, call: Call) -> PluginEntry:
        """The same entry with another method of the plugin."""
        if entry.external:
            call = self._checked(call, POINTS[point], entry.name)
        return msgspec.structs.replace(entry, call=call)

    def names(self, *points: str) -> list[str]:
        """The plugins at some points, each once, in order."""
        return list(dict.fromkeys(entry.name for point in points for entry in self.entries[point]))

    def call(self, point: str, entry: PluginEntry, *args: Any) -> Any:
        """A plugin's answer; raises PluginFault."""
        if entry.count is not None:
            entry.count()
        try:
            return entry.call(*args)
        except Exception as fault:
            raise self.fault(entry.name, point, fault) from fault

    async def call_async(self, point: str, entry: PluginEntry, *args: Any) -> Any:
        """The answer of a coroutine; raises PluginFault."""
        try:
            return await entry.call(*args)
        except Exception as fault:
            raise self.fault(entry.name, point, fault) from fault

    def fault(self, plugin: str, point: str, fault: Exception | str) -> PluginFault:
        """Count a fault, and return it for raising."""
        return self.fault_reporter.fault(plugin, POINTS[point].label, fault)

    def timed(self, point: str) -> Timing:
        """Observes how long a block takes from now, under the code that it sets."""
        return Timing(self._durations[point])

    def idle(self, point: str) -> None:
        """Observe that a point had no plugin to call, which takes no time."""
        self._durations[point][_SUCCESS].observe(0.0)

    def _checked(self, call: Call, point: Point, plugin: str) -> Call:
        """The same call, with its time and the type of its answer checked."""
        expected = point.returns
        reporter = self.fault_reporter
        limit = reporter.slow_seconds

        def check(answer: Any) -> Any:
            if expected is not None and not isinstance(answer, expected):
                raise TypeError(f"returned {type(answer).__name__}, not {expected.__name__}")
            return answer

        if point.awaited:  # may take its time: only its own pod waits

            async def checked_coroutine(*args: Any) -> Any:
                return check(await call(*args))

            return checked_coroutine

        def checked(*args: Any) -> Any:
            started = machine.perf_counter()
            answer = call(*args)
            elapsed = machine.perf_counter() - started
            if elapsed > limit:
                reporter.slow(_pod_of(args), plugin, point.label, elapsed)
            return answer if expected is None else check(answer)

        return checked


def _pod_of(args: tuple[Any, ...]) -> PodInfo | None:
    """The pod that a call is about."""
    first = args[0] if args else None
    if isinstance(first, Cycle):
        return first.pod
    if isinstance(first, QueuedPod):
        return first.info
    return first if isinstance(first, PodInfo) else None
