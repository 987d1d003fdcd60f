"""The tape: told of each step of the scheduler, it hands entries over to be written.

Everything here runs on the scheduling thread. A step costs an entry that refers to what it is
about; some dozens of entries are encoded at once (`blocks`), while the objects are at hand. Another
thread compresses and writes, without the interpreter's lock. It is woken rarely, with as much as a
block holds, because each time the two threads pass that lock on to each other. When a segment is
full, or entries could not be written, the next batch begins a segment that says all that is there
at that moment.
"""

from __future__ import annotations

import asyncio
import platform
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Never

from msgspec.structs import force_setattr, replace

from scheduler import __version__, machine
from scheduler.model.devices import ResourceClaim
from scheduler.model.journal import NodeSearch
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.recording.blocks import EntryBlock, EntryEncoder
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
    PodRenewed,
    RecordedEntry,
    Renewed,
    Reserved,
    Reverted,
    WaitEnded,
)
from scheduler.recording.segments import BLOCK_BYTES, Bounds, SegmentStart, SegmentWriter
from scheduler.recording.trimming import trimmed

log = get_logger(__name__)

FLUSH_SECONDS = 0.5
"""How long an entry waits at most for others."""
CLOSE_SECONDS = 3.0
LEAST_BLOCK_BYTES = 1 << 12
"""Shorter blocks would be too many."""
TOGETHER = 64
"""How many entries are encoded at once."""
LONG_BYTES = 1 << 14
"""An entry that is longer waits for no other: what is encoded at once may not take long."""
RENEWED_BYTES = 1 << 11
"""A new version of a pod that is longer is compared to the last, to record only what is new."""
_OK = SUCCESS.code.value


class Tape:
    """Records what it is told."""

    def __init__(
        self,
        directory: Path,
        bounds: Bounds,
        config: list[dict[str, Any]],
        metrics: Metrics,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock = clock or machine.clock()
        self._writer = SegmentWriter(directory, bounds, metrics)
        self._dropped = metrics.recording_dropped
        self._config = config
        self._run = str(machine.uuid4())
        self._now = clock()
        self._encoder = EntryEncoder()
        # A block is written whole: it must be much shorter than all that there may be.
        self._block_bytes = min(BLOCK_BYTES, max(LEAST_BLOCK_BYTES, bounds.all_bytes // 8))
        self._together = max(1, min(TOGETHER, self._block_bytes >> 10))
        self._entries: list[RecordedEntry] = []
        """To be encoded. Objects in them never change."""
        self._versions: list[tuple[int, Pod]] = []
        """Entries that may be new versions of pods, and the last versions."""
        self._block = EntryBlock()
        """To be written."""
        self._objects: defaultdict[str, dict[str, Any]] = defaultdict(dict)
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
        self._encode()
        self._hand_over()

    def _encode(self) -> None:
        """Add entries that wait to the block."""
        entries = self._entries
        if not entries:
            return
        for at, last in self._versions:
            entries[at] = _only_what_is_new(last, entries[at])
        self._versions.clear()
        if left_out := self._encoder.encode(entries, self._block):
            self._dropped.inc(left_out)
        entries.clear()

    def _hand_over(self) -> None:
        block = self._block
        if block.entries:
            self._block = EntryBlock()
        if self._silent:
            self._dropped.inc(block.entries)
            if self._writer.idle:
                self._begin()
            return
        if block.entries and not self._writer.put(block):
            self._fall_silent()
        elif self._writer.broken:
            self._silent, self._follows = True, False
        elif self._writer.full:
            self._begin()

    def _fall_silent(self) -> None:
        self._silent, self._follows = True, False
        if not self._said:
            log.warning("Recording cannot keep up with the disk: entries are dropped")
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

    def _say(self, entry: RecordedEntry, size: int = 0) -> None:
        """Keep an entry, of about so many bytes if it may be long."""
        entries = self._entries
        entries.append(entry)
        if len(entries) >= self._together or size > LONG_BYTES:
            self._encode_many()

    def _encode_many(self) -> None:
        self._encode()
        if self._block.size >= self._block_bytes:
            self._hand_over()

    # Told by the scheduler

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

    # Each pod comes through the next four: they call as little as possible, and no `_say`.

    def changed(self, kind: str, key: str, new: Any) -> None:
        """A change is applied."""
        now = self._now = self._clock()
        size = 0
        if new is None:
            old = self._objects[kind].pop(key, None)
            if old is not None and kind == "Pod":
                self._settle(old.metadata.uid)
        else:
            if kind != "Pod":  # pods have no annotations here, and nothing else to leave out
                new = trimmed(new)
            elif new.spec.node_name:
                self._settle(new.metadata.uid)
            size = new.metadata.json_bytes
            objects = self._objects[kind]
            if size > RENEWED_BYTES and kind == "Pod" and (last := objects.get(key)) is not None:
                self._versions.append((len(self._entries), last))
            objects[key] = new
        entries = self._entries
        entries.append(Changed(now, kind, key, new))
        if len(entries) >= self._together or size > LONG_BYTES:
            self._encode_many()

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
        pod = search.pod
        # It is encoded with what comes next, which may be that Permit has accepted the pod.
        self._entries.append(
            NodeSearched(
                self._now,
                pod.uid,
                pod.key,
                pod.pod.metadata.resource_version,
                search.in_pass,
                search.proposed,
                search.model,
                node,
                score,
                feasible,
                evaluated,
                (),
            )
        )

    def permitted(self, uid: str, node: str, status: Status) -> None:
        """Permit has run. Mostly that comes right after the search, whose entry says so then."""
        self._assumed(uid, node)
        entries = self._entries
        if status is not SUCCESS:
            self._not_permitted(uid, node, status)
        elif entries and _is_search_for(entries[-1], uid, self._now):
            force_setattr(entries[-1], "reserved", True)  # it is not encoded yet
            if len(entries) >= self._together:
                self._encode_many()
        else:
            self._say(Reserved(self._now, uid, node, _OK, "", _OK, ""))

    def _assumed(self, uid: str, node: str) -> None:
        self._held[uid] = node
        if self._nominated:
            self._nominated.pop(uid, None)

    def bound(self, uid: str, node: str) -> None:
        """A binding was accepted."""
        now = self._now = self._clock()
        entries = self._entries
        entries.append(BindingAnswered(now, uid, node))
        if len(entries) >= self._together:
            self._encode_many()

    # Others

    def not_reserved(self, uid: str, node: str, status: Status) -> None:
        """A pod was assumed, and Reserve has rejected it."""
        self._assumed(uid, node)
        self._say(Reserved(self._now, uid, node, status.code.value, status.message, "", ""))

    def _not_permitted(self, uid: str, node: str, status: Status) -> None:
        if status.code is Code.WAIT:
            self._waiting.add(uid)
        self._say(Reserved(self._now, uid, node, _OK, "", status.code.value, status.message))

    def unplaced(self, search: NodeSearch, plugins: Iterable[str], evaluated: int) -> None:
        """A search has found none."""
        given, rejecting = _given(search), tuple(sorted(plugins))
        self._say(NodeSearched(self._now, *given, "", None, 0, evaluated, rejecting))

    def made_room(self, uid: str, message: str, nominated: str) -> None:
        """PostFilter has run."""
        self._say(MadeRoom(self._now, uid, message, nominated))

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
        self._say(Answered(self._now, plugin, path, pod, answer, fault), len(answer))

    def claim_written(self, uid: str, key: str, claim: ResourceClaim | None) -> None:
        """A claim was written, or deleted, and the watch has yet to show it."""
        self.tick()
        kept = None if claim is None else trimmed(claim)
        self._say(ClaimWritten(self._now, uid, key, kept))


def _given(search: NodeSearch) -> tuple[str, str, str, bool, str, str]:
    pod, version = search.pod, search.pod.pod.metadata.resource_version
    return pod.uid, pod.key, version, search.in_pass, search.proposed, search.model


def _is_search_for(entry: RecordedEntry, uid: str, time: float) -> bool:
    return type(entry) is NodeSearched and entry.uid == uid and entry.time == time


def _only_what_is_new(last: Pod, entry: RecordedEntry) -> RecordedEntry:
    """The entry; without what the last version of the pod has, if node, status and version differ.

    By now the two versions share what is long (`model.sharing`), so that they are compared by
    identity, and what they share is not read from memory once more.
    """
    assert isinstance(entry, Changed), "a version of a pod"
    new: Pod = entry.object
    meta, spec, kept = new.metadata, new.spec, last.spec
    numbers = {"resource_version": meta.resource_version, "json_bytes": meta.json_bytes}
    if replace(last.metadata, **numbers) != meta:
        return entry
    if kept is not spec and replace(kept, node_name=spec.node_name) != spec:
        return entry
    versions = last.metadata.resource_version, meta.resource_version, meta.json_bytes
    return PodRenewed(entry.time, entry.key, *versions, spec.node_name, new.status)
