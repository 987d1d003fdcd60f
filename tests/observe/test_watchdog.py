"""The watchdog on a clock of the test: what is a stall, what is reported, what is the end."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.model.meta import ObjectMeta
from scheduler.model.nodes import Node
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics
from scheduler.observe.watchdog import Watchdog, stack_of, working_on
from tests.patience import PATIENCE

STEP = 0.25


class World:
    """A watchdog that checks every quarter of a second."""

    def __init__(self, bound: float = 60.0) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.watchdog = Watchdog(self.metrics, bound, lambda: self.now)

    def look(self, seconds: float, *, beating: bool = False, step: float = STEP) -> None:
        for _ in range(round(seconds / step)):
            self.now += step
            if beating:
                self.watchdog.beat()
            self.watchdog.look()

    def sample(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)

    @property
    def stalls(self) -> float | None:
        return self.sample("equipoise_loop_stalls_total")


def test_a_loop_that_beats_is_never_stalled() -> None:
    world = World(bound=5.0)
    world.look(100.0, beating=True)
    assert not world.watchdog.stuck
    assert world.stalls == 0


def test_each_stall_is_reported_once_and_ends_with_a_beat(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            world.look(10.0)
            assert world.sample("equipoise_loop_stalled_seconds") == pytest.approx(10.0, abs=STEP)
            world.look(STEP, beating=True)
            assert world.sample("equipoise_loop_stalled_seconds") == 0
        world.look(1.5)
    assert world.stalls == 2
    assert [record.message for record in caplog.records] == [
        "Scheduling loop makes no progress",
        "Scheduling loop makes progress again",
    ] * 2
    assert not world.watchdog.stuck


def test_a_stall_as_long_as_the_bound_is_the_end_and_not_a_moment_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(bound=60.0)
    world.look(60.0 - STEP)
    assert not world.watchdog.stuck
    world.look(STEP)
    assert world.watchdog.stuck
    world.look(10.0)
    assert [record.message for record in caplog.records] == [
        "Scheduling loop makes no progress",
        "Scheduling loop is stuck",
    ]


def test_a_suspended_process_has_no_stall() -> None:
    world = World(bound=60.0)
    world.look(1.0, beating=True)
    world.look(3600.0, step=3600.0)
    assert world.watchdog.stalled <= 1.0
    assert world.stalls == 0


def in_another_thread(work: Callable[[threading.Event, threading.Event], None]) -> Any:
    """The innermost frame of a thread that is inside `work`."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(inside, leave))
    thread.start()
    assert inside.wait(PATIENCE)
    frame = sys._current_frames()[thread.ident or 0]
    leave.set()
    thread.join()
    return frame


def test_a_report_names_the_function_and_the_object() -> None:
    info = PodInfo(Pod(metadata=ObjectMeta(name="web-0", namespace="shop")))

    def filter_slowly(pod: PodInfo, inside: threading.Event, leave: threading.Event) -> None:
        inside.set()
        leave.wait(PATIENCE)

    def attempt(inside: threading.Event, leave: threading.Event) -> None:
        node = Node(metadata=ObjectMeta(name="n1"))
        filter_slowly(info, inside, leave)
        del node

    frame = in_another_thread(attempt)
    assert working_on(frame) == "Pod shop/web-0"
    functions = [line.rpartition(" ")[2] for line in stack_of(frame)]
    assert functions.index("filter_slowly") < functions.index("attempt")
    assert any("tests/observe/test_watchdog.py:" in line for line in stack_of(frame))


def test_without_an_object_or_a_stack_a_report_is_still_made() -> None:
    assert working_on(None) == ""
    assert stack_of(None) == []
