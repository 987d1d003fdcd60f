"""What is generated from the chart is on disk as it would be generated now."""

import tomllib

import pytest
import yaml

from shipping.helm import CHART, PROJECT, helm
from shipping.manifests import generated

VALUES = sorted((CHART / "ci").glob("*.yaml"))


def test_generated_files_are_up_to_date() -> None:
    stale = [
        str(path.relative_to(PROJECT))
        for path, text in generated().items()
        if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "run: make manifests"


@pytest.mark.parametrize("values", [None, *VALUES], ids=lambda v: v.stem if v else "defaults")
def test_lint_finds_nothing(values: object) -> None:
    helm("lint", "--strict", CHART, *(("--values", str(values)) if values else ()))


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert [image["image"] for image in images] == [f"equipoise:{version}"]
