"""A churn on a real API server is recorded, and decided again elsewhere, bit by bit."""

import asyncio
import json
import os
import random
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.groups import define_podgroups, group, member, with_coscheduling
from e2e.harness.objects import Json, is_bound, is_rejected, pod, priority_class
from e2e.harness.workspace import Workspace
from tests.replaying import other_python


@pytest.fixture(autouse=True)
async def defined(api: ApiClient) -> None:
    await define_podgroups(api)


async def churn(space: Workspace) -> None:
    """Pods that come and go, gangs whole and too large, and victims of preemption."""
    dice = random.Random(7)
    important = f"{space.name}-vip"
    await space.apply(priority_class(important, 1000))
    await space.apply(group("red", 4), group("huge", 5))
    waves = [[pod(f"p-{wave}-{n}", cpu="300m") for n in range(12)] for wave in range(5)]
    for number, wave in enumerate(waves):
        await space.create_pods(wave)
        if number == 1:
            await space.create_pods([member(f"red-{n}", "red", "500m") for n in range(4)])
            await space.create_pods([member(f"huge-{n}", "huge", "5") for n in range(5)])
        if number == 3:
            vip = pod("vip", cpu="2")
            vip["spec"]["priorityClassName"] = important
            await space.create_pods([vip])
        names = [each["metadata"]["name"] for each in wave]
        for name in dice.sample(names, 5):
            await space.api.delete(f"{space.pods}/{name}", gracePeriodSeconds="0")
    await space.wait_for_pod("vip", is_bound)

    def is_settled(each: Json) -> bool:
        return is_bound(each) or is_rejected(each)

    await space.api.wait_until(space.pods, lambda seen: all(map(is_settled, seen["items"])))


async def replayed(python: str, recording: Path, *arguments: str) -> tuple[int, Json]:
    """The exit code of `equipoise replay` in a process of its own, and what it says."""
    command = [python, "-m", "scheduler", "replay", str(recording), "-o", "json", *arguments]
    environ = {**os.environ, "PYTHONHASHSEED": "99"}
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE)
    output, _ = await process.communicate()
    value: Json = json.loads(output)
    assert process.returncode is not None
    return process.returncode, value


def _pythons() -> list[str]:
    """This one, and one of another version if there is one."""
    try:
        return [sys.executable, other_python.find()]
    except other_python.NoOtherPython as none:
        print(f"replayed by this Python alone: {none}")
        return [sys.executable]


async def test_a_churn_is_decided_again_bit_by_bit(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(4, cpu="4")
    recording = tmp_path / "recording"
    scheduler = launch(*NO_ELECTION, with_coscheduling(tmp_path), f"--record={recording}")
    await churn(space)
    scheduler.process.stop()
    elsewhere = tmp_path / "elsewhere"
    await asyncio.to_thread(shutil.copytree, recording, elsewhere)
    for python in _pythons():
        code, value = await replayed(python, elsewhere)
        assert value["differences"] == []
        assert code == 0
        # Those that stay: a pod that is deleted at once may never be tried.
        assert value["decisions"] >= 5 * 7 + 4 + 1
        assert value["bound"] >= 30
        print(python, value["decisions"], "decisions are equal;", value["notCompared"])

    # A change of configuration that concerns the members of gangs, and no other pods.
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "equipoise"}],
    }
    without = tmp_path / "without.yaml"
    without.write_text(yaml.safe_dump(document))
    code, value = await replayed(sys.executable, elsewhere, f"--config={without}")
    assert code == 0
    differing = {(each["pod"].split("/")[1], each["what"]) for each in value["differences"]}
    # All but the last member waited for the others; which was last, the API server decided.
    assert len(differing) == 3
    assert differing < {(f"red-{number}", "permit") for number in range(4)}
    assert value["plays"]["a"]["pods"] == value["plays"]["b"]["pods"]
