"""A Grafana dashboard from rows of panels: the JSON to import, laid out from left to right."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

WIDTH = 24
SCHEMA_VERSION = 39
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

_UNSTACKED = {"group": "A", "mode": "none"}
_STACKED = {"group": "A", "mode": "normal"}


@dataclass(frozen=True)
class Query:
    """A PromQL expression, and what its series are called."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture. `empty_until` says when it has nothing to show in a healthy cluster."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 8
    height: int = 7
    stacked: bool = False
    red_from: float | None = None
    text: Literal["value", "name"] = "value"
    empty_until: str = ""


@dataclass(frozen=True)
class Row:
    """Panels under one heading; a folded row loads nothing until it is opened."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True)
class Variable:
    """A choice at the top of the dashboard: the values of a label of a metric."""

    name: str
    label: str
    metric: str
    many: bool = True


def dashboard(
    title: str, uid: str, description: str, variables: Sequence[Variable], rows: Sequence[Row]
) -> Json:
    """The whole dashboard."""
    return {
        "title": title,
        "uid": uid,
        "description": description,
        "tags": ["kubernetes", "scheduler"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_source_variable(), *map(_variable, variables)]},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_laid_out(rows)),
    }


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }


def _variable(variable: Variable) -> Json:
    question = f"label_values({variable.metric}, {variable.name})"
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": question, "refId": variable.name},
        "definition": question,
        "multi": variable.many,
        "includeAll": variable.many,
        "allValue": ".*" if variable.many else None,
        "current": {"text": "All", "value": "$__all"} if variable.many else {},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
    }


def _laid_out(rows: Sequence[Row]) -> Iterator[Json]:
    """Headings and panels with their places; the panels of a folded row are inside its heading."""
    number, top = 0, 0
    for row in rows:
        heading: Json = {
            "id": (number := number + 1),
            "type": "row",
            "title": row.title,
            "collapsed": row.folded,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }
        top += 1
        placed, left, height = [], 0, 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top, height = 0, top + height, 0
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            placed.append(_panel(panel, (number := number + 1), place))
            left, height = left + panel.width, max(height, panel.height)
        top += height
        if row.folded:
            heading["panels"] = placed
            yield heading
        else:
            yield heading
            yield from placed


def _panel(panel: Panel, number: int, place: Json) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [_target(query, index) for index, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _stat_options(panel) if panel.kind == "stat" else _SERIES_OPTIONS,
    }


def _target(query: Query, index: int) -> Json:
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "range": True,
    }


def _defaults(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    defaults: Json = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": _STACKED if panel.stacked else _UNSTACKED,
        }
    return defaults


_SERIES_OPTIONS: Json = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def _stat_options(panel: Panel) -> Json:
    return {
        "colorMode": "value",
        "graphMode": "area" if panel.text == "value" else "none",
        "textMode": panel.text,
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
