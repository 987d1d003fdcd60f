"""Files of recordings: whole or said not to be, bounded, and in nobody's way."""

from __future__ import annotations

import errno
import shutil
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import force_setattr

from scheduler.model.meta import AnnotatedMeta
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from scheduler.model.volumes import BETA_CLASS
from scheduler.observe.metrics import Metrics
from scheduler.recording import reader, segments
from scheduler.recording.blocks import EntryBlock
from scheduler.recording.compression import zstd
from scheduler.recording.entries import FORMAT, Changed, Complete, Header
from scheduler.recording.reader import UnreadableRecording
from scheduler.recording.reader import segments as read_segments
from scheduler.recording.segments import Bounds, SegmentStart, SegmentWriter, segments_in
from scheduler.recording.tape import Tape
from scheduler.recording.trimming import trimmed
from tests.builders import make_pod, make_worker
from tests.patience import PATIENCE

ROOMY = Bounds(1 << 24, 1 << 22, 0.0)
SMALL = Bounds(1 << 24, 500, 0.0)


def tape_in(directory: Path, bounds: Bounds = ROOMY, metrics: Metrics | None = None) -> Tape:
    tape = Tape(directory, bounds, [], metrics or Metrics())
    tape.start()
    return tape


def told(tape: Tape, first: int, count: int) -> None:
    """Tell of so many new pods, and hand them over."""
    for number in range(first, first + count):
        pod = make_pod(f"pod-{number}").label(noise=f"{number * 7919:x}" * 8).struct()
        tape.changed("Pod", None, pod)
    tape.flush()


def read(directory: Path) -> Iterator[str]:
    """The names of changed objects, in order."""
    for segment in read_segments(directory):
        yield from (each.key for each in segment.entries() if isinstance(each, Changed))


def written(directory: Path) -> int:
    return sum(path.stat().st_size for path in segments_in(directory).values())


def test_what_was_told_is_read_again_in_order(tmp_path: Path) -> None:
    tape = tape_in(tmp_path)
    told(tape, 0, 1500)
    tape.close()
    assert list(read(tmp_path)) == [f"default/pod-{number}" for number in range(1500)]


def test_the_writer_is_handed_whole_blocks_while_much_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch wakes the other thread, and the two pass the interpreter's lock to each other."""
    monkeypatch.setattr("scheduler.recording.tape.BLOCK_BYTES", 20_000)
    handed = _handed_over(monkeypatch)
    tape = tape_in(tmp_path)
    told(tape, 0, 1500)
    tape.close()
    *whole, last = handed
    assert len(whole) > 5
    some = 20_000 >> 10  # encoded at once, each of less than 400 bytes
    assert all(20_000 <= size < 20_000 + 400 * some for size in whole)
    assert last < 20_000 + 400 * some
    assert len(list(read(tmp_path))) == 1500


def test_blocks_are_short_where_little_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is longer than the whole recording may be would end it."""
    handed = _handed_over(monkeypatch)
    tape = tape_in(tmp_path, Bounds(24_000, 4_000, 0.0))
    told(tape, 0, 200)
    tape.close()
    assert sum(handed) > 24_000
    assert max(handed) < 6_000


def _handed_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the blocks are that the writer gets, from now on."""
    handed: list[int] = []
    put = SegmentWriter.put

    def counted(writer: SegmentWriter, block: EntryBlock) -> bool:
        handed.append(block.size)
        return put(writer, block)

    monkeypatch.setattr(SegmentWriter, "put", counted)
    return handed


def test_nothing_of_a_pod_is_left_out_of_a_recording(tmp_path: Path) -> None:
    """So the tape need not look: its struct has no annotations, unlike those of other kinds."""
    pod = make_pod("pod").struct()
    assert not isinstance(pod.metadata, AnnotatedMeta)
    assert trimmed(pod) is pod
    annotations = {"note": "secret", BETA_CLASS: "fast"}
    template = {"metadata": {"annotations": annotations, "labels": {"a": "b"}}}
    raw = make_pod("pod").obj()
    raw["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    volume = msgspec.to_builtins(from_dict(raw, Pod))["spec"]["volumes"][0]
    kept = {"annotations": {BETA_CLASS: "fast"}, "labels": {"a": "b"}}
    assert volume["ephemeral"] == {"volumeClaimTemplate": {"metadata": kept}}


def test_a_file_that_is_cut_short_is_read_up_to_the_last_whole_block(tmp_path: Path) -> None:
    tape = tape_in(tmp_path)
    for number in range(4):
        told(tape, number, 1)
    tape.close()
    (path,) = segments_in(tmp_path).values()
    path.write_bytes(path.read_bytes()[:-3])
    (segment,) = read_segments(tmp_path)
    assert [each.key for each in segment.entries() if isinstance(each, Changed)] == [
        "default/pod-0",
        "default/pod-1",
        "default/pod-2",
    ]
    assert segment.notes == [f"{path.name} ends within block 5: the rest is left out"]


def test_a_block_that_was_damaged_ends_the_segment(tmp_path: Path) -> None:
    tape = tape_in(tmp_path)
    told(tape, 0, 1)
    told(tape, 1, 1)
    tape.close()
    (path,) = segments_in(tmp_path).values()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (segment,) = read_segments(tmp_path)
    assert [each.key for each in segment.entries() if isinstance(each, Changed)] == [
        "default/pod-0"
    ]
    assert len(segment.notes) == 1


def test_all_segments_together_stay_within_the_bound(tmp_path: Path) -> None:
    bounds = Bounds(40_000, 8_000, 0.0)
    tape = tape_in(tmp_path, bounds)
    for number in range(200):
        told(tape, 20 * number, 20)
        for old in range(20 * number, 20 * number + 20):  # few are there at any time
            tape.changed("Pod", make_pod(f"pod-{old}").struct(), None)
        tape.flush()
        _until_written(tape)
        assert written(tmp_path) <= bounds.all_bytes
    tape.close()
    assert written(tmp_path) <= bounds.all_bytes
    numbers = list(segments_in(tmp_path))
    assert len(numbers) > 2
    assert numbers[0] > 1, "the oldest are gone"
    headers = [segment.header for segment in read_segments(tmp_path)]
    assert [header.number for header in headers] == numbers
    assert all(header.follows for header in headers)


def test_a_segment_begins_with_all_that_is_there(tmp_path: Path) -> None:
    tape = tape_in(tmp_path, Bounds(1 << 20, 2_000, 0.0))
    tape.changed("Node", None, make_worker("n").struct())
    for number in range(30):
        told(tape, number, 1)
        _until_written(tape)
    tape.close()
    last = read_segments(tmp_path)[-1]
    assert last.header.number > 1
    known = []
    for entry in last.entries():
        if isinstance(entry, Complete):
            break
        known.append(entry.key)  # type: ignore[union-attr]  # objects come first
    assert known[0] == "n"
    assert known[1:] == [f"default/pod-{number}" for number in range(len(known) - 1)]


def test_a_bound_that_is_too_small_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    metrics = Metrics()
    tape = tape_in(tmp_path, Bounds(2_000, 1_000, 0.0), metrics)
    for number in range(50):
        told(tape, 20 * number, 20)
        _until_written(tape)
    tape.close()
    assert written(tmp_path) <= 2_000
    assert _dropped(metrics) > 0


def test_a_directory_that_cannot_be_used_costs_entries_and_nothing_else(tmp_path: Path) -> None:
    metrics = Metrics()
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    tape = tape_in(blocked / "recording", metrics=metrics)
    _until_written(tape)
    told(tape, 0, 5)
    _until_written(tape)
    told(tape, 5, 5)
    tape.close()
    assert _dropped(metrics) >= 5


def test_after_entries_were_dropped_a_new_segment_says_that_steps_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    tape = tape_in(tmp_path, metrics=metrics)
    _until_written(tape)
    monkeypatch.setattr(segments, "WAITING_BATCHES", 0)
    told(tape, 0, 3)
    monkeypatch.undo()
    assert _dropped(metrics) == 3
    told(tape, 3, 2)
    told(tape, 5, 1)
    tape.close()
    first, second = read_segments(tmp_path)
    assert [first.header.follows, second.header.follows] == [False, False]
    assert first.header.run == second.header.run
    known = [entry.key for entry in second.entries() if not isinstance(entry, Changed | Complete)]  # type: ignore[union-attr]  # objects come first
    assert known == [f"default/pod-{number}" for number in range(5)]
    assert list(read(tmp_path)) == ["default/pod-5"]


def test_files_that_only_look_like_segments_are_left_alone(tmp_path: Path) -> None:
    for number in ("", "²", "٣", "-1", "1.5"):
        (tmp_path / f"segment-{number}.eqr").touch()
    (tmp_path / "segment-7.eqr").touch()
    assert list(segments_in(tmp_path)) == [7]


def test_a_second_run_goes_on_behind_the_first(tmp_path: Path) -> None:
    for number in range(2):
        tape = tape_in(tmp_path)
        told(tape, number, 1)
        tape.close()
    first, second = read_segments(tmp_path)
    assert (first.header.number, second.header.number) == (1, 2)
    assert first.header.run != second.header.run


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, ROOMY, Metrics())
    writer.start()
    header = Header(FORMAT + 1, "9.9.9", "3.99", "run", 0, False, 0.0, 0.0, False, [])
    writer.begin(SegmentStart(header, {}, {}, {}, frozenset(), {}))
    writer.close(10.0)
    with pytest.raises(UnreadableRecording, match=f"format is {FORMAT + 1}, this version reads"):
        read_segments(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing has been recorded yet"),
        (b"nonsense that is no block at all", "segment-00000001.eqr ends within block 1"),
    ],
)
def test_what_is_no_recording_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(UnreadableRecording, match="no segments"):
        read_segments(tmp_path)
    (tmp_path / segments.segment_name(1)).write_bytes(content)
    with pytest.raises(UnreadableRecording, match=said):
        read_segments(tmp_path)
    with pytest.raises(UnreadableRecording, match="No such file"):
        read_segments(tmp_path / "missing")


def _until_written(tape: Tape) -> None:
    """Wait until the thread has taken all that was handed over, and written it."""
    tape._writer.drained.wait(PATIENCE)


def _dropped(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("equipoise_recording_dropped_entries_total") or 0.0


def test_an_entry_that_cannot_be_encoded_is_left_out(tmp_path: Path) -> None:
    metrics = Metrics()
    tape = tape_in(tmp_path, metrics=metrics)
    node = make_worker("n").struct()
    vast = msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, generation=1 << 80)
    )
    tape.changed("Node", None, vast)
    told(tape, 0, 2)
    tape.close()
    assert list(read(tmp_path)) == ["default/pod-0", "default/pod-1"]
    assert _dropped(metrics) == 1


def test_two_processes_in_one_directory_do_not_write_into_each_others_segments(
    tmp_path: Path,
) -> None:
    one, other = tape_in(tmp_path, SMALL), tape_in(tmp_path, SMALL)
    for number in range(20):
        told(one, 2 * number, 1)
        _until_written(one)
        told(other, 2 * number + 1, 1)
        _until_written(other)
    one.close()
    other.close()
    by_run: dict[str, list[int]] = {}
    for segment in read_segments(tmp_path):
        changes = [each for each in segment.entries() if isinstance(each, Changed)]
        numbers = [int(each.key.rpartition("-")[2]) for each in changes]
        by_run.setdefault(segment.header.run, []).extend(numbers)
        assert segment.notes == []
    assert sorted(by_run.values()) == [list(range(0, 40, 2)), list(range(1, 40, 2))]


def test_a_segment_that_somebody_deletes_is_not_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "RETRY_SECONDS", 0.0)
    tape = tape_in(tmp_path)
    told(tape, 0, 1)
    _until_written(tape)
    (path,) = segments_in(tmp_path).values()
    path.unlink()
    for number in range(1, 5):
        told(tape, number, 1)
        _until_written(tape)
    tape.close()
    (segment,) = read_segments(tmp_path)
    assert (segment.header.number, segment.header.follows) == (2, False)
    assert list(read(tmp_path))[-1] == "default/pod-4"


def test_a_directory_that_somebody_deletes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "RETRY_SECONDS", 0.0)
    directory = tmp_path / "recording"
    tape = tape_in(directory)
    _until_written(tape)
    shutil.rmtree(directory)
    for number in range(4):
        told(tape, number, 1)
        _until_written(tape)
    tape.close()
    assert list(read(directory))[-1] == "default/pod-3"


def test_old_segments_that_somebody_deletes_are_no_fault(tmp_path: Path) -> None:
    metrics = Metrics()
    tape = tape_in(tmp_path, Bounds(1 << 20, 500, 3600.0), metrics)
    for number in range(20):
        told(tape, number, 1)
        _until_written(tape)
        for path in list(segments_in(tmp_path).values())[:-1]:
            path.unlink()
    tape.close()
    assert list(read(tmp_path))[-1] == "default/pod-19"
    assert _dropped(metrics) == 0


def test_a_full_disk_leaves_no_part_of_a_block_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "RETRY_SECONDS", 0.0)
    tape = tape_in(tmp_path)
    told(tape, 0, 1)
    _until_written(tape)
    (path,) = segments_in(tmp_path).values()
    whole = path.stat().st_size

    def no_space(file: Path, block: bytes) -> None:
        with file.open("ab") as opened:
            opened.write(block[: len(block) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(segments, "append_to", no_space)
        for number in range(1, 6):
            told(tape, number, 1)
            _until_written(tape)
        assert [each.stat().st_size for each in segments_in(tmp_path).values()] == [whole]
    for number in range(6, 9):
        told(tape, number, 1)
        _until_written(tape)
    tape.close()
    first, *_, last = read_segments(tmp_path)
    assert list(first.entries())[-1].key == "default/pod-0"  # type: ignore[union-attr]  # a change
    assert first.notes == []
    assert not last.header.follows
    assert list(read(tmp_path))[-1] == "default/pod-8"


def test_a_segment_does_not_claim_to_follow_one_that_lost_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next segment is handed over before it is known that a batch before it fails."""
    monkeypatch.setattr(segments, "RETRY_SECONDS", 0.0)
    writer = SegmentWriter(tmp_path, ROOMY, Metrics())
    header = Header(FORMAT, "1", "3", "run", 0, False, 0.0, 0.0, False, [])
    start = SegmentStart(header, {}, {}, {}, frozenset(), {})
    following = start._replace(header=msgspec.structs.replace(header, follows=True))
    written = writer._append
    faults = iter([False, True, False, False])

    def append(file: Path, block: EntryBlock) -> None:
        if next(faults):
            raise OSError("the disk is full")
        written(file, block)

    monkeypatch.setattr(writer, "_append", append)
    writer.begin(start)
    writer.put(_of(b"\xc0"))
    writer.begin(following)
    writer.begin(following)
    writer.start()
    writer.close(10.0)
    assert [each.header.follows for each in read_segments(tmp_path)] == [False, False, True]


def test_what_waits_for_a_slow_disk_is_bounded_in_bytes(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, ROOMY, Metrics())  # its thread does not run
    piece = _of(bytes(segments.WAITING_BYTES // 4))
    assert [writer.put(piece) for _ in range(5)] == [True] * 4 + [False]


def _of(piece: bytes) -> EntryBlock:
    """A block of one entry."""
    block = EntryBlock()
    block.append(bytearray(piece), 1)
    return block


def test_blocks_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects may have a megabyte each; a reader takes no block that is too long."""
    sizes = []
    unpacked = reader._unpacked

    def noted(path: Path, frame: bytes) -> bytes:
        sizes.append(len(unpacked(path, frame)))
        return unpacked(path, frame)

    monkeypatch.setattr(reader, "_unpacked", noted)
    tape = tape_in(tmp_path, Bounds(1 << 26, 1, 0.0))
    for number in range(40):
        pod = make_pod(f"pod-{number}").label(long="x" * 200_000).struct()
        force_setattr(pod.metadata, "json_bytes", 200_500)  # as the decoder of the watch notes it
        tape.changed("Pod", None, pod)
    tape.flush()
    _until_written(tape)
    tape.flush()
    tape.close()
    assert len(read_segments(tmp_path)) > 1
    assert len(list(read(tmp_path))) == 40
    assert max(sizes) < segments.BLOCK_BYTES + 300_000


def _block(unpacked: bytes) -> bytes:
    frame: bytes = zstd().compress(unpacked)
    return len(frame).to_bytes(4, "little") + zlib.crc32(frame).to_bytes(4, "little") + frame


DEEP = b"\x91" * 100_000
HEADER = msgspec.msgpack.encode(
    [Header(FORMAT, "1", "3", "run", 0, False, 0.0, 0.0, False, []), Complete()]
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (_block(DEEP), "it does not begin with a header"),
        (_block(b"\xc0"), "it does not begin with a header"),
        (_block(bytes(1 << 28)), "a block has more than 32 MiB"),
        (_block(HEADER) + _block(b"\x91\x95\x0b\x01\xa1K\xa1k" + DEEP), "recursion"),
        (_block(HEADER) + _block(b"\x91\x92\x63\x00"), "Invalid value"),
    ],
    ids=["deep", "nothing", "bomb", "deep object", "unknown entry"],
)
def test_a_hostile_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / segments.segment_name(1)).write_bytes(content)
    with pytest.raises(UnreadableRecording, match=said):
        list(read(tmp_path))


def test_a_length_that_is_not_there_takes_no_memory(tmp_path: Path) -> None:
    whole = _block(HEADER) + b"\xff\xff\xff\xff" + bytes(4) + b"short"
    (tmp_path / segments.segment_name(1)).write_bytes(whole)
    (segment,) = read_segments(tmp_path)
    tracemalloc.start()
    assert list(segment.entries()) == [Complete()]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
    assert segment.notes == [f"{segment.path.name} ends within block 2: the rest is left out"]
