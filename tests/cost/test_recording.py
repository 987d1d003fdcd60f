"""What a recording adds to a pod: few instructions on the scheduling thread, and few bytes.

Instructions of the interpreter are counted with and without a recording, since time is not the same
on any two machines; whoever adds some to every pod raises the bound here, and says what for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from scheduler.observe.metrics import Metrics
from scheduler.recording.blocks import EntryBlock
from scheduler.recording.reader import segments
from scheduler.recording.segments import Bounds, SegmentWriter
from scheduler.recording.tape import RENEWED_BYTES, Tape
from tests.builders import PodBuilder, make_pod, make_worker
from tests.cost.test_one_more_pod import Work
from tests.pipeline.support import Stage

PODS = 40


class _Sized:
    """A pod whose JSON had so many bytes."""

    def __init__(self, builder: PodBuilder, json_bytes: int) -> None:
        self._builder = builder
        self._json_bytes = json_bytes

    def obj(self) -> Any:
        return self._builder.obj()

    def struct(self) -> Any:
        pod = self._builder.struct()
        force_setattr(pod.metadata, "json_bytes", self._json_bytes)
        return pod


async def life(stage: Stage, name: str, json_bytes: int) -> None:
    """A pod is created, placed and bound, runs, and is deleted."""

    def pod(version: int) -> PodBuilder:
        return make_pod(name).cpu("100m").memory("64Mi").label(app="web").version(version)

    stage.see(_Sized(pod(1), json_bytes))
    assert stage.attempt() is not None
    await stage.idle()
    node = stage.outlet.bound[-1][1]
    stage.see(_Sized(pod(2).on(node), json_bytes))
    stage.see(_Sized(pod(3).on(node).phase("Running"), json_bytes))
    stage.lose(_Sized(pod(3).on(node), json_bytes))


async def instructions(tape: Tape | None, json_bytes: int) -> float:
    """For one pod, while others of its template come and go."""
    stage = Stage()
    stage.core.state.journal = tape
    stage.see(*(make_worker(f"node-{number}") for number in range(30)))
    await life(stage, "first", json_bytes)
    with Work() as work:
        for number in range(PODS):
            await life(stage, f"pod-{number}", json_bytes)
        if tape is not None:
            tape.flush()
    assert len(stage.outlet.bound) == PODS + 1
    return work.instructions / PODS


@pytest.mark.parametrize(
    ("json_bytes", "most_added", "most_bytes"),
    [(RENEWED_BYTES, 690, 780), (RENEWED_BYTES + 1, 850, 390)],
    ids=["all versions in full", "only what is new"],
)
async def test_a_recording_adds_few_instructions_and_bytes_to_a_pod(
    tmp_path: Path,
    json_bytes: int,
    most_added: int,
    most_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From its creation to its deletion; bytes before compression."""
    sizes = handed(monkeypatch)
    tape = Tape(tmp_path, Bounds(1 << 26, 1 << 24, 0.0), [], Metrics())
    tape.start()
    with_tape = await instructions(tape, json_bytes)
    without = await instructions(None, json_bytes)
    assert with_tape > without
    if sys.version_info[:2] == (3, 11):  # each version of Python has instructions of its own
        assert with_tape - without <= most_added
    tape.close()
    (segment,) = segments(tmp_path)
    assert len(list(segment.entries())) > 6 * PODS
    assert sum(sizes) / PODS <= most_bytes


def handed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes the thread that writes is handed, from now on."""
    sizes: list[int] = []
    put = SegmentWriter.put

    def noted(writer: SegmentWriter, block: EntryBlock) -> bool:
        sizes.append(block.size)
        return put(writer, block)

    monkeypatch.setattr(SegmentWriter, "put", noted)
    return sizes
