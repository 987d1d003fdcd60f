"""What the migration pages call supported is there, and what they call missing is not."""

from __future__ import annotations

import re

import pytest

from scheduler.cli.main import cli
from scheduler.config.plugins import KNOWN_PLUGINS
from scheduler.plugins.table import IN_TREE
from shipping.helm import PROJECT
from shipping.values import ValuesFile

PAGES = PROJECT / "docs" / "migration"
FLAGS = {flag for option in cli.commands["run"].params for flag in option.opts} | {"--help"}


def rows(page: str, title: str) -> list[tuple[str, str]]:
    """The two cells of each row of the first table in a section."""
    text = (PAGES / f"{page}.md").read_text().partition(f"## {title}\n")[2]
    table = re.search(r"^\|.*?(?=^$)", text, re.M | re.S)
    assert table is not None
    lines = table[0].splitlines()[2:]
    found = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    assert all(len(cells) == 2 for cells in found)
    return [(cells[0], cells[1]) for cells in found]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize(("flag", "here"), rows("kube-scheduler", "Flags"))
def test_flags_of_kube_scheduler(flag: str, here: str) -> None:
    (name,) = names(flag)
    if here.startswith("the same"):
        assert name in FLAGS
    elif here.startswith("none"):
        assert name not in FLAGS
    else:
        assert set(names(here)) <= FLAGS


@pytest.mark.parametrize("page", ["kube-scheduler", "scheduler-plugins"])
def test_plugins_of_others(page: str) -> None:
    for plugin, here in rows(page, "Plugins"):
        (name,) = names(plugin)
        supported = here.startswith(("the same", "in part"))
        assert supported or here.startswith(("none", "not yet")), name
        assert (name in IN_TREE) is supported, name


def test_every_plugin_of_kube_scheduler_is_listed() -> None:
    listed = {names(plugin)[0] for plugin, _ in rows("kube-scheduler", "Plugins")}
    assert listed == set(KNOWN_PLUGINS)


def test_what_takes_the_place_of_volcanos_plugins_exists() -> None:
    named = {
        name
        for _, here in rows("volcano", "Plugins and actions")
        for name in names(here)
        if re.fullmatch(r"([A-Z][a-z]+)+", name)
    }
    assert named - {"MostAllocated"} <= IN_TREE.keys()
    assert "Coscheduling" in named


def test_values_that_take_the_place_of_scheduler_plugins_exist() -> None:
    known = {leaf.name for leaf in ValuesFile().leaves()}
    for theirs, here in rows("scheduler-plugins", "The chart"):
        if not here.startswith("none"):
            values = [name for name in names(here) if not name.startswith("[")]
            assert set(values) <= known, theirs
