"""Writes the table into its page: ``python -m tests.equivalence.document``, or ``make docs``."""

from __future__ import annotations

from pathlib import Path

from scheduler.assembly import assemble, available
from scheduler.config.loading import from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.equivalence.invalidation import Invalidation, markdown, table
from scheduler.observe.metrics import Metrics
from scheduler.plugins.table import IN_TREE
from tests.pipeline.support import RecordingOutlet

PAGE = Path(__file__).parents[2] / "docs" / "equivalence.md"
BEGIN, END = "<!-- the table: make docs -->", "<!-- the end of the table -->"


def invalidations() -> list[Invalidation]:
    """The table of all plugins there are, whether or not they are on by default."""
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in IN_TREE]}},
        "pluginConfig": [{"name": "ServiceAffinity", "args": {"labels": ["zone"]}}],
    }
    config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    core = assemble(from_dicts([config], available(), environ={}), RecordingOutlet(), Metrics())
    (framework,) = core.frameworks.values()
    points = framework.declarations()
    return table([each for declared in points.values() for each in declared])


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(invalidations())}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
