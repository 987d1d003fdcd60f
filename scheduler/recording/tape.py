"""The tape: told of each step of the scheduler, it hands entries over to be written.

Everything here runs on the scheduling thread. A step costs the encoding of its entry, while the
object is at hand; another thread compresses and writes, without the interpreter's lock. It is woken
rarely, with as much as a block holds, because each time the two threads pass that lock on to each
other. When a segment is full, or entries could not be written, the next batch begins a segment that
says all that is there at that moment.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Never

import msgspec

from scheduler import __version__, machine
from scheduler.model.devices import ResourceClaim
from scheduler.model.journal import NodeSearch
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.recording.entries import (
    FORMAT,
    Answered,
    AnswerTold,
    Asked,
    Began,
    BindingAnswered,
    Changed,
    ClaimWritten,
    Evicted,
    FailedAttempt,
    Forgotten,
    Header,
    MadeRoom,
    NodeSearched,
    Nominated,
    RecordedEntry,
    Renewed,
    Reserved,
    Reverted,
    WaitEnded,
)
from scheduler.recording.segments import (
    BLOCK_BYTES,
    ENCODING_FAULTS,
    Bounds,
    SegmentStart,
    SegmentWriter,
    empty_block,
)
from scheduler.recording.trimming import trimmed

log = get_logger(__name__)

FLUSH_SECONDS = 0.5
"""How long an entry waits at most for others."""
CLOSE_SECONDS = 3.0
LEAST_BLOCK_BYTES = 1 << 12
"""Shorter blocks would be too many."""
_SUCCESS = (SUCCESS.code.value, SUCCESS.message)


class Tape:
    """Records what it is told."""

    def __init__(
        self,
        directory: Path,
        bounds: Bounds,
        config: list[dict[str, Any]],
        metrics: Metrics,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._clock = clock
        self._writer = SegmentWriter(directory, bounds, metrics)
        self._dropped = metrics.recording_dropped
        self._config = config
        self._run = str(machine.uuid4())
        self._now = clock()
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        # A block is written whole: it must be much shorter than all that there may be.
        self._block_bytes = min(BLOCK_BYTES, max(LEAST_BLOCK_BYTES, bounds.all_bytes // 8))
        self._block = empty_block()
        """Entries that wait for others, and how many."""
        self._count = 0
        self._objects: dict[str, dict[str, Any]] = {}
        """All objects by kind and key."""
        self._held: dict[str, str] = {}
        """The nodes of assumed pods that the watch has not confirmed, by uid."""
        self._waiting: set[str] = set()
        """Those of them that wait on permit."""
        self._nominated: dict[str, str] = {}
        self._leading = False
        self._follows = False
        self._silent = False
        """Whether entries are dropped, because the segment before was not written to its end."""
        self._said = False

    def start(self) -> None:
        """Begin to record."""
        self._writer.start()
        self._begin()

    async def run(self) -> Never:
        """Hand entries over that wait for others, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        self.flush()
        self._writer.close(CLOSE_SECONDS)

    def flush(self) -> None:
        """Hand over what was said; begin a segment if one is due."""
        block, count = self._block, self._count
        if count:
            self._block, self._count = empty_block(), 0
        if self._silent:
            self._dropped.inc(count)
            if self._writer.idle:
                self._begin()
            return
        if count and not self._writer.put(block, count):
            self._fall_silent()
        elif self._writer.broken:
            self._silent, self._follows = True, False
        elif self._writer.full:
            self._begin()

    def _fall_silent(self) -> None:
        self._silent, self._follows = True, False
        if not self._said:
            log.warning("Recording cannot keep up: entries are dropped until the disk has")
        self._said = True

    def _begin(self) -> None:
        """Begin a segment with all that is there."""
        self._silent = False
        header = Header(
            format=FORMAT,
            version=__version__,
            python=platform.python_version(),
            run=self._run,
            number=0,  # the writer knows
            follows=self._follows,
            wall=machine.wall(),
            time=self._clock(),
            leading=self._leading,
            config=self._config,
        )
        # Copies of dictionaries, not entries: those of 100,000 pods would take too long here.
        there = {kind: objects.copy() for kind, objects in self._objects.items()}
        others = (self._held.copy(), frozenset(self._waiting), self._nominated.copy())
        self._writer.begin(SegmentStart(header, there, *others))
        self._follows = True

    def _say(self, entry: RecordedEntry) -> None:
        # Here and now, while the object is in the caches of the processor. It is the whole cost of
        # a step, so it calls nothing else.
        block = self._block
        before = len(block)
        try:
            self._encode_into(entry, block, before)
        except ENCODING_FAULTS:
            del block[before:]
            self._dropped.inc()
            return
        self._count += 1
        if len(block) >= self._block_bytes:
            self.flush()

    # AnswerTold by the scheduler

    def tick(self) -> None:
        """A step begins."""
        self._now = self._clock()

    def clock(self) -> float:
        """When the current step began."""
        return self._now

    def began(self) -> None:
        """This replica schedules from now on."""
        self.tick()
        self._leading = True
        self._say(Began(self._now))

    def changed(self, kind: str, key: str, new: Any) -> None:
        """A change is applied."""
        self._now = self._clock()
        objects = self._objects.get(kind)
        if objects is None:
            objects = self._objects[kind] = {}
        if new is None:
            old = objects.pop(key, None)
            if old is not None and kind == "Pod":
                self._settle(old.metadata.uid)
        else:
            if kind != "Pod":  # pods have no annotations here, and nothing else to leave out
                new = trimmed(new)
            elif new.spec.node_name:
                self._settle(new.metadata.uid)
            objects[key] = new
        self._say(Changed(self._now, kind, key, new))

    def _settle(self, uid: str) -> None:
        """The watch has shown a pod on a node, or gone."""
        self._held.pop(uid, None)
        if self._nominated:
            self._nominated.pop(uid, None)
        if self._waiting:
            self._waiting.discard(uid)

    def placed(
        self, search: NodeSearch, node: str, score: int | None, feasible: int, evaluated: int
    ) -> None:
        """A search has found a node."""
        given = _given(search)
        self._say(NodeSearched(self._now, *given, node, score, feasible, evaluated, ()))

    def unplaced(self, search: NodeSearch, plugins: Iterable[str], evaluated: int) -> None:
        """A search has found none."""
        given, rejecting = _given(search), tuple(sorted(plugins))
        self._say(NodeSearched(self._now, *given, "", None, 0, evaluated, rejecting))

    def made_room(self, uid: str, message: str, nominated: str) -> None:
        """PostFilter has run."""
        self._say(MadeRoom(self._now, uid, message, nominated))

    def reserved(self, uid: str, node: str, status: Status) -> None:
        """A pod was assumed, and Reserve has run."""
        self._held[uid] = node
        if self._nominated:
            self._nominated.pop(uid, None)
        if not status.ok:  # else Permit comes next, before anything else happens
            self._say(Reserved(self._now, uid, node, status.code.value, status.message, "", ""))

    def permitted(self, uid: str, status: Status) -> None:
        """Permit has run."""
        node = self._held.get(uid, "")
        if status is SUCCESS:
            self._say(Reserved(self._now, uid, node, *_SUCCESS, *_SUCCESS))
            return
        if status.code is Code.WAIT:
            self._waiting.add(uid)
        verdict = (status.code.value, status.message)
        self._say(Reserved(self._now, uid, node, *_SUCCESS, *verdict))

    def wait_ended(self, uid: str) -> None:
        """A pod waits on permit no longer."""
        self.tick()
        self._waiting.discard(uid)
        self._say(WaitEnded(self._now, uid))

    def reverted(self, uid: str, trial: bool) -> None:
        """A reservation was undone."""
        self.tick()
        self._held.pop(uid, None)
        self._waiting.discard(uid)
        self._say(Reverted(self._now, uid, trial))

    def forgotten(self, uid: str) -> None:
        """An assumed pod is forgotten."""
        self.tick()
        self._held.pop(uid, None)
        self._say(Forgotten(self._now, uid))

    def bound(self, uid: str, node: str) -> None:
        """A binding was accepted."""
        self._now = self._clock()
        self._say(BindingAnswered(self._now, uid, node))

    def failed(self, uid: str, reason: str, message: str) -> None:
        """An attempt has ended without a node."""
        self.tick()
        self._say(FailedAttempt(self._now, uid, reason, message))

    def nominated(self, uid: str, node: str) -> None:
        """A pod was nominated to a node, or to none."""
        if node:
            self._nominated[uid] = node
        else:
            self._nominated.pop(uid, None)
        self._say(Nominated(self._now, uid, node))

    def evicted(self, uid: str, fault: str) -> None:
        """An eviction was answered."""
        self.tick()
        self._say(Evicted(self._now, uid, fault))

    def asked(self, search: NodeSearch) -> None:
        """A search needs an answer from out of process."""
        self._say(Asked(self._now, *_given(search), False))

    def asked_for_room(self, uid: str) -> None:
        """PostFilter needs an answer from out of process."""
        self._say(Asked(self._now, uid, "", "", False, "", "", True))

    def told(self, uid: str, first: bool) -> None:
        """An attempt has got the answer that it waits for."""
        self.tick()
        self._say(AnswerTold(self._now, uid, first))

    def renewed(self, uid: str) -> None:
        """Answers about a pod no longer count."""
        self.tick()
        self._say(Renewed(self._now, uid))

    def answered(self, plugin: str, path: str, pod: str, answer: bytes, fault: str) -> None:
        """A plugin out of process has answered."""
        self.tick()
        self._say(Answered(self._now, plugin, path, pod, answer, fault))

    def claim_written(self, uid: str, key: str, claim: ResourceClaim | None) -> None:
        """A claim was written, or deleted, and the watch has yet to show it."""
        self.tick()
        kept = None if claim is None else trimmed(claim)
        self._say(ClaimWritten(self._now, uid, key, kept))


def _given(search: NodeSearch) -> tuple[str, str, str, bool, str, str]:
    pod, in_pass, proposed, model = search
    return pod.uid, pod.key, pod.pod.metadata.resource_version, in_pass, proposed, model
