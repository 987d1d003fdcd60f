"""Plugins of the user's own: mounted, named in the configuration, and usable as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.assembly import configure
from shipping.helm import PROJECT
from tests.charts.support import Json, Rendered, refusal

EXAMPLE = PROJECT / "deploy" / "examples" / "plugins"


def example() -> Json:
    """The values of the example, with the files that ``--set-file`` would add."""
    values: Json = yaml.safe_load((EXAMPLE / "values.yaml").read_text())
    return values | {"pluginFiles": {each.name: each.read_text() for each in EXAMPLE.glob("*.py")}}


def mounts(rendered: Rendered) -> dict[str, Any]:
    return {each["name"]: each["mountPath"] for each in rendered.container["volumeMounts"]}


def volume(rendered: Rendered, name: str) -> Json:
    (found,) = (each for each in rendered.pod["volumes"] if each["name"] == name)
    result: Json = found
    return result


def test_the_example_loads_as_the_chart_installs_it(tmp_path: Path) -> None:
    rendered = Rendered(example())
    for name, text in rendered.the("ConfigMap", "equipoise-plugins")["data"].items():
        (tmp_path / name).write_text(text)
    kube, own = rendered.configuration
    assert own["plugins"] == {"directory": mounts(rendered)["plugins"]}
    own["plugins"]["directory"] = str(tmp_path)
    config = configure([kube, own])
    assert [plugin.name for plugin in config.found] == ["DeviceClaims", "Maintenance"]
    assert config.warnings == ()


def test_files_become_a_mounted_config_map() -> None:
    rendered = Rendered({"pluginFiles": {"a.py": "x = '{{ not a template }}'\n"}})
    data = rendered.the("ConfigMap", "equipoise-plugins")["data"]
    assert data == {"a.py": "x = '{{ not a template }}'\n"}
    assert volume(rendered, "plugins")["configMap"] == {"name": "equipoise-plugins"}
    assert mounts(rendered)["plugins"] == "/etc/equipoise/plugins"


def test_a_config_map_that_is_there_already() -> None:
    rendered = Rendered({"existingPluginsConfigMap": "mine"})
    assert volume(rendered, "plugins")["configMap"] == {"name": "mine"}
    assert rendered.configuration[1]["plugins"]["directory"] == "/etc/equipoise/plugins"
    assert ("ConfigMap", "equipoise-plugins") not in rendered.names


def test_without_plugins_nothing_is_mounted() -> None:
    rendered = Rendered()
    assert "plugins" not in mounts(rendered)
    assert "plugins" not in rendered.configuration[1]


def test_other_files_make_other_replicas() -> None:
    def annotations(text: str) -> Json:
        deployment = Rendered({"pluginFiles": {"a.py": text}}).the("Deployment")
        found: Json = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    one, other = annotations("x = 1"), annotations("x = 2")
    assert one["checksum/config"] == other["checksum/config"]
    assert one["checksum/plugins"] != other["checksum/plugins"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"pluginFiles": {"a.txt": ""}}, "pluginFiles"),
        ({"pluginFiles": {"a.py": 1}}, "pluginFiles"),
        (
            {"pluginFiles": {"a.py": ""}, "existingPluginsConfigMap": "mine"},
            "two ways to say the same",
        ),
    ],
)
def test_what_is_refused(values: Json, text: str) -> None:
    assert text in refusal(values)
