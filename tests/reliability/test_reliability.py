"""docs/reliability.md says what was measured, and every bug on it can be shown again."""

import msgspec
import pytest

from tests.reliability import bugs, outcomes, simulated
from tests.reliability.bugs import Bug
from tests.reliability.page import PAGE, page

ENTRY = """\
- found-by: {found}
  what: Something went wrong{end}
  mended: It no longer does.
  reproduce: make check
"""


def test_the_page_agrees_with_its_data() -> None:
    expected = page(outcomes.load(), simulated.load(), bugs.load())
    assert PAGE.read_text() == expected, "run python -m tests.reliability"


@pytest.mark.parametrize("bug", bugs.load(), ids=lambda each: each.reproduce)
def test_what_reproduces_a_bug_exists(bug: Bug) -> None:
    assert bugs.exists(bug.reproduce)


@pytest.mark.parametrize(
    "reproduce",
    [
        "tests/reliability/test_reliability.py::test_there_is_no_such_test",
        "tests/reliability/test_no_such_file.py::test_x",
        "tests/reliability/bugs.py::load",
        "make no-such-target",
        "make",
        "python -m tests.no_such_module",
        "python -m",
        "rm -r build",
    ],
)
def test_what_does_not_exist_is_noticed(reproduce: str) -> None:
    assert not bugs.exists(reproduce)


@pytest.mark.parametrize(
    "reproduce",
    [
        "tests/reliability/test_reliability.py::test_the_page_agrees_with_its_data[any]",
        "make check ARGS='--seed 1'",
        "python -m tests.reliability",
    ],
)
def test_tests_and_commands_are_found(reproduce: str) -> None:
    assert bugs.exists(reproduce)


def test_entries_are_sorted_by_finder() -> None:
    text = ENTRY.format(found="fuzz", end=".") + ENTRY.format(found="sim", end=".")
    assert [each.found_by for each in bugs.load(text)] == ["sim", "fuzz"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (ENTRY.format(found="luck", end="."), "found-by"),
        (ENTRY.format(found="sim", end=""), r"\$\[0\]\.what"),
        (ENTRY.format(found="sim", end=" | or not."), r"\$\[0\]\.what"),
        (ENTRY.format(found="sim", end=".") + "  seed: 5\n", "seed"),
    ],
)
def test_a_wrong_entry_is_refused_by_field(text: str, field: str) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError), match=field):
        bugs.load(text)


def test_no_fault_broke_a_promise() -> None:
    assert [each.fault for each in outcomes.load().rows if not each.sound] == []


def test_a_leader_that_was_stopped_between_check_and_write_was_too_late() -> None:
    for each in outcomes.load().fencing:
        assert each.sent == (0 if each.deadline else each.rounds)
        assert each.ended_by_timer == (each.rounds if each.deadline else 0)


def _verdicts(*seeds: int, fault: str = "") -> list[bytes]:
    record = {"fault": fault, "virtual_seconds": 90.4, "callbacks": 7, "digest": ""}
    return [msgspec.json.encode({"seed": each, **record}) + b"\n" for each in seeds]


def test_seeds_are_counted_from_their_verdicts() -> None:
    lines = [*_verdicts(9, 5), *_verdicts(7, fault="it was late"), b'{"seed": 8, "fau']
    run = simulated.summarised("world", lines)
    assert (run.first, run.last, run.seeds, run.failed) == (5, 9, 3, [7])
    assert (run.virtual_seconds, run.callbacks) == (271, 21)


@pytest.mark.parametrize("lines", [[], _verdicts(1, 1)], ids=["none", "twice"])
def test_verdicts_that_cannot_be_counted_are_refused(lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match="verdict"):
        simulated.summarised("world", lines)


def test_no_seed_is_counted_twice() -> None:
    first, second = (simulated.summarised("world", _verdicts(*each)) for each in ((1, 2), (5, 6)))
    storm = simulated.summarised("storm", _verdicts(2, 3))
    more = simulated.summarised("world", _verdicts(2, 3, 4))
    runs = simulated.added(simulated.added([second], storm), first)
    assert runs == [first, second, storm]
    assert simulated.added(runs, more) == [more, second, storm]
