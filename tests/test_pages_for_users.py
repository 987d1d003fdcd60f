"""The pages for users: all can be reached from the index, and the settings they name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest

from scheduler.config.schema import EquipoiseConfiguration, KubeSchedulerConfiguration
from scheduler.observe.metrics import Metrics
from shipping.docs import metrics_page
from shipping.docs.program import core_with
from shipping.helm import PROJECT
from shipping.values import ValuesFile
from tests.documents import Page, pages
from tests.references import spans

DOCS = PROJECT / "docs"
PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]
FOR_USERS = ("tuning", "faq", "why-pending", "migration/kube-scheduler")
_METRIC = re.compile(r"((?:scheduler|equipoise|rest_client|leader_election)_[a-z_]+)(?:\{.*\})?")
_SETTING = re.compile(r"([a-z]\w*(?:\.[a-z]\w*)+)(?:: .*)?")
_OBJECTS = ("spec.", "status.", "metadata.", "kubernetes.", "example.", "nvidia.")


def links_of(path: Path) -> Iterator[Path]:
    page = Page(path, path.read_text())
    for link in page.links():
        target = (path.parent / link).resolve()
        yield target / "README.md" if target.is_dir() else target


def test_every_page_can_be_reached_from_the_index() -> None:
    waiting, reached = [DOCS / "README.md"], set()
    while waiting:
        path = waiting.pop()
        if path not in reached and path.suffix == ".md" and path.exists():
            reached.add(path)
            waiting += links_of(path)
    assert [page for page in sorted(DOCS.rglob("*.md")) if page not in reached] == []


@pytest.fixture(scope="module")
def metrics() -> set[str]:
    metrics = Metrics()
    core_with(metrics)
    known = metrics_page.families(metrics)
    histograms = [name for name, family in known.items() if family.type == "histogram"]
    return {*known, *(f"{name}_{end}" for name in histograms for end in ("bucket", "sum", "count"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_metrics_on_pages_exist(page: Page, metrics: set[str]) -> None:
    found = (_METRIC.fullmatch(span) for span in spans(page.path.read_text()))
    named = {each[1] for each in found if each}
    assert {name for name in named if not name.endswith("_")} <= metrics


def fields(kind: Any, path: str = "") -> Iterator[str]:
    """The paths of all settings of a document, items of lists as if they were one."""
    for field in msgspec.structs.fields(kind):
        here = f"{path}{field.encode_name}"
        yield here
        inner = field.type
        if get_origin(inner) is tuple:
            inner = get_args(inner)[0]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from fields(inner, f"{here}.")


@pytest.mark.parametrize("name", FOR_USERS)
def test_settings_on_pages_exist(name: str) -> None:
    values = {leaf.name for leaf in ValuesFile().leaves()}
    known = {*fields(EquipoiseConfiguration), *fields(KubeSchedulerConfiguration), *values}
    text = (DOCS / f"{name}.md").read_text()
    found = (_SETTING.fullmatch(span) for span in spans(text))
    named = {each[1] for each in found if each and not each[1].startswith(_OBJECTS)}
    assert {each for each in named if not each.endswith((".yaml", ".md"))} <= known
