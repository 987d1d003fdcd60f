"""The tape: told of each step of the scheduler, it hands entries over to be written.

Everything here runs on the scheduling thread, where each instruction counts: what a pod costs is
bounded by a test (`tests/cost/test_recording.py`). A step costs an entry that refers to what it is
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
from scheduler.model.meta import ObjectMeta
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, PodSpec, PodStatus
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
    Complete,
    Evicted,
    FailedAttempt,
    Forgotten,
    Header,
    MadeRoom,
    NodeSearched,
    Nominated,
    PodAdded,
    PodChanged,
    PodPlaced,
    PodUpdated,
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
_POD = Pod.__name__
_OK = SUCCESS.code.value
_LATER = Complete()
"""Stands for an entry that is made when it is encoded."""


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
        self._renewals: list[tuple[int, float, Pod, Pod]] = []
        """Where the entries of new versions of long pods are to be, their times, and the two."""
        self._block = EntryBlock()
        """To be written."""
        self._objects: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        """All objects by kind and key, but for pods."""
        self._pods: dict[str, Pod] = {}
        """All pods by uid."""
        self._spec: PodSpec | None = None
        """Of the last pod whose spec was said in this segment, without volumes."""
        self._spec_number = 0
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
        if self._renewals:
            for at, now, last, new in self._renewals:
                entries[at] = _only_what_is_new(now, last, new)
            self._renewals.clear()
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
        self._silent, self._spec = False, None
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
        self._writer.begin(SegmentStart(header, there, self._pods.copy(), *others))
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
        """A step begins, or changes that came together."""
        self._now = self._clock()

    def clock(self) -> float:
        """When the current step began."""
        return self._now

    def began(self) -> None:
        """This replica schedules from now on."""
        self.tick()
        self._leading = True
        self._say(Began(self._now))

    # Each pod comes through the next five: they do as little as possible.

    def changed(self, kind: str, old: Any, new: Any) -> None:
        """A change is applied."""
        if new is None or kind != _POD:
            self._changed(kind, old, new)
            return
        metadata, spec, entries = new.metadata, new.spec, self._entries
        uid, size = metadata.uid, metadata.json_bytes
        self._pods[uid] = new
        if spec.node_name:
            self._held.pop(uid, None)
            if self._nominated or self._waiting:
                self._settle(uid)
        if old is None:
            entries.append(self._added(metadata, spec, new.status))
        elif size > RENEWED_BYTES and old.metadata.uid == uid:
            self._renewals.append((len(entries), self._now, old, new))
            entries.append(_LATER)
        else:
            if old.metadata.uid != uid:
                self._end(old.metadata.uid)
            entries.append(PodChanged(self._now, new))
        if len(entries) >= self._together or size > LONG_BYTES:
            self._encode_many()

    def _added(self, metadata: ObjectMeta, spec: PodSpec, status: PodStatus) -> PodAdded:
        """A new pod; most come after others of the same template."""
        volumes, known = spec.volumes, self._spec
        if known is not None and volumes:
            known = replace(known, volumes=volumes)
        if known == spec:
            return PodAdded(self._now, self._spec_number, metadata, volumes, None, status)
        self._spec = spec if not volumes else replace(spec, volumes=())
        self._spec_number += 1
        return PodAdded(self._now, self._spec_number, metadata, volumes, self._spec, status)

    def placed(
        self, pod: PodInfo, node: str, score: int | None, feasible: int, evaluated: int
    ) -> None:
        """A search for a pod by itself has found a node."""
        version = pod.pod.metadata.resource_version
        # It is encoded with what comes next, which may be that Permit has accepted the pod.
        self._entries.append(
            PodPlaced(self._now, pod.uid, version, node, score, feasible, evaluated)
        )

    def permitted(self, uid: str, node: str, status: Status) -> None:
        """Permit has run. Mostly that comes right after the search, whose entry says so then."""
        self._held[uid] = node
        if self._nominated:
            self._nominated.pop(uid, None)
        entries = self._entries
        last = entries[-1] if entries else None
        if type(last) is PodPlaced and status is SUCCESS and last.uid == uid:
            force_setattr(last, "reserved", True)  # it is not encoded yet
            if len(entries) >= self._together:
                self._encode_many()
        else:
            self._permitted_apart(uid, node, status)

    def bound(self, uid: str, node: str) -> None:
        """A binding was accepted."""
        self._now = now = self._clock()
        self._entries.append(BindingAnswered(now, uid, node))

    # Others

    def _changed(self, kind: str, old: Any, new: Any) -> None:
        """A change of anything but a pod, or the end of one."""
        key = (new or old).metadata.key
        if kind == _POD:
            self._end(old.metadata.uid)
        elif new is None:
            self._objects[kind].pop(key, None)
        else:  # pods have no annotations here, and nothing else to leave out
            new = self._objects[kind][key] = trimmed(new)
        size = 0 if new is None else new.metadata.json_bytes
        self._say(Changed(self._now, kind, key, new), size)

    def _end(self, uid: str) -> None:
        """A pod is gone, or another one has its name."""
        if self._pods.pop(uid, None) is not None:
            self._held.pop(uid, None)
            self._settle(uid)

    def _settle(self, uid: str) -> None:
        """The watch has shown a pod on a node, or gone."""
        self._nominated.pop(uid, None)
        self._waiting.discard(uid)

    def searched(
        self, search: NodeSearch, node: str, score: int | None, feasible: int, evaluated: int
    ) -> None:
        """A search for a member of a group, or for a pod of a batch, has found a node."""
        given = _given(search)
        self._entries.append(NodeSearched(self._now, *given, node, score, feasible, evaluated, ()))

    def _permitted_apart(self, uid: str, node: str, status: Status) -> None:
        if status.code is Code.WAIT:
            self._waiting.add(uid)
        entries, code = self._entries, status.code.value
        last = entries[-1] if entries else None
        if type(last) is NodeSearched and status is SUCCESS and last.uid == uid and last.node:
            force_setattr(last, "reserved", True)
            if len(entries) >= self._together:
                self._encode_many()
        else:
            self._say(Reserved(self._now, uid, node, _OK, "", code, status.message))

    def not_reserved(self, uid: str, node: str, status: Status) -> None:
        """A pod was assumed, and Reserve has rejected it."""
        self._held[uid] = node
        self._nominated.pop(uid, None)
        self._say(Reserved(self._now, uid, node, status.code.value, status.message, "", ""))

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


def _only_what_is_new(now: float, last: Pod, new: Pod) -> RecordedEntry:
    """The entry of a new version; only what differs from the last, if only node and status do.

    By now the two versions share what is long (`model.sharing`), so that they are compared by
    identity, and what they share is not read from memory once more.
    """
    before, metadata, kept, spec = last.metadata, new.metadata, last.spec, new.spec
    version, size, node = metadata.resource_version, metadata.json_bytes, spec.node_name
    if replace(before, resource_version=version, json_bytes=size) != metadata:
        return PodChanged(now, new)
    if kept is not spec and replace(kept, node_name=node) != spec:
        return PodChanged(now, new)
    was = before.resource_version
    return PodUpdated(now, metadata.uid, was, version, size, node, new.status)
