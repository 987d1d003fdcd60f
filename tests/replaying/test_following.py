"""A recording decides the same again, whatever happened; and says where it does not."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import slices
from scheduler.model.objects import Change
from scheduler.model.status import SUCCESS, Status, error
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.recording.entries import Changed
from scheduler.recording.reader import UnreadableRecording, segments
from scheduler.recording.segments import Bounds
from scheduler.replaying.driving import Window
from scheduler.replaying.simulating import simulate
from tests.builders import NodeBuilder, PodBuilder, constraint, make_pod, make_worker, pod_term
from tests.gangs.support import configured as with_gangs
from tests.gangs.support import make_group, member
from tests.patience import PATIENCE
from tests.replaying import other_python
from tests.replaying.support import RecordedStage, assert_equal

ZONE = "topology.kubernetes.io/zone"
CPUS = ("500m", "1", "2", "3")
STEPS = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 6), st.integers(0, 3)), min_size=5, max_size=40
)


class Churn:
    """What may happen to a cluster, by number."""

    def __init__(self, stage: RecordedStage) -> None:
        self.stage = stage
        self.nodes: dict[str, NodeBuilder] = {}
        self._number = 0

    async def happen(self, what: int, which: int, size: int) -> None:
        self._number += 1
        match what:
            case 0 | 1:
                self._add_node(which, size)
            case 2:
                self._lose_node(which)
            case 3 | 4 | 5:
                self._add_pod(which, size)
            case 6:
                self._add_gang(which, size)
            case 7:
                self._lose_pod(which)
            case 8:
                self._bind_by_others(which)
            case 9:
                self.stage.outlet.refused ^= {f"p{which}"}
            case 10:
                await self.stage.later(float(2 * size + 1))
            case _:
                await self.stage.settle()

    def _add_node(self, which: int, size: int) -> None:
        name = f"n{which}"
        node = make_worker(name).label(**{ZONE: f"z{which % 2}"}).version(self._number)
        self.nodes[name] = node.cpu(str(2 + size))
        self.stage.see(self.nodes[name])

    def _lose_node(self, which: int) -> None:
        if (node := self.nodes.pop(f"n{which}", None)) is not None:
            self.stage.lose(node)

    def _add_pod(self, which: int, size: int) -> None:
        pod = make_pod(f"p{self._number}").cpu(CPUS[size]).priority(10 * (which // 3))
        pod = pod.version(self._number).label(app=f"a{which % 2}")
        if which == 1:
            pod = pod.spread(constraint(ZONE, labelSelector={"matchLabels": {"app": "a1"}}))
        elif which == 2:
            pod = pod.apart(pod_term("kubernetes.io/hostname", {"app": "a0"}))
        self._see(pod)

    def _add_gang(self, which: int, size: int) -> None:
        group = f"g{self._number}"
        self.stage.see(make_group(group, size + 1))
        for index in range(size + 1):
            name = f"{group}-{index}"
            self._see(member(name, group, CPUS[which % 4]).version(self._number))

    def _see(self, pod: PodBuilder) -> None:
        self.stage.pods[pod.obj()["metadata"]["name"]] = pod
        self.stage.see(pod)

    def _lose_pod(self, which: int) -> None:
        names = sorted(self.stage.pods)
        if names:
            self.stage.lose(self.stage.pods.pop(names[which % len(names)]))

    def _bind_by_others(self, which: int) -> None:
        waiting = [n for n, p in self.stage.pods.items() if "nodeName" not in p.obj()["spec"]]
        if waiting and self.nodes:
            name = sorted(waiting)[which % len(waiting)]
            self.stage.see(self.stage.pods[name].on(sorted(self.nodes)[0]))


async def played(stage: RecordedStage, steps: list[tuple[int, int, int]]) -> None:
    churn = Churn(stage)
    for step in steps:
        await churn.happen(*step)
        stage.clock.advance(0.01)
    await stage.settle()
    stage.core.cancel()
    await stage.core.stop()


@given(STEPS)
@settings(deadline=None)
def test_any_churn_is_decided_again_bit_by_bit(steps: list[tuple[int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:

        async def run() -> RecordedStage:
            stage = RecordedStage(Path(directory), (with_gangs(),))
            await played(stage, steps)
            return stage

        assert_equal(asyncio.run(run()).replayed(), decisions=0)


BUSY = [(0, n, n % 4) for n in range(6)] + [
    step for n in range(40) for step in ((3 + n % 4, n % 7, n % 4), (11, 0, 0), (7 + n % 4, n, 1))
]
"""Something of everything, some of it at every time."""


async def test_a_recording_that_has_lost_its_beginning_is_decided_again(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path, (with_gangs(),), bounds=Bounds(60_000, 4_000, 0.0))
    churn = Churn(stage)
    for step in BUSY * 4:
        await churn.happen(*step)
        stage.tape.flush()
        stage.tape._writer.drained.wait(PATIENCE)
    stage.core.cancel()
    await stage.core.stop()
    replayed = await asyncio.to_thread(stage.replayed)
    assert segments(tmp_path)[0].header.number > 1
    assert replayed.restored == 1
    assert_equal(replayed, decisions=10)


@pytest.mark.parametrize("fault", ["cut short", "damaged", "deleted"])
async def test_after_a_segment_that_has_lost_its_end_the_next_is_begun_with_what_it_says(
    tmp_path: Path, fault: str
) -> None:
    stage = RecordedStage(tmp_path, (with_gangs(),), bounds=Bounds(1 << 26, 4_000, 0.0))
    churn = Churn(stage)
    for step in BUSY * 4:
        await churn.happen(*step)
        stage.tape.flush()
        stage.tape._writer.drained.wait(PATIENCE)
    stage.core.cancel()
    await stage.core.stop()
    stage.tape.close()
    whole = await asyncio.to_thread(stage.replayed)
    path = segments(tmp_path)[2].path
    content = bytearray(path.read_bytes())
    match fault:
        case "deleted":
            path.unlink()
        case "damaged":
            content[len(content) * 3 // 4] ^= 0xFF
            path.write_bytes(content)
        case _:
            path.write_bytes(content[: len(content) * 3 // 4])
    replayed = await asyncio.to_thread(stage.replayed)
    assert_equal(replayed, decisions=10)
    assert whole.comparison.decisions > replayed.comparison.decisions
    assert replayed.notes[-1] == "segment-00000004.eqr: steps before it are missing"
    assert replayed.restored == 1
    played = await asyncio.to_thread(simulate, tmp_path, stage.core.config)
    assert played.nodes.keys() == churn.nodes.keys()


async def test_another_process_with_another_hash_seed_decides_the_same(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path, (with_gangs(),))
    await played(stage, BUSY)
    stage.tape.close()
    outputs = [await _replayed_by(sys.executable, tmp_path, seed) for seed in ("1", "2")]
    assert outputs[0] == outputs[1]
    assert outputs[0]["different"] == 0
    assert outputs[0]["decisions"] > 20


async def test_another_version_of_python_decides_the_same(tmp_path: Path) -> None:
    try:
        other = other_python.find()
    except other_python.NoOtherPython as none:
        pytest.skip(f"no other Python: {none}")
    stage = RecordedStage(tmp_path, (with_gangs(),))
    await played(stage, BUSY)
    stage.tape.close()
    outputs = [await _replayed_by(python, tmp_path) for python in (sys.executable, other)]
    assert outputs[0] == outputs[1]
    assert outputs[1]["different"] == 0
    assert outputs[1]["decisions"] > 20


async def _replayed_by(python: str, recording: Path, seed: str = "3") -> Any:
    """What `equipoise replay` says in a process of its own."""
    command = [python, "-m", "scheduler", "replay", str(recording), "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return msgspec.json.decode(output)


async def test_preemption_is_decided_again_with_its_victims(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path)
    stage.see(make_worker("n").cpu("4"), make_worker("m").cpu("2"))
    for name in ("a", "b", "c"):
        stage.pods[name] = make_pod(name).cpu("2").version(1)
        stage.see(stage.pods[name])
    await stage.settle()
    stage.pods["vip"] = make_pod("vip").cpu("4").priority(9).version(2)
    stage.see(stage.pods["vip"])
    await stage.core.scheduler.in_turn(stage.attempt)
    await stage.core.background.idle()
    assert stage.core.state.nominations.node_of("uid-vip") == "n"
    assert len(stage.outlet.evicted) == 2
    await stage.settle()
    await stage.later(30.0)
    await stage.settle()
    replayed = await asyncio.to_thread(stage.replayed)
    assert_equal(replayed, decisions=5)
    assert replayed.comparison.bound == 4


class Fickle:
    """Decides by what it is not given: the number of calls before."""

    name = "Fickle"
    calls = 0

    def __init__(self, args: Any, handle: Any) -> None: ...

    def reserve(self, cycle: Cycle, node: str) -> Status:
        type(self).calls += 1
        return SUCCESS if self.calls % 3 else error("not the third one")

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


async def test_a_plugin_that_does_not_decide_by_the_state_is_found(tmp_path: Path) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Fickle"}]}}}],
    }
    stage = RecordedStage(tmp_path, (document,), {**IN_TREE, "Fickle": Fickle})
    stage.see(make_worker("n"))
    for number in range(4):
        stage.see(make_pod(f"p{number}").cpu("100m").version(1))
    await stage.settle()
    Fickle.calls = 1
    comparison = (await asyncio.to_thread(stage.replayed)).comparison
    first = comparison.differences[0]
    assert (first.what, first.recorded) == ("reserve", "Success")
    assert first.replayed == 'Error: running Reserve plugin "Fickle": not the third one'
    assert first.pod.startswith("default/p")


async def test_only_decisions_within_the_window_are_compared(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path)
    stage.see(make_worker("n"))
    for number in range(6):
        stage.see(make_pod(f"p{number}").version(1))
        await stage.settle()
        stage.clock.advance(10.0)
    stage.tape.close()
    header = segments(tmp_path)[0].header
    begin = header.wall - header.time + 100.5
    whole = await asyncio.to_thread(stage.replayed)
    middle = await asyncio.to_thread(stage.replayed, None, Window(begin + 15, begin + 35))
    assert whole.comparison.decisions == 6
    assert middle.comparison.decisions == 2
    assert_equal(middle)


async def test_steps_after_those_that_are_missing_are_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = RecordedStage(tmp_path)
    stage.see(make_worker("n").cpu("64"))
    stage.see(make_pod("before").version(1))
    await stage.settle()
    stage.tape.flush()
    stage.tape._writer.drained.wait(PATIENCE)
    monkeypatch.setattr("scheduler.recording.segments.WAITING_BATCHES", 0)
    stage.see(make_pod("missing").version(1))
    await stage.settle()
    stage.tape.flush()
    monkeypatch.undo()
    stage.tape.flush()
    stage.see(make_pod("after").version(1))
    await stage.settle()
    replayed = await asyncio.to_thread(stage.replayed)
    assert_equal(replayed)
    assert replayed.comparison.decisions == 2
    assert replayed.notes == ["segment-00000002.eqr: steps before it are missing"]


def test_a_kind_that_is_not_known_here_is_left_out(tmp_path: Path) -> None:
    async def run() -> RecordedStage:
        stage = RecordedStage(tmp_path)
        stage.see(make_worker("n"))
        stage.tape.changed("Unicorn", None, make_worker("u").struct())
        stage.see(make_pod("p").version(1))
        await stage.settle()
        return stage

    replayed = asyncio.run(run()).replayed()
    assert_equal(replayed)
    assert replayed.notes == ["kind Unicorn is not known here"]


async def test_a_pod_that_changed_while_it_was_tried_is_decided_by_the_version_of_then(
    tmp_path: Path,
) -> None:
    stage = RecordedStage(tmp_path)
    stage.see(make_worker("n").cpu("2"))
    old, new = make_pod("p").cpu("1").version(1), make_pod("p").cpu("1").version(2).label(a="b")
    stage.see(old)
    queued = stage.core.queue.pop()
    assert queued is not None
    stage.core.event_handlers.handler("Pod")([Change(old.struct(), new.struct())])
    stage.core.scheduler.schedule_popped(queued)
    await stage.settle()
    assert_equal(await asyncio.to_thread(stage.replayed))


async def test_an_object_that_is_none_is_said_by_its_name(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path)
    stage.tape._say(Changed(1.0, "Node", "n", {"metadata": "nothing"}))
    stage.tape.close()
    for replay in (stage.replayed, partial(simulate, tmp_path, stage.core.config)):
        with pytest.raises(UnreadableRecording, match=r"Node n: Expected `object`, got `str`"):
            await asyncio.to_thread(replay)


async def test_a_verdict_that_was_not_kept_for_a_class_is_not_kept_in_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node comes while victims are looked for: what was found before counts for no other pod."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    stage = RecordedStage(tmp_path)
    stage.see(make_worker("n").cpu("4"))
    stage.see(make_pod("a").version(1).on("n").cpu(2))
    stage.see(make_pod("b").version(1).on("n").cpu(2).priority(1000))
    first, second = (
        make_pod(name).version(1).priority(100).cpu(3).apart(pod_term("zone", {"app": "none"}))
        for name in ("v", "w")
    )
    stage.see(first)
    task = asyncio.create_task(stage.core.scheduler.in_turn(stage.attempt))
    await asyncio.sleep(0)
    assert not task.done()
    stage.see(make_worker("m").cpu("4"))
    await task
    stage.see(second)
    await stage.run()
    assert ("default/w", "m") in stage.outlet.bound
    replayed = await asyncio.to_thread(stage.replayed)
    assert replayed.comparison.differences == []
    assert replayed.comparison.decisions == len(stage.outlet.bound) + 1
