"""How tables use the room they get, on terminals and in pipes."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from scheduler.cli import output
from scheduler.cli.tables import Table, TableCell, TableColumn, layout

COLUMNS = (TableColumn("POD"), TableColumn("SCORE", right=True), TableColumn("MESSAGE", text=True))
LONG = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."


def text_of(table: Table, room: int | None = None) -> list[str]:
    return ["".join(cell.text for cell in line).rstrip() for line in layout(table, room)]


@pytest.fixture
def table() -> Table:
    table = Table(COLUMNS)
    table.add("default/a", 7, "")
    table.add("default/bb", 12, TableCell(LONG, "red"))
    return table


def test_with_room_a_row_is_a_line_and_numbers_stand_to_the_right(table: Table) -> None:
    lines = [
        "POD         SCORE  MESSAGE",
        "default/a       7",
        f"default/bb     12  {LONG}",
    ]
    assert text_of(table) == lines
    assert text_of(table, 99) == lines


def test_with_less_room_the_text_wraps_in_its_column(table: Table) -> None:
    assert text_of(table, 60) == [
        "POD         SCORE  MESSAGE",
        "default/a       7",
        "default/bb     12  0/3 nodes are available: 1 node(s) had",
        "                   untolerated taint(s), 2 Insufficient cpu.",
    ]


def test_with_little_room_the_text_stands_below_its_row(table: Table) -> None:
    assert text_of(table, 45) == [
        "POD         SCORE",
        "default/a       7",
        "default/bb     12",
        "    0/3 nodes are available: 1 node(s) had",
        "    untolerated taint(s), 2 Insufficient cpu.",
    ]


@pytest.mark.parametrize("room", [1, 10, 30, 50, 70, 200])
def test_nothing_is_cut_off_however_little_room_there_is(table: Table, room: int) -> None:
    words = " ".join(text_of(table, room)).split()
    assert {"default/a", "default/bb", "12", *LONG.split()} <= set(words)


def test_a_table_goes_on_with_the_widths_it_had() -> None:
    first = Table(COLUMNS)
    first.add("default/long", 1, "")
    second = Table(COLUMNS, at_least=first.widths, header=False)
    second.add("b", 2, "x")
    assert text_of(second) == ["b                 2  x"]


def test_a_terminal_obeys_nothing_that_a_cell_says() -> None:
    table = Table((TableColumn("POD"),))
    table.add("a\x1b[31m\nb\tc")
    assert text_of(table)[1] == "a?[31m b c"


class Terminal(io.StringIO):
    """Where colours are understood."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    return Terminal()


def test_a_terminal_gets_colours_and_its_width_is_kept_to(table: Table, terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.show(table)
    assert "\x1b[31m0/3 nodes are available: 1 node(s) had" in terminal.getvalue()
    assert len(terminal.getvalue().splitlines()) == 4


def test_no_color_is_honoured(
    table: Table, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(terminal):
        output.show(table)
        output.say("done", "green")
    assert "done" in terminal.getvalue()
    assert "\x1b[3" not in terminal.getvalue()


def test_brackets_are_no_markup(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        output.say("didn't satisfy plugin(s) [NodeAffinity]")
    assert terminal.getvalue() == "didn't satisfy plugin(s) [NodeAffinity]\n"


def test_a_pipe_gets_plain_text(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    output.show(table)
    assert capsys.readouterr().out.splitlines() == text_of(table)
