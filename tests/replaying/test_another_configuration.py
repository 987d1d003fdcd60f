"""Another configuration: exactly the decisions it changes, and what becomes of the pods."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.replaying.simulating import RecordingOutcome, simulate
from tests.builders import Json, make_pod, make_worker
from tests.patience import PATIENCE
from tests.replaying.support import RecordedStage, configured

KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
WITHOUT_TAINTS: Json = {
    **KUBE,
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}],
}
FULLEST_FIRST: Json = {
    **KUBE,
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ]
        }
    ],
}


async def recorded(directory: Path, pods: int = 12) -> RecordedStage:
    """Pods for two nodes; some select the one with a taint, which keeps them away."""
    stage = RecordedStage(directory, (KUBE,))
    stage.see(make_worker("n1").cpu("16").label(rack="a"))
    stage.see(make_worker("n2").cpu("16").label(rack="b").taint("dedicated"))
    for number in range(pods):
        pod = make_pod(f"p{number}").cpu("500m").version(number + 1)
        pod = pod.node_selector(rack="b" if number % 3 == 0 else "a")
        stage.pods[f"p{number}"] = pod
        stage.see(pod)
        await stage.settle()
        stage.clock.advance(0.1)
    stage.tape.close()
    return stage


def placements(outcome: RecordingOutcome) -> dict[str, str]:
    return {fate.pod.split("/")[1]: fate.node for fate in outcome.fates.values()}


async def test_exactly_the_decisions_differ_that_the_change_concerns(tmp_path: Path) -> None:
    stage = await recorded(tmp_path)
    replayed = await asyncio.to_thread(stage.replayed, configured(WITHOUT_TAINTS))
    comparison = replayed.comparison
    differing = {each.pod for each in comparison.differences if each.what == "node"}
    assert differing == {f"default/p{number}" for number in range(0, 12, 3)}
    first = next(each for each in comparison.differences if each.what == "node")
    assert first.recorded == "no node of 2 (NodeAffinity, TaintToleration)"
    assert first.replayed.startswith("n2, score ")
    others = comparison.decisions - len([d for d in comparison.differences if d.what == "node"])
    assert others >= 8


async def test_pods_are_placed_that_were_not(tmp_path: Path) -> None:
    await recorded(tmp_path)
    before = await asyncio.to_thread(simulate, tmp_path, configured(KUBE))
    after = await asyncio.to_thread(simulate, tmp_path, configured(WITHOUT_TAINTS))
    tainted = {f"p{number}" for number in range(0, 12, 3)}
    assert {name for name, node in placements(before).items() if not node} == tainted
    assert {name for name, node in placements(after).items() if node == "n2"} == tainted
    assert before.placed == 8
    assert after.placed == 12
    waiting = [fate for fate in before.fates.values() if not fate.node]
    assert all("untolerated taint" in fate.message for fate in waiting)
    assert all(fate.waited is not None for fate in after.fates.values())


async def test_a_play_with_the_recorded_configuration_is_the_recording(tmp_path: Path) -> None:
    stage = RecordedStage(tmp_path, (KUBE,))
    for name in ("a", "b", "c"):
        stage.see(make_worker(name).cpu("4"))
    bound: dict[str, str] = {}
    for number in range(15):
        stage.pods[f"p{number}"] = make_pod(f"p{number}").cpu("700m").version(number + 1)
        stage.see(stage.pods[f"p{number}"])
        stage.attempt()
        await stage.idle()
        bound |= {key.split("/")[1]: node for key, node in stage.outlet.bound}
        await stage.settle()
        if number == 9:
            stage.lose(stage.pods.pop("p2"))
        stage.clock.advance(0.1)
    stage.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, configured(KUBE))
    assert placements(outcome) == bound
    used = {name: round(use.cpu, 3) for name, use in outcome.nodes.items()}
    assert used == {name: round(stage.cpu(name) / 4000, 3) for name in ("a", "b", "c")}


async def test_decisions_feed_back(tmp_path: Path) -> None:
    """A pod that goes elsewhere takes the room there, and another pod finds it taken."""
    stage = RecordedStage(tmp_path, (KUBE,))
    stage.see(make_worker("a").cpu("4"), make_worker("b").cpu("4"))
    for name, cpu in (("p0", "1"), ("p1", "1"), ("large", "3500m")):
        stage.pods[name] = make_pod(name).cpu(cpu).version(1)
        stage.see(stage.pods[name])
        await stage.settle()
        stage.clock.advance(1.0)
    stage.tape.close()
    spread = await asyncio.to_thread(simulate, tmp_path, configured(KUBE))
    packed = await asyncio.to_thread(simulate, tmp_path, configured(FULLEST_FIRST))
    assert placements(spread)["large"] == ""
    assert placements(packed)["p0"] == placements(packed)["p1"] != placements(packed)["large"]
    assert placements(packed)["large"] != ""


async def test_pods_stay_where_a_play_has_placed_them_when_the_recorded_scheduler_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nothing was recorded: a pod has ended, and a node and a pod have come."""
    monkeypatch.setattr("scheduler.machine.wall", lambda: 1000.0)
    first = RecordedStage(tmp_path, (KUBE,))
    first.see(make_worker("n1").cpu("4"))
    for name in ("p0", "p1"):
        first.pods[name] = make_pod(name).cpu("1").version(1)
        first.see(first.pods[name])
        await first.settle()
    first.tape.close()
    monkeypatch.setattr("scheduler.machine.wall", lambda: 1010.0)
    second = RecordedStage(tmp_path, (KUBE,), begin=False)
    second.clock.now = 3.5
    second.see(make_worker("n1").cpu("4"), make_worker("n2").cpu("16"))
    second.see(first.pods["p0"].on("n1"))
    second.core.scheduler.begin()
    second.pods["p2"] = make_pod("p2").cpu("1").version(2)
    second.see(second.pods["p2"])
    await second.settle()
    second.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, configured(KUBE))
    assert placements(outcome) == {"p0": "n1", "p1": "n1", "p2": "n2"}
    assert {name: use.cpu for name, use in outcome.nodes.items()} == {"n1": 0.25, "n2": 0.0625}
    assert outcome.attempts == 3
    assert [fate.seen for fate in outcome.fates.values()] == [100.5, 100.5, 110.5]
    before = await asyncio.to_thread(simulate, tmp_path, configured(KUBE), 1005.0)
    assert placements(before) == {"p0": "n1", "p1": "n1"}


async def test_what_has_gone_while_steps_were_dropped_is_gone_in_a_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = RecordedStage(tmp_path, (KUBE,))
    stage.see(make_worker("n1").cpu("4"), make_worker("n2").cpu("4").label(rack="b"))
    stage.tape.flush()
    stage.tape._writer.drained.wait(PATIENCE)
    monkeypatch.setattr("scheduler.recording.segments.WAITING_BATCHES", 0)
    stage.lose(make_worker("n2"))
    stage.tape.flush()
    monkeypatch.undo()
    stage.tape.flush()
    stage.pods["p"] = make_pod("p").cpu("1").version(1).node_selector(rack="b")
    stage.see(stage.pods["p"])
    await stage.settle()
    stage.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, configured(KUBE))
    assert list(outcome.nodes) == ["n1"]
    assert placements(outcome) == {"p": ""}
