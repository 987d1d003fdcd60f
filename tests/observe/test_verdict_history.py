"""The verdicts on each pod: joined, bounded, and given back."""

from __future__ import annotations

import pytest

from scheduler.observe.verdict_history import MOST_VERDICTS, VerdictHistory
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage


def test_equal_verdicts_in_a_row_are_joined() -> None:
    times = iter(range(100))
    history = VerdictHistory(clock=lambda: float(next(times)))
    for message in ("no cpu", "no cpu", "a taint", "no cpu"):
        history.record("u", message)
    history.record("u", "", "n1")
    found = [(v.time, v.until, v.message, v.node, v.count) for v in history.of("u")]
    assert found == [
        (0.0, 1.0, "no cpu", "", 2),
        (2.0, 2.0, "a taint", "", 1),
        (3.0, 3.0, "no cpu", "", 1),
        (4.0, 4.0, "", "n1", 1),
    ]


def test_a_pod_has_few_and_the_last_ones() -> None:
    history = VerdictHistory()
    for number in range(100):
        history.record("u", str(number))
    kept = [verdict.message for verdict in history.of("u")]
    assert kept == [str(number) for number in range(100 - MOST_VERDICTS, 100)]


def test_all_of_them_are_bounded_in_bytes_and_the_oldest_go() -> None:
    history = VerdictHistory(limit=50_000)
    for number in range(100):
        history.record(f"u{number}", "x" * 4000)
        assert history.usage().bytes <= 50_000
    assert history.usage().evictions > 0
    assert history.of("u0") == ()
    assert history.of("u99") != ()


async def test_what_is_kept_goes_with_the_pod() -> None:
    stage, pod = Stage(), make_pod("p").cpu("4")
    stage.see(make_node("n1").cpu("2"), pod)
    await stage.run()
    history = stage.core.decisions.history
    assert [verdict.count for verdict in history.of(pod.struct().metadata.uid)] == [1]
    assert stage.metrics.caches.usage()["verdict_history"].entries == 1
    stage.lose(pod)
    assert history.usage().entries == history.usage().bytes == 0


async def test_a_pod_that_is_bound_at_once_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(VerdictHistory, "record", lambda self, uid, *rest: calls.append(uid))
    stage = Stage()
    stage.see(make_node("n1").cpu("2"), *(make_pod(f"p{i}").cpu("100m") for i in range(10)))
    await stage.run()
    assert len(stage.outlet.bound) == 10
    assert calls == []


async def test_a_pod_that_is_bound_in_the_end_shows_how_it_got_there() -> None:
    stage, pod = Stage(), make_pod("p").cpu("4")
    stage.see(make_node("n1").cpu("2"), pod)
    await stage.run()
    stage.see(make_node("n2").cpu("8"))
    await stage.later(20)
    verdicts = stage.core.decisions.history.of(pod.struct().metadata.uid)
    assert [(verdict.message, verdict.node) for verdict in verdicts] == [
        ("0/1 nodes are available: 1 Insufficient cpu.", ""),
        ("", "n2"),
    ]
