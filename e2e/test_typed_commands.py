"""The shell that types the commands of pages says where they fail and where they hang."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.harness.shell import CommandFailed, Shell

Open = Callable[..., Shell]


@pytest.fixture
def shell(tmp_path: Path) -> Open:
    def start(**options: float) -> Shell:
        return Shell(tmp_path, {**os.environ, "PYTHON": sys.executable}, **options)

    return start


def test_commands_share_variables_and_return_what_they_print(shell: Open) -> None:
    with shell() as typing:
        assert typing.type("export WHO=you") == ""
        assert typing.type("echo hello; echo $WHO >&2") == "hello\nyou\n"


def test_a_command_that_fails_is_shown_with_what_came_before(shell: Open) -> None:
    with shell() as typing:
        typing.type("echo before")
        with pytest.raises(CommandFailed) as caught:
            typing.type("echo trouble; false")
    said = str(caught.value)
    assert said.startswith("$ echo trouble; false\nended with 1; it printed:\ntrouble\n")
    assert said.endswith("before\n")


def test_a_command_that_ends_the_shell_has_failed(shell: Open) -> None:
    with shell() as typing, pytest.raises(CommandFailed, match="ended with the shell's end"):
        typing.type("exit 0")


def test_a_program_that_hangs_says_where(shell: Open) -> None:
    forever = "import time\ndef stuck():\n    print(1, flush=True)\n    time.sleep(9999)\nstuck()"
    with shell(seconds=5.0) as typing, pytest.raises(CommandFailed) as caught:
        typing.type(f"$PYTHON -c '{forever}'")
    said = str(caught.value)
    assert "hung for 5 s; it printed:" in said
    assert "most recent call first" in said
