"""docs/plugins/first-plugin.md: its files load, its commands say what it shows, its test passes."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.simulation import explain
from shipping.helm import PROJECT

PAGE = (PROJECT / "docs" / "plugins" / "first-plugin.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
FILES = {
    name[1]: text
    for language, text in BLOCKS
    if language in ("python", "yaml") and (name := re.match(r"# (\S+)\n", text))
}
SESSIONS = [
    (lines[0].removeprefix("$ "), lines[1:])
    for language, text in BLOCKS
    if language == "console" and (lines := text.splitlines())
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page up to its third step, where its reader would have put them."""
    (tmp_path / "plugins").mkdir()
    for name in ("plugins/maintenance.py", "scheduler.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_something_to_try() -> None:
    assert len(SESSIONS) == 2
    assert len(FILES) == 7


@pytest.mark.parametrize(("command", "shown"), SESSIONS)
def test_commands_say_what_the_page_shows(place: Path, command: str, shown: list[str]) -> None:
    program, *arguments = shlex.split(command)
    assert program == "equipoise"
    result = CliRunner().invoke(cli, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert [line.rstrip() for line in result.stdout.splitlines()] == shown


def test_the_test_of_the_page_passes(place: Path) -> None:
    path = place / "test_maintenance.py"
    path.write_text(FILES["test_maintenance.py"])
    spec = importlib.util.spec_from_file_location("test_maintenance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.test_pods_avoid_nodes_under_maintenance()


@pytest.mark.parametrize("version", ["WithHints", "Kept", "InColumns"])
def test_every_later_version_does_the_same(place: Path, version: str) -> None:
    name = f"Maintenance{version}"
    for file, text in FILES.items():
        (place / file).write_text(text)
    config = list(yaml.safe_load_all(FILES["scheduler.yaml"]))
    config[0]["profiles"][0]["plugins"]["multiPoint"]["enabled"] = [{"name": name}]
    *nodes, pod = yaml.safe_load(FILES["cluster.yaml"])["items"]
    answer = explain(nodes, pod, config)
    assert answer["fit"] == ["open"]
    assert answer["nodes"]["closed"]["plugin"] == name
