"""Counters, gauges and histograms that cost little to touch; prometheus_client exports them.

The library's own may be touched from any thread, so each touch takes locks: 0.6 µs to count, 1.2 µs
to observe, and a pod on its way through the scheduler touches forty. These take 0.1 and 0.25 µs.
A scrape from another thread is safe; it may see the sum of a histogram one observation ahead of its
buckets. Two threads may touch one instrument: between reading and writing a number there is no call
or jump, at which alone the interpreter changes threads.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, Self, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

F = TypeVar("F", bound=Metric)

MAX_CHILDREN = 4096
"""How many combinations of label values one metric has at most: nodes and drivers come and go."""
OTHER = "other"
"""The value of all labels of further ones."""


class Instrument(Collector, Generic[F]):
    """One metric. With label names it is a family: only what `labels` returns can be touched."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self._text = text
        self._labels = tuple(labels)
        self._children: dict[tuple[str, ...], Self] = {}
        if not labels:
            self._reset()

    def labels(self, *values: str) -> Self:
        """The child with these label values, created at first use; beyond a bound all share one."""
        child = self._children.get(values)
        if child is None:
            if not self._labels or len(values) != len(self._labels):
                raise ValueError(f"{self.name} has the labels {self._labels}, not {values}")
            if len(self._children) >= MAX_CHILDREN:
                values = (OTHER,) * len(values)
            # Two threads may be here: both get the child that was first.
            child = self._children.setdefault(values, self._child())
        return child

    def describe(self) -> Iterable[Metric]:
        """The metric without its samples, so that a registry takes each name once."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """The metric with all its samples."""
        family = self._family()
        if not self._labels:
            self._add_to(family, ())
        # Copying is atomic; an iteration would meet children that another thread adds.
        for values, child in self._children.copy().items():
            child._add_to(family, values)
        return [family]

    def _child(self) -> Self:
        return type(self)(self.name, self._text)

    @abstractmethod
    def _reset(self) -> None:
        """Begin to count; a family never does, so that touching it raises AttributeError."""

    @abstractmethod
    def _family(self) -> F: ...

    @abstractmethod
    def _add_to(self, family: F, values: tuple[str, ...]) -> None: ...


class Counter(Instrument[CounterMetricFamily]):
    """A number that only grows."""

    def inc(self, amount: float = 1) -> None:
        """Count."""
        self._value += amount

    def _reset(self) -> None:
        self._value = 0.0

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily(self.name, self._text, labels=self._labels)

    def _add_to(self, family: CounterMetricFamily, values: tuple[str, ...]) -> None:
        family.add_metric(values, self._value)


class Gauge(Instrument[GaugeMetricFamily]):
    """A number that goes up and down."""

    def set(self, value: float) -> None:
        """Be this number."""
        self._cell[0] = float(value)

    def inc(self, amount: float = 1) -> None:
        """Go up."""
        self._cell[0] += amount

    def dec(self, amount: float = 1) -> None:
        """Go down."""
        self._cell[0] -= amount

    def _reset(self) -> None:
        self._cell = [0.0]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.name, self._text, labels=self._labels)

    def _add_to(self, family: GaugeMetricFamily, values: tuple[str, ...]) -> None:
        family.add_metric(values, self._cell[0])


class Histogram(Instrument[HistogramMetricFamily]):
    """How many observations fell below each bound, and their sum."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> None:
        self.bounds = tuple(buckets)
        super().__init__(name, text, labels)

    def observe(self, amount: float) -> None:
        """Count an observation; one that equals a bound is below it."""
        self._sum += amount
        self._counts[bisect_left(self.bounds, amount)] += 1

    def _child(self) -> Self:
        return type(self)(self.name, self._text, buckets=self.bounds)

    def _reset(self) -> None:
        self._sum = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self._text, labels=self._labels)

    def _add_to(self, family: HistogramMetricFamily, values: tuple[str, ...]) -> None:
        bounds = [*map(floatToGoString, self.bounds), "+Inf"]
        below = map(float, accumulate(self._counts))
        family.add_metric(values, list(zip(bounds, below, strict=True)), self._sum)
