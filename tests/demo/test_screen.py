"""The live screen, drawn without a terminal, at the sizes that people have."""

from __future__ import annotations

import os
import pty

import pytest
import uvloop
from rich.cells import cell_len
from rich.text import Text

from sandbox.demo.interaction import Interaction, Open, OpenNode, Quit, Reader, Tab, ToggleChurn
from sandbox.demo.live import summary
from sandbox.demo.screen import render
from sandbox.demo.terminal import keyboard, keys_in
from sandbox.demo.view import (
    Cells,
    Decided,
    NodeLine,
    Pool,
    View,
    Waiting,
    informative,
    stem,
)

SIZES = [(80, 24), (200, 50), (40, 10), (20, 4), (300, 100)]

VIEW = View(
    page="http://127.0.0.1:10259/ui/",
    nodes=100,
    pods=763,
    bound=751,
    rate=120.0,
    tiers={"active": 0, "unschedulable": 10, "gated": 2},
    pools=tuple(
        Pool(name, 15, 165, 0.22, 0.95, (0.0, 0.22, 1.0) * 20)
        for name in ("edge", "fast", "general", "gpu", "numa", "spot")
    ),
    lines=tuple(NodeLine(f"general-{i:03d}", 0.5, 0.9, 8, 110, "k:NoSchedule") for i in range(100)),
    waiting=tuple(
        Waiting(
            3, f"demo/app{i}", f"demo/app{i}-0001", "unschedulable", 65.0, "87 Insufficient cpu"
        )
        for i in range(40)
    ),
    decisions=tuple(
        Decided("13:57:26", f"demo/web-{i:04d}", "fast-001", "466", "85/100", 0.7, "")
        for i in range(200)
    ),
    cells=(Cells("numa-000", ((13, 16), (6, 16))),),
    refused=1,
)


def tier_style(tier: str) -> str:
    return "red" if tier == "unschedulable" else ""


def drawn(state: Interaction, width: int = 80, height: int = 24, view: View = VIEW) -> list[str]:
    lines = render(view, state, width, height, tier_style)
    assert len(lines) == height
    assert max(cell_len(line.plain) for line in lines) <= width
    return [line.plain for line in lines]


@pytest.mark.parametrize("tab", list(Tab))
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_screen_is_exactly_as_large_as_the_terminal(tab: Tab, width: int, height: int) -> None:
    for state in (Interaction(tab=tab), Interaction(tab=tab, filter="zzz"), Interaction(help=True)):
        drawn(state, width, height)
    drawn(Interaction(tab=tab), width, height, View())


@pytest.mark.parametrize(("width", "height"), SIZES[:2])
def test_the_overview_has_pools_what_waits_and_decisions_and_keys(width: int, height: int) -> None:
    lines = drawn(Interaction(), width, height)
    text = "\n".join(lines)
    for part in (
        "751/763 pods on 100 nodes",
        "12 pending",
        "127.0.0.1:10259/ui/",
        "general",
        "22%",
    ):
        assert part in text
    for part in ("demo/app0", "unschedulable", "87 Insufficient cpu", "demo/web-0000", "fast-001"):
        assert part in text
    for key in ("move", "explain", "filter", "pause", "views", "help", "quit"):
        assert key in lines[-1]


def test_a_large_screen_shows_more() -> None:
    small, large = drawn(Interaction()), drawn(Interaction(), 200, 50)
    assert sum("demo/" in line for line in large) > 2 * sum("demo/" in line for line in small)
    assert "SCORE" in "\n".join(large)


def test_moving_scrolls_and_stays_within_the_list() -> None:
    state = Interaction(tab=Tab.NODES)
    assert any(line.startswith("▸general-000") for line in drawn(state))
    for _ in range(30):
        state.press("down")
    assert any(line.startswith("▸general-030") for line in drawn(state))
    state.press("end")
    assert any(line.startswith("▸general-099") for line in drawn(state))
    state.press("down")
    state.press("page up")
    drawn(state)
    assert state.row == 99 - state.page
    for key in ("g", "k", "up"):
        state.press(key)
    assert state.row == 0
    assert state.press("enter") == OpenNode("general-000")


def test_enter_opens_the_pod_under_the_mark_in_both_lists_of_the_overview() -> None:
    state = Interaction()
    drawn(state)
    assert state.press("enter") == Open("demo/app0-0001")
    state.press("end")
    (marked,) = (line for line in drawn(state) if line.startswith("▸"))
    opened = state.press("enter")
    assert isinstance(opened, Open)
    assert opened.pod.startswith("demo/web-")
    assert opened.pod in marked


def test_a_filter_is_typed_shown_and_dropped() -> None:
    state = Interaction(tab=Tab.QUEUE)
    drawn(state)
    for key in ("/", "a", "p", "p", "7", "x", "backspace"):
        assert state.press(key) is None
    assert "/app7" in drawn(state)[1]
    state.press("enter")
    shown = [line for line in drawn(state) if "demo/" in line]
    assert [line.split()[2] for line in shown] == ["demo/app7"]
    assert state.press("enter") == Open("demo/app7-0001")
    state.press("escape")
    assert len([line for line in drawn(state) if "demo/" in line]) > 10


def test_letters_are_text_while_a_filter_is_typed() -> None:
    state = Interaction()
    for key in ("/", "q", "2"):
        assert state.press(key) is None
    assert (state.filter, state.tab) == ("q2", Tab.OVERVIEW)


def test_an_explanation_is_read_page_by_page() -> None:
    lines = [Text(f"line {i}") for i in range(60)]
    state = Interaction(reader=Reader("explain demo/web-1", lines))
    shown = drawn(state)
    assert "explain demo/web-1  lines 1-20 of 60" in shown[2]
    assert "line 0" in shown[3]
    state.press("page down")
    assert "line 20" in drawn(state)[3]
    state.press("G")
    assert "line 59" in drawn(state)[22]
    assert state.press("q") is None
    assert state.reader is None


def test_numbers_change_the_view_and_other_keys_do_what_the_last_line_says() -> None:
    state = Interaction()
    for tab in Tab:
        state.press(tab.value)
        assert state.tab is tab
        assert f" {tab.value} {tab.title} " in drawn(state)[1]
    state.press("space")
    assert "PAUSED" in drawn(state)[1]
    state.press("?")
    assert "Keys" in "\n".join(drawn(state))
    state.press("x")
    assert not state.help
    assert state.press("c") == ToggleChurn()
    assert state.press("q") == Quit()


def test_control_characters_of_a_message_do_not_reach_the_terminal() -> None:
    nasty = Waiting(1, "a", "a", "gated", 0.0, "one\x1b[31m\ntwo")
    text = "\n".join(drawn(Interaction(tab=Tab.QUEUE), view=View(waiting=(nasty,))))
    assert "\x1b" not in text
    assert "one·[31m·two" in text


def test_the_telling_part_of_a_reason_comes_first() -> None:
    told = (
        "0/100 nodes are available: 13 node(s) had untolerated taint(s), 3 node(s) didn't have "
        "free ports for the requested pod ports, 84 node(s) didn't match Pod's node "
        "affinity/selector. preemption: 0/100 nodes are available: 100 No victims."
    )
    assert informative(told).startswith("3 didn't have free ports")
    lost = (
        "0/9 nodes are available: 1 node(s) had untolerated taint {a: b, c}, "
        "8 node(s) didn't match Pod's node affinity/selector."
    )
    assert informative(lost) == (
        "8 didn't match Pod's node affinity/selector, 1 untolerated taint {a: b, c}"
    )
    assert informative("waiting for scheduling gates: [x]") == "waiting for scheduling gates: [x]"
    assert informative("0/0 nodes are available: ") == "0/0 nodes are available: "


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("demo/web-0012", "demo/web"),
        ("a/web-7d4b9c6bd8-x2x4z", "a/web-7d4b9c6bd8"),
        ("a/db-0", "a/db"),
        ("a/plain", "a/plain"),
    ],
)
def test_equal_pods_have_a_stem_in_common(pod: str, expected: str) -> None:
    assert stem(pod) == expected


def test_without_a_terminal_everything_is_one_line() -> None:
    line = summary(VIEW)
    assert line.startswith("751 of 763 pods bound on 100 nodes, 12 pending (3 demo/app0: 87 Insuff")
    assert "\n" not in line


def test_keys_are_read_from_what_terminals_send() -> None:
    sent = b"j\x1b[A\x1bOB\x1b[5~ \r\x7f\xc3\xa4\x1b[200~\t\x1b"
    expected = ["j", "up", "down", "page up", "space", "enter", "backspace", "ä", "tab", "escape"]
    assert keys_in(sent) == expected
    assert keys_in(b"\x01\x02") == []


def test_reading_keys_leaves_writes_to_the_terminal_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Standard output is often the same descriptor; a slow terminal must not fail a write."""
    ours, theirs = pty.openpty()

    async def type_a_key() -> str | None:
        with keyboard() as keys:
            assert keys is not None
            os.write(ours, b"j")
            await keys.pressed.wait()
            assert os.get_blocking(theirs)
            return keys.next()

    with os.fdopen(theirs, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert uvloop.run(type_a_key()) == "j"
    os.close(ours)
    os.close(theirs)
