"""Files that the daemon writes: who else on the machine may read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.recording.segments import segments_in
from tests.recording.test_segments import tape_in, told

OTHERS = 0o007


@pytest.fixture
def careless() -> Iterator[None]:
    """A process whose files everybody may read and write, unless told otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
def test_recordings_are_not_readable_by_others(tmp_path: Path) -> None:
    directory = tmp_path / "recording"
    tape = tape_in(directory)
    told(tape, 0, 1)
    tape.close()
    files = list(segments_in(directory).values())
    assert files
    assert [path for path in (directory, *files) if path.stat().st_mode & OTHERS] == []
