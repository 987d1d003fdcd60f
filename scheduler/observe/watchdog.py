"""Detects a scheduling loop without progress, and reports its stack.

::

    scheduling thread: beat(), a few times a second
    heartbeat thread:  look(), a few times a second ──► beats have stopped for
                         REPORT_SECONDS: one log line with the stack, one count
                         `bound` seconds: `stuck`, /livez fails, the process is to end

The time of a stall is the time during which the heartbeat thread ran and the other did not: a
process that was suspended as a whole has no stall.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from scheduler import machine
from scheduler.model.meta import ObjectMeta
from scheduler.model.podinfo import PodInfo
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics

log = get_logger(__name__)

REPORT_SECONDS = 2.0
"""A stall of this length is reported."""
LOOK_SECONDS = 0.25
LONGEST_STEP_SECONDS = 1.0
"""More time than this between two looks counts as this much: the process was suspended."""
MAX_FRAMES = 40

_OURS = __name__.partition(".")[0] + "."
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Watchdog:
    """Watches the thread that makes it; `beat` belongs to that thread, all else to another one."""

    def __init__(
        self, metrics: Metrics, bound: float, clock: Callable[[], float] = machine.monotonic
    ) -> None:
        self.bound = bound
        self.stalled = 0.0
        """For how many seconds there has been no progress."""
        self._thread = threading.get_ident()
        self._stalls = metrics.loop_stalls
        self._gauge = metrics.loop_stalled
        self._clock = clock
        self._beats = 0
        self._seen = 0
        self._looked = clock()
        self._reported = False

    def beat(self) -> None:
        """There is progress."""
        self._beats += 1

    @property
    def stuck(self) -> bool:
        """Whether there has been no progress for the whole bound."""
        return self.stalled >= self.bound

    def look(self) -> None:
        """Compare with the last look; reports a stall once, and again when it is `stuck`."""
        now = self._clock()
        step, self._looked = min(now - self._looked, LONGEST_STEP_SECONDS), now
        was_stuck = self.stuck
        if self._beats != self._seen:
            self._end()
        else:
            self.stalled += step
        self._gauge.set(self.stalled if self.stalled >= REPORT_SECONDS else 0.0)
        if self.stuck and not was_stuck:
            self._report(log.error, "Scheduling loop is stuck")
        elif self.stalled >= REPORT_SECONDS and not self._reported:
            self._reported = True
            self._stalls.inc()
            self._report(log.warning, "Scheduling loop makes no progress")

    def _end(self) -> None:
        if self._reported:
            log.info("Scheduling loop makes progress again", seconds=round(self.stalled, 1))
        self._seen, self.stalled, self._reported = self._beats, 0.0, False

    def _report(self, say: Callable[..., None], message: str) -> None:
        frame = sys._current_frames().get(self._thread)
        say(
            message,
            seconds=round(self.stalled, 1),
            working_on=working_on(frame),
            stack=stack_of(frame),
        )


def stack_of(frame: FrameType | None) -> list[str]:
    """Where a thread is, as ``file:line function``, innermost first; at most `MAX_FRAMES`."""
    return [
        f"{each.f_code.co_filename.removeprefix(_ROOT)}:{line} {each.f_code.co_name}"
        for each, line in _inward(frame)
    ]


def working_on(frame: FrameType | None) -> str:
    """The object that the innermost function with one holds: ``Pod default/web-0``; else empty.

    Read off the local variables, so that work on the hot path costs nothing for this.
    """
    for each, _ in _inward(frame):
        if each.f_locals is each.f_globals:
            continue  # a module
        for value in list(each.f_locals.values()):
            if name := _named(value):
                return name
    return ""


def _named(value: object) -> str:
    if not type(value).__module__.startswith(_OURS):
        return ""  # what its attributes do is unknown
    pod = value if isinstance(value, PodInfo) else getattr(value, "pod", None)
    if isinstance(pod, PodInfo):  # itself, or that of a cycle, an attempt, an entry of the queue
        return f"Pod {pod.key}"
    metadata = getattr(value, "metadata", None)
    return f"{type(value).__name__} {metadata.key}" if isinstance(metadata, ObjectMeta) else ""


def _inward(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    for number, each in enumerate(traceback.walk_stack(frame) if frame is not None else ()):
        if number >= MAX_FRAMES:
            return
        yield each
