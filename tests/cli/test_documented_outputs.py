"""What pages show as the answer to a command is what the command prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from shipping.helm import PROJECT
from tests.documents import Page, pages


def page(name: str) -> Page:
    return next(each for each in pages() if each.name == name)


def test_the_page_of_batches_shows_what_its_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = page("docs/flow.md")
    blocks = list(flow.blocks())
    [at] = [i for i, block in enumerate(blocks) if block.language == "console"]
    [command] = blocks[at].commands()
    for name, text in flow.files().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "deploy").symlink_to(PROJECT / "deploy")
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(cli, shlex.split(command)[1:])

    assert result.exit_code == 0, result.output
    printed = result.stdout.splitlines()
    shown = blocks[at + 1].lines
    left_out = shown.index("...")
    assert list(shown[:left_out]) == printed[:left_out]
    tail = shown[left_out + 1 :]
    assert list(tail) == printed[-len(tail) :]
