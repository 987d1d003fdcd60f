"""The values examples of the chart: valid, loaded by the program without a warning, and listed."""

import re
from pathlib import Path

import pytest
import yaml

from scheduler.assembly import configure
from scheduler.config.loading import Configuration
from shipping.helm import CHART, helm
from tests.charts.support import Json, Rendered

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
TASKS = {
    *("bin-packing", "several-profiles", "plugin-off", "numa", "devices"),
    *("gangs", "batches", "plugin-file", "scraping", "two-schedulers"),
}
each_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def values_of(file: Path) -> Json:
    values: Json = yaml.safe_load(file.read_text())
    return values


def loaded(file: Path, directory: Path) -> Configuration:
    """The configuration as the program reads it in the pod, with plugin files where they are."""
    rendered = Rendered(values_of(file))
    kube, own = rendered.configuration
    if "plugins" in own:
        for name, text in rendered.the("ConfigMap", "equipoise-plugins")["data"].items():
            (directory / name).write_text(text)
        own["plugins"]["directory"] = str(directory)
    return configure([kube, own])


def test_every_task_has_an_example_that_is_listed() -> None:
    assert {file.stem for file in EXAMPLES} == TASKS
    readme = (CHART / "examples" / "README.md").read_text()
    assert set(re.findall(r"^\| \[(\S+)\.yaml\]", readme, re.M)) == TASKS


@each_example
def test_lint_finds_nothing(file: Path) -> None:
    helm("lint", "--strict", CHART, "--values", file)


@each_example
def test_the_program_loads_it_without_a_warning(file: Path, tmp_path: Path) -> None:
    assert loaded(file, tmp_path).warnings == ()


@each_example
def test_it_changes_what_the_chart_renders(file: Path) -> None:
    assert Rendered(values_of(file)).objects != Rendered().objects
