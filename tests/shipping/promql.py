"""Which metrics the shipped queries ask for, and which ones the program has."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from scheduler.assembly import assemble, available
from scheduler.config.loading import from_dicts
from scheduler.observe.metrics import Metrics
from shipping.helm import CHART
from shipping.panels import ROWS
from tests.pipeline.support import RecordingOutlet

ALERTS = CHART / "files" / "alerts.yaml"

_METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def rules() -> list[dict[str, Any]]:
    """Every alerting rule of the chart."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Every shipped expression, under the name of its panel or alert."""
    for row in ROWS:
        for panel in row.panels:
            for query in panel.queries:
                yield f"{row.title}: {panel.title}", query.expression
    for rule in rules():
        yield rule["alert"], rule["expr"]


def metrics_in(expression: str) -> set[str]:
    """The names of the series that an expression selects."""
    return set(_METRIC.findall(expression))


def exported() -> set[str]:
    """The names of all series that a scheduler may export on /metrics."""
    metrics = Metrics("test")
    assemble(from_dicts([], available(), {}), RecordingOutlet(), metrics)
    return {
        family.name + suffix
        for family in metrics.registry.collect()
        for suffix in _SUFFIXES[family.type]
    }
