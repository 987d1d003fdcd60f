"""Calls of plugins: timed, counted, and their faults contained, in one place."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.framework.complaints import Complaints, PluginFault
from scheduler.framework.points import POINTS
from scheduler.model.status import Code
from scheduler.observe.instruments import Histogram
from scheduler.observe.metrics import Metrics


class Entry(msgspec.Struct, frozen=True):
    """A plugin at one point: what to call, and what its scores count."""

    name: str
    call: Callable[..., Any]
    weight: int
    count: Callable[[], None] | None
    """Counts a call, at the points where calls are counted."""


class Timing:
    """The time of one extension point in one attempt.

    A class, because a generator costs three times as much, and there are eight for each pod.
    """

    __slots__ = ("_durations", "_started", "code")

    def __init__(self, durations: _Durations) -> None:
        self._durations = durations
        self.code = Code.SUCCESS
        """The outcome, under which the time is observed."""
        self._started = time.perf_counter()

    def __enter__(self) -> Timing:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        elapsed = time.perf_counter() - self._started
        if kind is not None:
            if not issubclass(kind, Exception):
                return  # given up to be done again, not done
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


class PluginCalls:
    """Calls the plugins of one profile."""

    def __init__(self, profile: str, metrics: Metrics, complaints: Complaints) -> None:
        self.profile = profile
        self.complaints = complaints
        self._metrics = metrics
        family = metrics.extension_point_duration
        self._durations = {
            key: _Durations(family, point.label, profile) for key, point in POINTS.items()
        }

    def _call(self, point: str, entry: Entry, *args: Any) -> Any:
        if entry.count is not None:
            entry.count()
        try:
            return entry.call(*args)
        except Exception as fault:
            raise self._fault(entry.name, point, fault) from fault

    async def _acall(self, point: str, entry: Entry, *args: Any) -> Any:
        try:
            return await entry.call(*args)
        except Exception as fault:
            raise self._fault(entry.name, point, fault) from fault

    def _fault(self, plugin: str, point: str, fault: Exception | str) -> PluginFault:
        return self.complaints.fault(plugin, POINTS[point].label, fault)

    def timed(self, point: str) -> Timing:
        """Observes how long a block takes from now, under the code that it sets."""
        return Timing(self._durations[point])
