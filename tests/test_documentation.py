"""What our pages name exists: files, make targets, commands and their options."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from scheduler.cli.main import cli
from shipping.helm import PROJECT
from tests.documents import Page, pages

TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (PROJECT / "Makefile").read_text(), re.M))
PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page) -> None:
    missing = [link for link in page.links() if not (page.path.parent / link).exists()]
    assert missing == []


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
    while words and isinstance(command, click.Group):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    known = {name for option in command.params for name in option.opts} | {"--help"}
    given = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
    assert given <= known, command.name


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
