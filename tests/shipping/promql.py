"""Which metrics the program has, for the queries that are shipped."""

from collections.abc import Iterator

from scheduler.assembly import assemble, available
from scheduler.config.loading import from_dicts
from scheduler.observe.metrics import Metrics
from shipping.queries import alert_queries, panel_queries
from tests.pipeline.support import RecordingOutlet

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def expressions() -> Iterator[tuple[str, str]]:
    """Every shipped expression, under the name of its panel or alert."""
    yield from panel_queries()
    yield from alert_queries()


def exported() -> set[str]:
    """The names of all series that a scheduler may export on /metrics."""
    metrics = Metrics("test")
    assemble(from_dicts([], available(), {}), RecordingOutlet(), metrics)
    return {
        family.name + suffix
        for family in metrics.registry.collect()
        for suffix in _SUFFIXES[family.type]
    }
