"""The dashboard: what Grafana needs is there, and every query asks for what the program exports."""

import json
from typing import Any

import pytest

from shipping.dashboard import FILE, VARIABLES
from shipping.grafana import WIDTH
from shipping.queries import metrics_in
from tests.shipping.promql import exported, expressions

FROM_PROMETHEUS = {"up"}


def panels() -> list[dict[str, Any]]:
    """All panels of the file, those of folded rows included."""
    top = json.loads(FILE.read_text())["panels"]
    inside = [panel for row in top if row["type"] == "row" for panel in row["panels"]]
    return [panel for panel in top if panel["type"] != "row"] + inside


def test_every_metric_asked_for_is_exported() -> None:
    known = exported() | FROM_PROMETHEUS
    unknown = {
        name: missing for name, text in expressions() if (missing := metrics_in(text) - known)
    }
    assert unknown == {}


def test_a_metric_that_does_not_exist_would_be_found() -> None:
    assert metrics_in('sum(rate(equipoise_nothing_total{job="x"}[5m]))') - exported()


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    drawn = json.loads(FILE.read_text())["panels"]
    everything = [*drawn, *(panel for row in drawn for panel in row.get("panels", []))]
    numbers = [panel["id"] for panel in everything]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_panel_is_complete(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert '{job=~"$job"' in target["expr"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_variables_used_are_defined() -> None:
    text = FILE.read_text()
    names = {variable["name"] for variable in json.loads(text)["templating"]["list"]}
    assert names == {"datasource", *(variable.name for variable in VARIABLES)}
    for name in names:
        assert f"${name}" in text or f"${{{name}}}" in text
