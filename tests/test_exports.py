"""`scheduler.plugin_api` is all that a plugin of one's own imports, and what it exports stays."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

from scheduler import plugin_api
from scheduler.plugin_api import extension_points
from scheduler.plugin_api.extension_points import POINTS
from shipping.helm import PROJECT

EXAMPLES = sorted((PROJECT / "deploy" / "examples").glob("*/*.py"))
PAGES = sorted((PROJECT / "docs" / "plugins").glob("*.md"))
NOT_FOR_PLUGINS = {"RemoteReserve", "LeaderAwarePlugin", "VictimTrimmer"}
"""Protocols of webhooks and extenders."""
TESTING = {"scheduler.simulation"}
"""What a plugin's test imports."""


def test_the_exports_are_exactly_what_the_package_gathers() -> None:
    gathered = {
        name
        for name, value in vars(plugin_api).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert gathered == set(plugin_api.__all__)
    assert len(plugin_api.__all__) == len(set(plugin_api.__all__))


def test_every_protocol_of_plugins_is_exported() -> None:
    protocols = {
        name
        for name, value in vars(extension_points).items()
        if isinstance(value, type)
        and issubclass(value, Protocol)
        and value.__module__ == extension_points.__name__
    }
    assert protocols - NOT_FOR_PLUGINS <= set(plugin_api.__all__)
    assert {point.protocol.__name__ for point in POINTS.values()} <= protocols


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_nothing_else(example: Path) -> None:
    assert imported(example.read_text()) <= {"scheduler.plugin_api"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_import_nothing_else(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    found = {module for block in blocks for module in imported(block)}
    assert found - TESTING <= {"scheduler.plugin_api"}


def imported(source: str) -> set[str]:
    return set(_modules(ast.parse(source)))


def _modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scheduler"):
            yield node.module or ""
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("scheduler"))
