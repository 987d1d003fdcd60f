"""`equipoise replay` on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.recording.segments import segments_in
from tests.builders import make_worker
from tests.replaying.support import RecordedStage
from tests.replaying.test_another_configuration import KUBE, WITHOUT_TAINTS, recorded


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recording")
    asyncio.run(recorded(directory))
    return directory


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, args)])


def test_equal_decisions_are_counted(recording: Path) -> None:
    result = run(recording)
    assert result.exit_code == 0, result.output
    assert "12 decisions, all equal" in result.output
    assert "1 segment, " in result.output


def test_programs_get_figures(recording: Path) -> None:
    value = json.loads(run(recording, "-o", "json").output)
    assert (value["decisions"], value["different"], value["placed"]) == (12, 0, 8)
    assert yaml.safe_load(run(recording, "-o", "yaml").output) == value


def test_another_configuration_is_shown_side_by_side(recording: Path, tmp_path: Path) -> None:
    config = tmp_path / "new.yaml"
    config.write_text(yaml.safe_dump(WITHOUT_TAINTS))
    result = run(recording, "--config", config)
    assert result.exit_code == 0, result.output
    assert "Each decision at its moment" in result.output
    assert "12 decisions, 4 differences" in result.output
    assert "What becomes of the pods" in result.output
    assert "default/p9" in result.output
    value = json.loads(run(recording, "--config", config, "-o", "json").output)
    assert (value["plays"]["a"]["placed"], value["plays"]["b"]["placed"]) == (8, 12)
    moved = {each["pod"]: (each["a"], each["b"]) for each in value["moved"]}
    assert moved == {f"default/p{number}": (None, "n2") for number in (0, 3, 6, 9)}


def test_kinds_that_were_not_recorded_are_named(recording: Path, tmp_path: Path) -> None:
    """Else a play with gangs has pods wait for PodGroups, and nothing says why."""
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}
    config = tmp_path / "gangs.yaml"
    config.write_text(yaml.safe_dump({**KUBE, "profiles": [profile]}))
    text = "the recorded scheduler did not watch objects of kind PodGroup: the recording has none"
    assert f"note: {text}" in run(recording, "--config", config).output
    assert json.loads(run(recording, "--config", config, "-o", "json").output)["notes"] == [text]
    config.write_text(yaml.safe_dump(WITHOUT_TAINTS))
    assert "note: " not in run(recording, "--config", config).output


def test_figures_of_pending_pods_come_before_long_messages(recording: Path, tmp_path: Path) -> None:
    config = tmp_path / "new.yaml"
    config.write_text(yaml.safe_dump(WITHOUT_TAINTS))
    lines = run(recording, "--config", config).output.splitlines()
    (title,) = (number for number, line in enumerate(lines) if line.endswith("PENDING"))
    assert lines[title + 1].split()[:3] == ["4", "0", "0/2"]


def test_a_time_without_decisions_is_said(recording: Path) -> None:
    result = run(recording, "--from", "2100-01-01T00:00:00Z")
    assert result.exit_code == 0
    assert "there is no decision to compare" in result.output
    assert "equal" not in result.output


def test_a_difference_is_an_error_and_the_first_one_is_told(tmp_path: Path) -> None:
    async def record() -> None:
        stage = await recorded(tmp_path, 3)
        assert stage.core.state.node_count == 2

    asyncio.run(record())
    _tamper(tmp_path)
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "The first difference" in result.output
    assert "default/p1" in result.output


def _tamper(directory: Path) -> None:
    """Write the recording anew, as if its scheduler had chosen another node for one pod."""
    import zlib

    import msgspec

    from scheduler.recording.compression import zstd
    from scheduler.recording.entries import AnyEntry, NodeSearched
    from scheduler.recording.reader import segments

    (segment,) = segments(directory)
    changed: list[AnyEntry] = [segment.header]
    for entry in segment.entries():
        if isinstance(entry, NodeSearched) and entry.key == "default/p1":
            changed.append(msgspec.structs.replace(entry, node="n2"))
        else:
            changed.append(entry)
    frame = zstd().compress(msgspec.msgpack.encode(changed))
    head = len(frame).to_bytes(4, "little") + zlib.crc32(frame).to_bytes(4, "little")
    segment.path.write_bytes(head + frame)


def test_a_torn_end_is_said(tmp_path: Path) -> None:
    asyncio.run(_two_nodes(tmp_path))
    (path,) = segments_in(tmp_path).values()
    path.write_bytes(path.read_bytes() + b"\x10\x00\x00")
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "ends within block" in result.output


def test_a_segment_of_which_nothing_can_be_read_is_said(tmp_path: Path) -> None:
    asyncio.run(_two_nodes(tmp_path))
    (tmp_path / "segment-00000002.eqr").write_bytes(b"nonsense that is no block at all")
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "note: segment-00000002.eqr ends within block 1: the rest is left out" in result.output


async def _two_nodes(directory: Path) -> None:
    stage = RecordedStage(directory)
    stage.see(make_worker("a"))
    stage.tape.flush()
    stage.see(make_worker("b"))
    stage.tape.close()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "there are no segments"),
        (("--from", "yesterday"), "is no time"),
        (("--from", "2026-01-02T00:00", "--to", "2026-01-01T00:00"), "--from is not before --to"),
        (("--config", "missing.yaml"), "missing.yaml: No such file"),
    ],
)
def test_wrong_usage_is_said(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    result = run(tmp_path, *args)
    assert result.exit_code == 2
    assert words in result.output
