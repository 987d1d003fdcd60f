"""The ring of recent decisions."""

import msgspec

from scheduler.observe.decisions import Decisions


def test_latest_answers_newest_first_with_rising_numbers() -> None:
    now = iter([10.0, 11.0, 12.0])
    decisions = Decisions(clock=lambda: next(now))
    for name in ("a", "b", "c"):
        decisions.record(f"ns/{name}", "scheduled", node="n1")
    assert [(d.seq, d.time, d.pod) for d in decisions.latest(2)] == [
        (3, 12.0, "ns/c"),
        (2, 11.0, "ns/b"),
    ]


def test_oldest_are_forgotten_but_their_numbers_are_not_reused() -> None:
    decisions = Decisions(capacity=2)
    for index in range(5):
        decisions.record(f"ns/{index}", "scheduled")
    assert len(decisions) == 2
    assert [d.seq for d in decisions.latest(100)] == [5, 4]


def test_no_decisions_are_asked_for() -> None:
    decisions = Decisions()
    decisions.record("ns/a", "scheduled")
    assert decisions.latest(0) == []
    assert decisions.latest(-1) == []


def test_a_decision_becomes_json() -> None:
    decision = Decisions(clock=lambda: 1.5).record(
        "ns/a",
        "unschedulable",
        message="no",
        evaluated=4,
        duration=0.25,
        plugins=("NodeResourcesFit",),
    )
    assert msgspec.to_builtins(decision) == {
        "seq": 1,
        "time": 1.5,
        "pod": "ns/a",
        "result": "unschedulable",
        "node": "",
        "message": "no",
        "score": None,
        "feasible": 0,
        "evaluated": 4,
        "duration": 0.25,
        "plugins": ("NodeResourcesFit",),
        "model": "",
    }


def test_the_bytes_of_messages_are_counted_and_go_with_them() -> None:
    decisions = Decisions(capacity=2)
    for length in (1000, 0, 0):
        decisions.record("default/p", "unschedulable", message="x" * length)
    bare = decisions.usage().bytes
    decisions.record("default/p", "unschedulable", message="x" * 10)
    assert decisions.usage() == (2, bare + 10, 0)
