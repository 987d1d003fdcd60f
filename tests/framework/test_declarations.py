"""What plugins declare is read once; what looks misspelt is refused with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.framework.declarations import DeclarationError, check_declarations, traits_of
from scheduler.framework.discovery import DiscoveryError, discover
from scheduler.plugin_api import PluginTraits, Reads
from scheduler.plugins.table import IN_TREE
from tests.framework.fakes import Fake, TrueFilter, a_cycle, framework_of


def test_a_trait_that_does_not_exist_is_refused_with_the_one_that_was_meant() -> None:
    wrong: Any = {"row_by_rwo": True}
    with pytest.raises(TypeError, match="no trait 'row_by_rwo'; did you mean 'row_by_row'"):
        PluginTraits(**wrong)


class Plain(Fake):
    pass


class Promising(Fake):
    traits = PluginTraits(row_by_row=True)


def test_traits_are_those_of_the_class_and_none_by_default() -> None:
    assert traits_of(Promising("a")).row_by_row
    assert traits_of(Plain("b")) == PluginTraits()


class OldForm(TrueFilter):
    row_by_row = True


class OldFormOfInstance(TrueFilter):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.absolute = True


class Misnamed(TrueFilter):
    trait = PluginTraits(row_by_row=True)


class NoTraits(TrueFilter):
    traits = {"row_by_row": True}  # noqa: RUF012  as a beginner might write it


class WithPreFiltre(TrueFilter):
    def pre_filtre(self, cycle: object) -> None: ...


class WithCamelCase(TrueFilter):
    def preFilter(self, cycle: object) -> None: ...


class WithUnreserved(TrueFilter):
    def unreserved(self, cycle: object, node: str) -> None: ...


class WithFilterRead(TrueFilter):
    filter_read = Reads()


class WithHint(TrueFilter):
    def hint(self) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (OldForm, r"row_by_row is a trait: write traits = PluginTraits\(row_by_row=True\)"),
        (OldFormOfInstance, r"absolute is a trait: write traits = PluginTraits\(absolute=True\)"),
        (Misnamed, "trait holds the plugin's traits; call it traits"),
        (NoTraits, "traits is dict, not PluginTraits"),
        (WithPreFiltre, "'pre_filtre'; did you mean 'pre_filter'?"),
        (WithCamelCase, "'preFilter'; did you mean 'pre_filter'?"),
        (WithUnreserved, "'unreserved'; did you mean 'unreserve'?"),
        (WithFilterRead, "'filter_read'; did you mean 'filter_reads'?"),
        (WithHint, "'hint'; did you mean 'hints'?"),
    ],
)
def test_what_looks_misspelt_is_refused(plugin: type[TrueFilter], words: str) -> None:
    with pytest.raises(DeclarationError, match=f"plugin 'Mine': .*{words}"):
        framework_of(plugin("Mine"))


class WithHelpers(TrueFilter):
    limit = 3
    remote = "https://example.com"

    def describe(self) -> str:
        return self.name

    def _pre_filters(self) -> None: ...


def test_other_methods_and_values_are_the_plugins_own() -> None:
    framework = framework_of(WithHelpers("Mine"))
    assert not framework.filters.judge_row_by_row(a_cycle())
    assert not framework.remote.enabled


@pytest.mark.parametrize("name", IN_TREE)
def test_plugins_of_the_tree_declare_what_exists(name: str) -> None:
    check_declarations(name, IN_TREE[name])


def test_a_plugin_file_with_a_misspelt_method_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    name = 'Mine'\n"
        "    def __init__(self, args, handle): ...\n"
        "    def filter_node(self, cycle, node): ...\n"
        "    def pre_filtre(self, cycle): ...\n"
    )
    with pytest.raises(DiscoveryError, match=r"mine\.py: .*did you mean 'pre_filter'"):
        discover(str(tmp_path), IN_TREE)


def test_a_plugin_file_with_a_trait_that_does_not_exist_is_named_with_the_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        "from scheduler.plugin_api import PluginTraits\n"
        "class Mine:\n"
        "    name = 'Mine'\n"
        "    traits = PluginTraits(absolut=True)\n"
    )
    with pytest.raises(DiscoveryError, match=r"mine\.py: line 4: .*did you mean 'absolute'"):
        discover(str(tmp_path), IN_TREE)
