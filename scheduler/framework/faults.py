"""Faults and slow answers of plugins: counted each time, reported once a minute."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import machine
from scheduler.model.podinfo import PodInfo
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.observe.repeats import Repeats

log = get_logger(__name__)

SLOW_SECONDS = 0.1

Publish = Callable[[PodInfo, str, str], None]
"""Publishes a warning about a pod: reason and note."""


class PluginFault(Exception):
    """A plugin raised, or returned something it must not: a bug in it, not a verdict."""

    def __init__(self, plugin: str, point: str, fault: object) -> None:
        super().__init__(f"plugin {plugin!r} failed at {point}: {fault}")
        self.plugin = plugin
        self.point = point


class PluginFaultReporter:
    """Reports faults and slow answers of all plugins.

    To the log, and as an event on the pod: once a minute for each plugin and point, however many
    pods meet the same fault. A fault that ends the attempt is reported with the attempt's failure.
    """

    def __init__(
        self,
        metrics: Metrics,
        publish: Publish = lambda pod, reason, note: None,
        clock: Callable[[], float] = machine.monotonic,
        slow_seconds: float = SLOW_SECONDS,
    ) -> None:
        self._metrics = metrics
        self._publish = publish
        self._reported = Repeats(clock)
        self.slow_seconds = slow_seconds

    def fault(self, plugin: str, point: str, fault: Exception | str) -> PluginFault:
        """Count a fault, and return it for raising."""
        self._metrics.plugin_errors.labels(plugin, point).inc()
        text = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
        return PluginFault(plugin, point, text)

    def report_contained(
        self, pod: PodInfo | None, plugin: str, point: str, fault: Exception | str, effect: str
    ) -> None:
        """Count and report a fault that the attempt survives, and its effect."""
        self.report(pod, self.fault(plugin, point, fault), effect)

    def report(self, pod: PodInfo | None, fault: PluginFault, effect: str) -> None:
        """Report a fault that is counted already, and its effect."""
        plugin, point, text = fault.plugin, fault.point, str(fault)
        if not self._reported.news(f"{plugin} {point} fault"):
            return
        log.error("A plugin failed", plugin=plugin, point=point, error=text, effect=effect)
        if pod is not None:
            self._publish(pod, "PluginFault", f"{text}; {effect}")

    def slow(self, pod: PodInfo | None, plugin: str, point: str, seconds: float) -> None:
        """Count and report an answer that delayed all other pods."""
        self._metrics.plugin_slow_calls.labels(plugin, point).inc()
        if not self._reported.news(f"{plugin} {point} slow"):
            return
        took = round(seconds, 3)
        log.warning("A plugin is slow", plugin=plugin, point=point, seconds=took)
        if pod is not None:
            self._publish(pod, "PluginSlow", f"plugin {plugin!r} took {took:g} s at {point}")
