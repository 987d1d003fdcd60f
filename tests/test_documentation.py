"""What our pages name exists: files, make targets, commands and their options."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from scheduler.cli.main import cli
from shipping.helm import PROJECT
from tests.documents import Page, pages
from tests.references import docstrings, file_references, is_there, missing_members

TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (PROJECT / "Makefile").read_text(), re.M))
PAGES = pages()
MODULES = sorted((PROJECT / "scheduler").rglob("*.py"))
PACKAGES = sorted(
    path.parent
    for folder in ("scheduler", "sandbox")
    for path in (PROJECT / folder).rglob("__init__.py")
    if path.parent.name != "scheduler"  # docs/architecture.md is its map
)
ARCHITECTURE = (PROJECT / "docs" / "architecture.md").read_text()
LAYERS = "A package imports only from the layers below it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    missing = [link for link in page.links() if not (page.path.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_headings(page: Page) -> None:
    links = page.anchored_links()
    assert [
        each for each in links if each[1] not in Page(each[0], each[0].read_text()).anchors()
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Page) -> None:
    typed = [shlex.split(each) for each in [*page.commands(), *page.mentions()]]
    named = {words[1] for words in typed if words[0] == "make"}
    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_our_commands_and_their_options_exist(page: Page) -> None:
    parts = [part for each in [*page.commands(), *page.mentions()] for part in each.split(";")]
    for words in map(shlex.split, parts):
        if words[0] == "equipoise":
            check_command(words[1:])


def check_command(words: list[str]) -> None:
    """Fail if there is no such command, or it has no such option."""
    command: click.Command = cli
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    known = {name for option in command.params for name in option.opts} | {"--help"}
    given = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
    assert given <= known, command.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_names_on_pages_exist(page: Page) -> None:
    if page.name == "CHANGELOG.md":  # says what was, too
        return
    text = page.path.read_text()
    assert [each for each in file_references(text) if not is_there(each)] == []
    assert missing_members(text) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_files_and_names_in_docstrings_exist(module: Path) -> None:
    text = docstrings(module)
    assert [each for each in file_references(text) if not is_there(each)] == []
    assert missing_members(text) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_each_package_has_a_map_of_its_modules(package: Path) -> None:
    listed = re.findall(r"^- `(\w+)`: ", docstrings(package / "__init__.py"), re.M)
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert sorted(listed) == sorted(modules | folders)


def test_layers_are_drawn_as_they_are_enforced() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in contracts["contracts"] if each["name"] == LAYERS)
    enforced = [set(re.findall(r"\w+", line)) for line in contract["layers"]]
    drawing = ARCHITECTURE.partition("## Layers")[2].split("```")[1]
    names = [line[1:].split("  ")[0] for line in drawing.splitlines() if re.match(r" \w", line)]
    drawn = [{re.sub(r"(\.py|/)$", "", each) for each in line.split(" | ")} for line in names]
    assert drawn == enforced


def test_the_table_of_the_pipeline_has_all_its_files() -> None:
    folder = PROJECT / "scheduler" / "pipeline"
    table = ARCHITECTURE.partition("| file of `pipeline/`")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w.]+)/?`", row[1])}
    there = {path.name for path in folder.iterdir() if path.name[0] != "_"}
    assert named == there
    (batch,) = (row[2] for row in rows if "`batch/`" in row[1])
    parts = {path.stem for path in (folder / "batch").glob("*.py") if path.stem != "__init__"}
    assert set(re.findall(r"`(\w+)`", batch)) == parts


def test_every_design_page_is_in_the_index() -> None:
    folder = PROJECT / "docs" / "design"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_pages_are_read_as_written() -> None:
    text = (
        "Say `make run now`.\n\n    make run    # go\n    not a command\n\n"
        "```console\n$ helm a \\\n  b\nits answer\n```\n"
        "```yaml\n# values.yaml\na: 1\n```\n```yaml\nkubectl: no\n```\n"
        "```\nkubectl get pods\n```\n[x](y.md#z) [w](https://example.com)\n"
    )
    page = Page(PROJECT / "docs" / "none.md", text)
    assert page.commands() == ["make run", "helm a b", "kubectl get pods"]
    assert page.mentions() == ["make run now"]
    assert page.files() == {"values.yaml": "# values.yaml\na: 1\n"}
    assert page.links() == ["y.md"]


def test_anchors_are_those_of_headings() -> None:
    text = (
        "# A `b.c`: (d)\n## Never-worse, twice\n```\n# no\n```\n"
        "[x](#a-bc-d) [y](z.md#w) [z](z.md)\n"
    )
    page = Page(PROJECT / "docs" / "none.md", text)
    assert page.anchors() == {"a-bc-d", "never-worse-twice"}
    assert page.anchored_links() == [
        (PROJECT / "docs" / "none.md", "a-bc-d"),
        (PROJECT / "docs" / "z.md", "w"),
    ]
