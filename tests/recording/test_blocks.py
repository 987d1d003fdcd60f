"""Entries that are encoded many at a time are those that were given, whatever their number."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from scheduler.observe.metrics import Metrics
from scheduler.recording.blocks import EntryBlock, EntryEncoder
from scheduler.recording.entries import AnyEntry, Forgotten
from scheduler.recording.segments import Bounds
from scheduler.recording.tape import LONG_BYTES, TOGETHER, Tape
from tests.builders import make_pod


def forgotten(count: int) -> list[Forgotten]:
    return [Forgotten(float(number), f"uid-{number}") for number in range(count)]


def decoded(block: EntryBlock) -> list[AnyEntry]:
    return msgspec.msgpack.decode(block.content(), type=list[AnyEntry])


@pytest.mark.parametrize(
    "counts",
    [(1,), (15,), (16,), (65_535,), (1, 15, 16, 17, 1, 300)],
    ids=["one", "a short array", "a longer one", "the longest", "several calls"],
)
def test_what_is_encoded_is_read_again_in_order(counts: tuple[int, ...]) -> None:
    encoder, block = EntryEncoder(), EntryBlock()
    given = []
    for count in counts:
        some = forgotten(count)
        assert encoder.encode(some, block) == 0
        given += some
    assert decoded(block) == given
    assert block.entries == len(given)


def test_only_what_cannot_be_encoded_is_left_out() -> None:
    encoder, block = EntryEncoder(), EntryBlock()
    some = forgotten(40)
    vast: Forgotten = Forgotten(1 << 80, "vast")
    assert encoder.encode([*some[:20], vast, *some[20:], vast], block) == 2
    assert encoder.encode(some[:3], block) == 0
    assert decoded(block) == [*some, *some[:3]]
    assert block.entries == 43


def test_a_tape_encodes_many_entries_in_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _calls(monkeypatch)
    tape = Tape(tmp_path, Bounds(1 << 24, 1 << 22, 0.0), [], Metrics())
    for number in range(5 * TOGETHER + 1):
        tape.forgotten(f"uid-{number}")
    assert calls == [TOGETHER] * 5
    tape.flush()
    assert calls == [TOGETHER] * 5 + [1]


def test_a_long_entry_waits_for_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is encoded at once holds the scheduling thread."""
    calls = _calls(monkeypatch)
    tape = Tape(tmp_path, Bounds(1 << 24, 1 << 22, 0.0), [], Metrics())
    pod = make_pod("pod").struct()
    for size in (LONG_BYTES, LONG_BYTES + 1):
        metadata = msgspec.structs.replace(pod.metadata, json_bytes=size)
        tape.changed("Pod", None, msgspec.structs.replace(pod, metadata=metadata))
    tape.answered("plugin", "/filter", "default/pod", bytes(LONG_BYTES + 1), "")
    assert calls == [2, 1]


def _calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each call encodes, from now on."""
    calls: list[int] = []
    encode = EntryEncoder.encode

    def counted(encoder: EntryEncoder, entries: list[Forgotten], block: EntryBlock) -> int:
        calls.append(len(entries))
        return encode(encoder, entries, block)

    monkeypatch.setattr(EntryEncoder, "encode", counted)
    return calls
