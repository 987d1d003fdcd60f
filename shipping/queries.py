"""The queries that are shipped: which panel and which alert asks for which metric."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from shipping.helm import CHART
from shipping.panels import ROWS

ALERTS = CHART / "files" / "alerts.yaml"

_METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{")


def rules() -> list[dict[str, Any]]:
    """Every alerting rule of the chart."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alert_queries() -> Iterator[tuple[str, str]]:
    """The expression of every alert, under its name."""
    return ((rule["alert"], rule["expr"]) for rule in rules())


def panel_queries() -> Iterator[tuple[str, str]]:
    """Every expression of the dashboard, under the title of its panel after that of its row."""
    for row in ROWS:
        for panel in row.panels:
            for query in panel.queries:
                yield f"{row.title}: {panel.title}", query.expression


def metrics_in(expression: str) -> set[str]:
    """The names of the series that an expression selects."""
    return set(_METRIC.findall(expression))
