"""What files and servers say reaches a terminal as text, and nothing of it as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from tests.builders import make_node, make_pod

ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\nanother line"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_no_terminal_obeys_a_file(output: str, tmp_path: Path) -> None:
    file = tmp_path / "objects.json"
    pod = make_pod("p" + ESCAPES).cpu("9" + ESCAPES).label(a=ESCAPES)
    node = make_node("n" + ESCAPES).label(a=ESCAPES)
    file.write_text(json.dumps({"kind": "List", "items": [node.obj(), pod.obj()]}))
    for lenient in ((), ("--lenient",)):
        result = run("simulate", "-f", str(file), "-o", output, *lenient)
        lines = (result.stdout + result.stderr).split("\n")
        assert any("red" in line for line in lines)
        assert all(line.isprintable() for line in lines)
        assert not any(line.startswith("another line") for line in lines)


def test_no_terminal_obeys_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"kind: {json.dumps(ESCAPES)}\n")
    result = run("config", "check", str(file))
    assert "red" in result.stderr
    assert all(line.isprintable() for line in result.stderr.split("\n"))
