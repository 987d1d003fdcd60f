"""The dashboard of the chart, and the table of its panels in the documentation."""

import json

from shipping.grafana import Variable, dashboard
from shipping.helm import CHART, PROJECT
from shipping.panels import ROWS

FILE = CHART / "files" / "dashboards" / "equipoise.json"
PAGE = PROJECT / "docs" / "dashboard.md"
PAGE_BEGIN, PAGE_END = "<!-- panels -->", "<!-- end of panels -->"

VARIABLES = (
    Variable("job", "Job", "equipoise_build_info", many=False),
    Variable("instance", "Instance", 'equipoise_build_info{job=~"$job"}'),
    Variable("profile", "Profile", 'scheduler_schedule_attempts_total{job=~"$job"}'),
)


def dashboard_text() -> str:
    """The file of the chart."""
    built = dashboard(
        "Equipoise",
        "equipoise",
        "A secondary Kubernetes scheduler: its queue, latency, reasons, caches and process.",
        VARIABLES,
        ROWS,
    )
    return json.dumps(built, indent=2) + "\n"


def with_panels(page: str) -> str:
    """The page of documentation with the table of all panels between its marks."""
    before, begin, rest = page.partition(PAGE_BEGIN)
    _, end, after = rest.partition(PAGE_END)
    if not begin or not end:
        raise ValueError(f"the page lacks {PAGE_BEGIN} or {PAGE_END}")
    return f"{before}{PAGE_BEGIN}\n{_table()}\n{PAGE_END}{after}"


def _table() -> str:
    lines = []
    for row in ROWS:
        lines += ["", f"### {row.title}", "", "| Panel | Shows | Empty until |", "|---|---|---|"]
        lines += [f"| {p.title} | {p.description} | {p.empty_until} |" for p in row.panels]
    return "\n".join([*lines, ""])
