"""Webhooks as processes of their own: the example, and one that is killed while it owes answers."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.manifests import read_manifest
from e2e.harness.objects import Json, condition, is_bound, node_of, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.processes import (
    REQUEST_SECONDS,
    Process,
    answers_ok,
    start_on_free_ports,
)
from e2e.harness.workspace import Workspace

EXAMPLE = Path(__file__).parents[1] / "deploy" / "examples" / "webhook"
HOLDING = Path(__file__).parent / "harness" / "holding_webhook.py"


class Webhooks:
    """Starts webhooks as processes; all are stopped at the end."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.received = directory / "received"

    def example(self) -> int:
        """Start the example; returns its port."""
        return start_on_free_ports(1, self._example)

    def _example(self, port: int) -> int:
        self._start(port, EXAMPLE / "server.py", str(port))
        return port

    def holding(self, hold: float, port: int | None = None) -> tuple[Process, int]:
        """Start one that holds its answers back for so many seconds."""
        if port is not None:
            return self._holding(hold, port)
        return start_on_free_ports(1, lambda free: self._holding(hold, free))

    def _holding(self, hold: float, port: int) -> tuple[Process, int]:
        return self._start(port, HOLDING, str(port), str(self.received), str(hold)), port

    def _start(self, port: int, program: Path, *arguments: str) -> Process:
        log = self._directory / f"{program.stem}.log"
        process = Process([sys.executable, program, *arguments], log)
        self._stack.callback(process.stop)
        url = f"http://127.0.0.1:{port}/"
        process.wait_ready(lambda: answers_ok(url) or _refuses(url))
        return process

    async def until_received(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(PATIENCE):
            while len(self.received.read_text().splitlines()) < count:  # noqa: ASYNC110  a file has no event
                await asyncio.sleep(0.05)


def _refuses(url: str) -> bool:
    """Whether a server answers a GET, even if with an error."""
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(url, timeout=REQUEST_SECONDS)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[Webhooks]:
    with ExitStack() as stack:
        yield Webhooks(tmp_path, stack)


def configuration(directory: Path, webhook: Json, **own: Any) -> Path:
    """A file with both documents, whose profile enables the webhook."""
    enabled = {"multiPoint": {"enabled": [{"name": webhook["name"], "weight": 2}]}}
    kube = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "equipoise", "plugins": enabled}],
    }
    ours = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "webhooks": [webhook],
        **own,
    }
    path = directory / "scheduler.yaml"
    path.write_text(yaml.safe_dump_all([kube, ours]))
    return path


async def test_the_example_keeps_teams_to_their_nodes(
    space: Workspace, launch: Launch, webhooks: Webhooks, tmp_path: Path
) -> None:
    values = yaml.safe_load((EXAMPLE / "values.yaml").read_text())
    (webhook,) = values["equipoiseConfig"]["webhooks"]
    webhook["url"] = f"http://127.0.0.1:{webhooks.example()}"
    first, second, third = await space.add_nodes(3)
    for name, labels in (
        (first, {"team": "red"}),
        (second, {"team": "blue"}),
        (third, {"team": "blue", "disk": "ssd"}),
    ):
        await space.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    launch("--config", str(configuration(tmp_path, webhook)), *NO_ELECTION)
    await space.apply(*await read_manifest(EXAMPLE / "webhook.yaml"))
    # Its own pods are left to the default scheduler, which is not there.
    own = await space.wait_for_pods(2, lambda each: not is_bound(each))
    assert {each["spec"]["schedulerName"] for each in own} == {"default-scheduler"}

    teams = {f"{team}-{i}": {"team": team} for team in ("red", "blue", "green") for i in range(5)}
    await space.create_pods([pod(name, cpu="10m", labels=team) for name, team in teams.items()])

    for name in teams:
        if name.startswith("green"):
            rejected = await space.wait_for_pod(name, lambda p: condition(p, "PodScheduled"))
            said = condition(rejected, "PodScheduled")["message"]
            assert "3 node(s) belonged to another team" in said
        else:
            placed = await space.wait_for_pod(name)
            assert node_of(placed) == (first if name.startswith("red") else third)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("point", ["filter", "preBind"])
async def test_killed_while_it_owes_answers(
    point: str, policy: str, space: Workspace, launch: Launch, webhooks: Webhooks, tmp_path: Path
) -> None:
    await space.add_nodes(4)
    killed, port = webhooks.holding(hold=600)
    webhook = {
        "name": "Killed",
        "url": f"http://127.0.0.1:{port}",
        "points": [point],
        "timeout": "300s",
        "failurePolicy": policy,
        "pods": {"matchLabels": {"ask": "yes"}},
    }
    launch("--config", str(configuration(tmp_path, webhook)), *NO_ELECTION)
    asking = [pod(f"asking-{i}", cpu="10m", labels={"ask": "yes"}) for i in range(10)]
    await space.create_pods(asking)
    await webhooks.until_received(10)

    await space.create_pods([pod(f"other-{i}", cpu="10m") for i in range(30)])
    for i in range(30):
        await space.wait_for_pod(f"other-{i}")
    pods = (await space.api.get(space.pods))["items"]
    assert not [p for p in pods if p["metadata"]["name"].startswith("asking") and is_bound(p)]

    killed.kill()

    if policy == "Fail":
        failed = await space.wait_for_pod("asking-0", lambda p: condition(p, "PodScheduled"))
        said = condition(failed, "PodScheduled")
        assert said["reason"] == "SchedulerError"
        assert "webhook Killed: " in said["message"]
        assert not is_bound(failed)
        webhooks.holding(hold=0, port=port)
    placed = await space.wait_for_pods(40)
    await assert_bound_once(space, placed)


async def assert_bound_once(space: Workspace, pods: list[Json]) -> None:
    """Every pod has one Scheduled event, which names its node."""
    node = {each["metadata"]["uid"]: node_of(each) for each in pods}

    def all_told(events: Json) -> bool:
        return {event["regarding"]["uid"] for event in events["items"]} >= set(node)

    answer = await space.api.wait_until(space.events, all_told, fieldSelector="reason=Scheduled")
    told = Counter(event["regarding"]["uid"] for event in answer["items"])
    assert max(told.values()) == 1
    for event in answer["items"]:
        assert event["note"].endswith(f" to {node[event['regarding']['uid']]}")
