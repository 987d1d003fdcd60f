"""A recording says once what the versions of a pod share, and a reader puts them together again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace

from scheduler.model.journal import NodeSearch
from scheduler.model.objects import KINDS
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.observe.metrics import Metrics
from scheduler.recording.blocks import EntryBlock, EntryEncoder
from scheduler.recording.compression import zstd
from scheduler.recording.entries import (
    AnyEntry,
    BindingAnswered,
    Changed,
    Header,
    NodeSearched,
    PodAdded,
    PodPlaced,
    PodRenewed,
    PodUpdated,
    Reserved,
)
from scheduler.recording.reader import as_object
from scheduler.recording.reader import segments as read_segments
from scheduler.recording.segments import Bounds, SegmentStart, SegmentWriter, segment_name
from scheduler.recording.tape import RENEWED_BYTES, TOGETHER, Tape
from tests.builders import PodBuilder, make_pod
from tests.patience import PATIENCE

BOUNDS = Bounds(1 << 26, 1 << 24, 0.0)
BOUND_POD_BYTES = 256
"""What a recording may hold of a pod that only got its node, before it is compressed."""


def written(builder: PodBuilder, version: int, json_bytes: int = RENEWED_BYTES + 1) -> Pod:
    pod: Pod = builder.version(version).struct()
    force_setattr(pod.metadata, "json_bytes", json_bytes)  # as the decoder of the watch notes it
    return pod


def placed(tape: Tape, pod: Pod, node: str = "n1") -> None:
    tape.tick()
    tape.placed(PodInfo(pod), node, 7, 3, 5)
    tape.permitted(pod.metadata.uid, node, SUCCESS)
    tape.bound(pod.metadata.uid, node)


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[AnyEntry]:
    """The entries that are written, as they are in the file."""
    entries: list[AnyEntry] = []
    put = SegmentWriter.put

    def noted(self: SegmentWriter, block: EntryBlock) -> bool:
        entries.extend(msgspec.msgpack.decode(block.content(), type=list[AnyEntry]))
        return put(self, block)

    monkeypatch.setattr(SegmentWriter, "put", noted)
    return entries


def test_a_pod_that_only_got_its_node_costs_little_however_long_it_is(
    tmp_path: Path, handed: list[AnyEntry]
) -> None:
    def a_pod() -> PodBuilder:
        builder = make_pod("p").label(long="x" * 50_000)
        for number in range(50):
            builder = builder.toleration(f"key-{number}")
        return builder

    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    tape.start()
    pending = written(a_pod(), 1)
    tape.changed("Pod", None, pending)
    placed(tape, pending)
    tape.changed("Pod", pending, written(a_pod().on("n1"), 2))
    tape.close()
    assert [type(each) for each in handed] == [
        PodAdded,
        PodPlaced,
        BindingAnswered,
        PodUpdated,
    ]
    assert sum(len(msgspec.msgpack.encode(each)) for each in handed[1:]) <= BOUND_POD_BYTES


VERSIONS = {
    "got its node": lambda pod: pod.on("n1"),
    "runs": lambda pod: pod.on("n1").phase("Running"),
    "has another label": lambda pod: pod.label(app="other"),
    "is being deleted": lambda pod: pod.deleting(),
    "tolerates more": lambda pod: pod.toleration("other"),
    "asks for more": lambda pod: pod.cpu("7"),
    "has another priority": lambda pod: pod.priority(9),
    "stays as it is": lambda pod: pod,
}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([None, *VERSIONS]),
            st.sampled_from([0, RENEWED_BYTES, RENEWED_BYTES + 1, 3 * RENEWED_BYTES]),
        ),
        max_size=3 * TOGETHER,
    )
)
def test_a_reader_has_all_versions_of_all_pods_as_they_were_told(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str | None, int]]
) -> None:
    directory = tmp_path_factory.mktemp("recording")
    tape = Tape(directory, BOUNDS, [], Metrics())
    tape.start()
    told: list[tuple[str, Any]] = []
    there: dict[str, Pod] = {}
    for version, (name, what, size) in enumerate(steps):
        key, builder = f"default/p{name}", make_pod(f"p{name}").label(app="a")
        new = None if what is None else written(VERSIONS[what](builder), version, size)
        old = there.pop(key, None)
        if new is not None:
            there[key] = new
        elif old is None:
            continue
        tape.changed("Pod", old, new)
        told.append((key, new))
    tape.close()
    (segment,) = read_segments(directory)
    read = [
        (each.key, each.object and as_object(each.object, "Pod", each.key, KINDS["Pod"].type))
        for each in segment.entries()
        if isinstance(each, Changed)
    ]
    assert read == told


def test_a_version_whose_last_was_left_out_is_left_out(tmp_path: Path) -> None:
    """MessagePack has no such number: that version cannot be recorded."""
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    tape.start()
    first, third = written(make_pod("p"), 1), written(make_pod("p").on("n1"), 3)
    second = replace(
        written(make_pod("p"), 2),
        status=replace(first.status, allocated_resources={"cpu": 1 << 80}),
    )
    for old, new in pairwise((None, first, second, third)):
        tape.changed("Pod", old, new)
    tape.close()
    (segment,) = read_segments(tmp_path)
    changes = [each for each in segment.entries() if isinstance(each, Changed)]
    assert [each.object["metadata"]["resourceVersion"] for each in changes] == ["1"]


@pytest.mark.parametrize("between", ["nothing", "a rejection", "another step", "another pod"])
def test_permit_is_said_by_the_search_only_right_after_it(
    tmp_path: Path, handed: list[AnyEntry], between: str
) -> None:
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    tape.start()
    pod, status = written(make_pod("p"), 1), SUCCESS
    tape.tick()
    tape.placed(PodInfo(pod), "n1", 7, 3, 5)
    uid = pod.metadata.uid
    match between:
        case "a rejection":
            status = Status(Code.UNSCHEDULABLE, ("no",))
        case "another step":
            tape.evicted("other", "")
        case "another pod":
            uid = "other"
    tape.permitted(uid, "n1", status)
    tape.close()
    searched = [each.reserved for each in handed if isinstance(each, PodPlaced)]
    assert searched == [between == "nothing"]
    assert any(isinstance(each, Reserved) for each in handed) == (between != "nothing")


def test_many_pods_in_a_row_are_encoded_by_the_dozen(tmp_path: Path) -> None:
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    for number in range(4 * TOGETHER):
        pod = written(make_pod(f"p{number}"), 1)
        tape.tick()
        tape.placed(PodInfo(pod), "n1", 7, 3, 5)
        tape.permitted(pod.metadata.uid, "n1", SUCCESS)
        assert len(tape._entries) < TOGETHER


@pytest.mark.parametrize("proposed", ["", "n1"], ids=["members of a gang", "pods of a batch"])
def test_so_are_many_that_are_searched_for_together(tmp_path: Path, proposed: str) -> None:
    """They come in one step, in which no change is told."""
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    for number in range(4 * TOGETHER):
        info = PodInfo(written(make_pod(f"p{number}"), 1))
        tape.tick()
        tape.searched(NodeSearch(info, not proposed, proposed, ""), "n1", 7, 3, 5)
        tape.permitted(info.uid, "n1", SUCCESS)
        assert len(tape._entries) < TOGETHER


def test_a_template_is_said_once_for_all_its_pods(tmp_path: Path, handed: list[AnyEntry]) -> None:
    def pod(name: str, of: str) -> Pod:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        return written(make_pod(name).label(name=name).image(of).spec(volumes=volumes), 1, 0)

    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    tape.start()
    pods = [pod("a", "x"), pod("b", "x"), pod("c", "y"), pod("d", "y"), pod("e", "x")]
    for each in pods:
        tape.changed("Pod", None, each)
    tape.close()
    assert [each.spec is None for each in handed if isinstance(each, PodAdded)] == [
        *(False, True),
        *(False, True),
        False,
    ]
    (segment,) = read_segments(tmp_path)
    assert _pods_of(segment.entries()) == pods


def test_a_segment_says_the_template_of_its_first_pod(
    tmp_path: Path, handed: list[AnyEntry]
) -> None:
    """The segment before may be deleted."""
    tape = Tape(tmp_path, Bounds(1 << 26, 100, 0.0), [], Metrics())
    tape.start()
    for number in range(4):
        tape.changed("Pod", None, written(make_pod(f"p{number}"), 1))
        tape.flush()
        assert tape._writer.drained.wait(PATIENCE)
        tape.flush()  # begins a segment, if that before is full
    tape.close()
    segments = read_segments(tmp_path)
    assert len(segments) > 1
    names = [pod.metadata.name for each in segments for pod in _pods_of(each.entries())]
    assert names == ["p0", "p1", "p2", "p3"]
    specs = [each.spec for each in handed if isinstance(each, PodAdded)]
    assert 1 < sum(spec is not None for spec in specs) <= len(segments)


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "another has its name"])
def test_a_segment_says_nothing_of_a_pod_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """A watch may show the pod that has come in place of another as a change of that."""
    starts: list[SegmentStart] = []
    monkeypatch.setattr(SegmentWriter, "begin", lambda self, start: starts.append(start))
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    old, new = (written(make_pod("p").uid(uid), 1) for uid in ("first", "second"))
    tape.changed("Pod", None, old)
    tape.nominated("first", "n1")
    tape.permitted("first", "n1", Status(Code.WAIT))
    tape.nominated("first", "n1")
    tape.changed("Pod", old, new if replaced else None)
    tape._begin()
    (start,) = starts
    assert (start.held, start.waiting, start.nominated) == ({}, frozenset(), {})
    assert list(start.pods) == (["second"] if replaced else [])


def _pods_of(entries: Iterable[AnyEntry]) -> list[Pod]:
    return [
        as_object(each.object, "Pod", each.key, Pod)
        for each in entries
        if isinstance(each, Changed)
    ]


def test_pods_whose_template_was_left_out_are_left_out(tmp_path: Path) -> None:
    """MessagePack has no such number."""
    tape = Tape(tmp_path, BOUNDS, [], Metrics())
    tape.start()
    for name, priority in (("a", 0), ("b", 1 << 80), ("c", 1 << 80), ("d", 0)):
        tape.changed("Pod", None, written(make_pod(name).priority(priority), 1))
    tape.close()
    (segment,) = read_segments(tmp_path)
    assert [pod.metadata.name for pod in _pods_of(segment.entries())] == ["a", "d"]


def test_entries_of_the_format_before_are_read() -> None:
    """It had no `reserved`, and pods in full alone."""
    entry = NodeSearched(1.0, "u", "k", "1", False, "", "", "n", 7, 3, 5, ())
    *fields, reserved = msgspec.to_builtins(entry)
    assert reserved is False
    assert msgspec.convert(fields, AnyEntry) == entry


def test_pods_of_format_2_are_read(tmp_path: Path) -> None:
    header = Header(2, "1", "3", "run", 1, False, 0.0, 0.0, True, [])
    pod = written(make_pod("p"), 1)
    bound = written(make_pod("p").on("n1"), 2)
    size = bound.metadata.json_bytes
    block = EntryBlock()
    EntryEncoder().encode(
        [
            header,
            Changed(1.0, "Pod", pod.key, pod),
            PodRenewed(2.0, pod.key, "1", "2", size, "n1", bound.status),
        ],
        block,
    )
    frame = zstd().compress(block.content())
    head = len(frame).to_bytes(4, "little") + zlib.crc32(frame).to_bytes(4, "little")
    (tmp_path / segment_name(1)).write_bytes(head + frame)
    (segment,) = read_segments(tmp_path)
    assert _pods_of(segment.entries()) == [pod, bound]
