"""The format of recordings: entries in the order of the steps that they stand for.

A recording is a directory of segments (``segment-00000001.eqr``), read in the order of their names.
A segment is a row of blocks; each is 4 bytes of length, 4 bytes of CRC-32, and a zstd frame of so
many bytes: an array of entries in MessagePack. An entry is an array that begins with its number.
The first entry of a segment is its `Header`, then comes what was there when the segment began
(`Known`, `Held`, `Nominated`, `Complete`), so that earlier segments can be dropped.

Objects have the fields of `model.objects`: those that a scheduler reads. A reader refuses a
`FORMAT` that is newer than its own, and reads all that are older: entries and fields are only ever
added at the end. Format 2 added `PodRenewed` and ``NodeSearched.reserved``; format 3 added
`PodAdded`, `PodChanged`, `PodPlaced` and `PodUpdated`, and no longer writes `PodRenewed`: what
every pod comes through is said in fewer words. A reader gives them as the `Changed` and
`NodeSearched` that they stand for (`reader`).
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 3

SUFFIX = ".eqr"


class RecordedEntry(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """Base of all entries."""


class Header(RecordedEntry, tag=0, frozen=True):
    """The first entry of a segment."""

    format: int
    version: str
    """Of the program that recorded."""
    python: str
    run: str
    """Of the process: segments of one run follow each other."""
    number: int
    """Of the segment."""
    follows: bool
    """Whether the segment before it, of the same run, is complete: no step is missing between."""
    wall: float
    """Seconds since 1970 at `time`."""
    time: float
    """Monotonic seconds, like the time of all entries."""
    leading: bool
    """Whether the replica scheduled when the segment began."""
    config: list[dict[str, Any]]
    """The effective configuration, as documents, without secrets."""


class Known(RecordedEntry, tag=1, frozen=True):
    """An object that was there when the segment began."""

    kind: str
    key: str
    object: Any


class Held(RecordedEntry, tag=2, frozen=True):
    """A pod that was assumed on a node when the segment began."""

    uid: str
    key: str
    node: str
    waits: bool
    """Whether it waited on permit."""


class Complete(RecordedEntry, tag=3, frozen=True):
    """All that was there when the segment began has been said; steps follow."""


class Began(RecordedEntry, tag=10, frozen=True):
    """The replica schedules from now on."""

    time: float


class Changed(RecordedEntry, tag=11, frozen=True):
    """A change of an object was applied; no object: it was deleted."""

    time: float
    kind: str
    key: str
    object: Any


class NodeSearched(RecordedEntry, tag=12, frozen=True):
    """A search for a node: what it was given, and what it found."""

    time: float
    uid: str
    key: str
    version: str
    """The resourceVersion of the pod that was looked at."""
    in_pass: bool
    proposed: str
    model: str
    node: str
    """Empty if it found none."""
    score: int | None
    feasible: int
    evaluated: int
    plugins: tuple[str, ...]
    """Those that rejected nodes, sorted, if it found none."""
    reserved: bool = False
    """Whether the pod was assumed on the node next, and Reserve and Permit accepted it."""


class MadeRoom(RecordedEntry, tag=13, frozen=True):
    """PostFilter has run."""

    time: float
    uid: str
    message: str
    nominated: str


class Reserved(RecordedEntry, tag=14, frozen=True):
    """A pod was assumed on a node; the verdicts of Reserve and Permit."""

    time: float
    uid: str
    node: str
    code: str
    message: str
    permit_code: str
    """Empty if Permit has not run, because Reserve rejected the pod."""
    permit_message: str


class WaitEnded(RecordedEntry, tag=16, frozen=True):
    """A pod waits on permit no longer."""

    time: float
    uid: str


class Reverted(RecordedEntry, tag=17, frozen=True):
    """A reservation was undone."""

    time: float
    uid: str
    trial: bool


class Forgotten(RecordedEntry, tag=18, frozen=True):
    """An assumed pod was forgotten without Unreserve."""

    time: float
    uid: str


class BindingAnswered(RecordedEntry, tag=19, frozen=True):
    """A binding was accepted."""

    time: float
    uid: str
    node: str


class FailedAttempt(RecordedEntry, tag=20, frozen=True):
    """An attempt ended without a node."""

    time: float
    uid: str
    reason: str
    message: str


class Nominated(RecordedEntry, tag=21, frozen=True):
    """A pod was nominated to a node; empty: to none any more."""

    time: float
    uid: str
    node: str


class Evicted(RecordedEntry, tag=22, frozen=True):
    """An eviction was answered."""

    time: float
    uid: str
    fault: str


class Asked(RecordedEntry, tag=23, frozen=True):
    """A search, or PostFilter after one, needs an answer from out of process."""

    time: float
    uid: str
    key: str
    version: str
    in_pass: bool
    proposed: str
    model: str
    for_room: bool
    """Whether it is PostFilter that needs it; only the uid counts then."""


class Answered(RecordedEntry, tag=24, frozen=True):
    """A plugin out of process has answered, or failed to."""

    time: float
    plugin: str
    path: str
    pod: str
    answer: bytes
    fault: str
    """In place of an answer: the word of metrics for it, a colon, and why."""


class AnswerTold(RecordedEntry, tag=25, frozen=True):
    """An attempt has got the answer that it waits for."""

    time: float
    uid: str
    first: bool
    """Whether the answer is a new one; else it is that of the attempt before."""


class Renewed(RecordedEntry, tag=26, frozen=True):
    """A pod has changed while it waited for answers, which no longer count."""

    time: float
    uid: str


class ClaimWritten(RecordedEntry, tag=27, frozen=True):
    """A claim was written for a pod that is being bound; no claim: it was deleted."""

    time: float
    uid: str
    """Of the claim as it was reserved."""
    key: str
    claim: Any


class PodRenewed(RecordedEntry, tag=28, frozen=True):
    """A change of a pod was applied that differs from the last in what is here alone."""

    time: float
    key: str
    last: str
    """The resourceVersion of the last."""
    version: str
    """Its own."""
    json_bytes: int
    node: str
    status: Any


class PodChanged(RecordedEntry, tag=29, frozen=True):
    """A change of a pod was applied: a `Changed`."""

    time: float
    object: Any


class PodUpdated(RecordedEntry, tag=30, frozen=True):
    """A change of a pod was applied that differs from the last in what is here alone."""

    time: float
    uid: str
    last: str
    """The resourceVersion of the last."""
    version: str
    """Its own."""
    json_bytes: int
    node: str
    status: Any


class PodAdded(RecordedEntry, tag=32, frozen=True):
    """A pod has come: a `Changed`."""

    time: float
    number: int
    """Of its spec in this segment."""
    metadata: Any
    volumes: Any
    """Of the spec; most pods of a template differ in them, if in anything."""
    spec: Any
    """Without volumes; None: that of the last pod with this number."""
    status: Any


class PodPlaced(RecordedEntry, tag=31, frozen=True):
    """A search for a pod by itself found a node: a `NodeSearched`."""

    time: float
    uid: str
    version: str
    node: str
    score: int | None
    feasible: int
    evaluated: int
    reserved: bool = False


AnyEntry = (
    Header
    | Known
    | Held
    | Complete
    | Began
    | Changed
    | NodeSearched
    | MadeRoom
    | Reserved
    | WaitEnded
    | Reverted
    | Forgotten
    | BindingAnswered
    | FailedAttempt
    | Nominated
    | Evicted
    | Asked
    | Answered
    | AnswerTold
    | Renewed
    | ClaimWritten
    | PodRenewed
    | PodChanged
    | PodUpdated
    | PodPlaced
    | PodAdded
)
