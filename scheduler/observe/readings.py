"""Metrics whose values other components keep anyway; they are read at each scrape only."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Reading(msgspec.Struct, frozen=True):
    """A metric as it stands: one value, or one for each value of a label.

    The name says which kind it is: that of a counter ends in ``_total``.
    """

    name: str
    text: str
    value: float | Mapping[str, float]
    label: str = ""


class Readings(Collector):
    """Exports what a source says at the moment of a scrape.

    A scrape runs in a thread of its own, so a source must not iterate over what the event loop
    changes meanwhile.
    """

    def __init__(self) -> None:
        self._source: Callable[[], Iterable[Reading]] = tuple

    def follow(self, source: Callable[[], Iterable[Reading]]) -> None:
        """Ask this source from now on, instead of any other."""
        self._source = source

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before there is a source."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics with their values."""
        return map(_exported, self._source())


class AskedGauge(Collector):
    """A gauge whose values are read at each scrape, one for each value of its label."""

    def __init__(self, name: str, text: str, label: str) -> None:
        self._reading = Reading(name, text, 0.0, label)
        self._sources: dict[str, Callable[[], float]] = {}

    def follow(self, value: str, source: Callable[[], float]) -> None:
        """Ask this source for the value of the label from now on."""
        self._sources = {**self._sources, value: source}

    def describe(self) -> Iterable[Metric]:
        """The metric without values."""
        return (_exported(msgspec.structs.replace(self._reading, value={})),)

    def collect(self) -> Iterable[Metric]:
        """The metric with its values of now."""
        values = {value: source() for value, source in self._sources.items()}
        return (_exported(msgspec.structs.replace(self._reading, value=values)),)


def _exported(reading: Reading) -> Metric:
    labels = (reading.label,) if reading.label else ()
    family: CounterMetricFamily | GaugeMetricFamily
    if reading.name.endswith("_total"):
        family = CounterMetricFamily(reading.name, reading.text, labels=labels)
    else:
        family = GaugeMetricFamily(reading.name, reading.text, labels=labels)
    if isinstance(reading.value, Mapping):
        for label, value in reading.value.items():
            family.add_metric((label,), value)
    else:
        family.add_metric((), reading.value)
    return family
