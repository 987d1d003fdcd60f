"""A daemon that records: its churn is decided again in another process, bit by bit."""

from __future__ import annotations

import asyncio
import copy
import os
import sys
from asyncio.subprocess import PIPE
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sandbox.numa.tasks import CRD
from scheduler.config import validation
from scheduler.config.loading import Configuration
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.recording.segments import segments_in
from scheduler.replaying.driving import follow
from tests.builders import Json, PodBuilder, constraint, make_pod, make_worker
from tests.daemon.support import Cluster, configuration, eventually, expect_bound, running_daemon
from tests.gangs.support import make_group
from tests.numa.support import TopologyBuilder
from tests.operators.support import Groups
from tests.recording.test_segments import written
from tests.webhooks.support import NAME, WebhookServer, webhook

ZONE = "topology.kubernetes.io/zone"
RULES = {"matchLabels": {"app": "web"}}


def recording(directory: Path, server: WebhookServer | None = None, **own: Any) -> Configuration:
    """Gangs, NUMA cells and, if there is a server, a webhook that filters and scores."""
    enabled = [{"name": "Coscheduling"}, {"name": "NodeResourceTopologyMatch"}]
    sections: Json = {"recording": {"directory": str(directory)}, **own}
    if server is not None:
        enabled.append({"name": NAME})
        sections["webhooks"] = [webhook(server, "filter", "score", timeout="60s")]
    kube = {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
    return configuration(kube=kube, own=sections)


def web(name: str) -> PodBuilder:
    return make_pod(name).cpu("250m").label(app="web").spread(constraint(ZONE, labelSelector=RULES))


def member(name: str, group: str) -> PodBuilder:
    return make_pod(name).cpu("1").label(**{POD_GROUP_LABEL: group})


def pinned(name: str) -> Json:
    """A pod that takes two CPUs of one NUMA cell."""
    pod = make_pod(name).cpu("2").memory("1Gi").obj()
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = dict(resources["requests"])
    return pod


def define(cluster: Cluster) -> Groups:
    """Priorities, pod groups, and NUMA cells of two nodes."""
    registry = cluster.server.registry
    classes = registry.builtin("priorityclasses", "scheduling.k8s.io")
    registry.create(classes, "", {"metadata": {"name": "important"}, "value": 100})
    groups = Groups(cluster)
    groups.define()
    definitions = registry.builtin("customresourcedefinitions", "apiextensions.k8s.io")
    registry.create(definitions, "", copy.deepcopy(CRD))
    cells = registry.catalog.find("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies")
    assert cells is not None
    for node in ("n0", "n1"):
        topology = TopologyBuilder(node, "single-numa-node", "container").cell(2, of=2)
        registry.create(cells, "", topology.cell(1, of=2).obj())
    return groups


async def churn(cluster: Cluster, groups: Groups) -> None:
    """Pods that spread, a gang, victims of preemption, pods that fit nowhere, nodes that go."""
    for number in range(6):
        cluster.add(make_worker(f"n{number}").label(**{ZONE: f"z{number % 3}"}))
    cluster.submit(pinned("pinned-0"), pinned("pinned-1"), pinned("pinned-2"))
    cluster.submit(*(web(f"web-{number}") for number in range(20)))
    await expect_bound(cluster, *(f"web-{number}" for number in range(20)))
    groups.create(make_group("g", 3))
    cluster.submit(member("g-0", "g"), member("g-1", "g"))
    cluster.submit(make_pod("huge").cpu("999"))
    cluster.remove_node("n5")
    cluster.submit(member("g-2", "g"))
    await expect_bound(cluster, "g-0", "g-1", "g-2")
    cluster.submit(*(make_pod(f"filler-{number}").cpu("2") for number in range(12)))
    await eventually(lambda: bool(cluster.condition("huge")), "huge is tried")
    vip = make_pod("vip").cpu("4").obj()
    vip["spec"]["priorityClassName"] = "important"
    cluster.submit(vip)
    await eventually(partial(_bound_after_victims, cluster, "vip"), "victims leave")
    for number in range(10):
        if cluster.has_pod(f"web-{number}"):
            cluster.delete_pod(f"web-{number}")


def _bound_after_victims(cluster: Cluster, name: str) -> bool:
    """Let victims be gone as they are told to leave; whether the pod has a node meanwhile."""
    for each in list(cluster.bound()):
        if "deletionTimestamp" in cluster.pod(each)["metadata"]:
            cluster.delete_pod(each)
    return bool(cluster.node_of(name))


async def replayed_elsewhere(directory: Path, seed: str) -> Json:
    """What `equipoise replay` says in a process of its own, with another hash seed."""
    command = [sys.executable, "-m", "scheduler", "replay", str(directory), "-o", "json"]
    environ = {**os.environ, "PYTHONHASHSEED": seed}
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=PIPE)
    output = (await process.communicate())[0]
    value: Json = msgspec.json.decode(output)
    assert process.returncode == 0, value
    return value


async def test_churn_is_decided_again_in_another_process(cluster: Cluster, tmp_path: Path) -> None:
    groups = define(cluster)
    async with running_daemon(cluster, recording(tmp_path)) as replica:
        await churn(cluster, groups)
        await replica.settled()
    for seed in ("3", "4"):
        value = await replayed_elsewhere(tmp_path, seed)
        assert value["different"] == 0
        assert value["notCompared"] == {}
        assert value["decisions"] > 35
        assert value["bound"] >= 24


async def test_answers_of_webhooks_are_part_of_it(cluster: Cluster, tmp_path: Path) -> None:
    async with WebhookServer() as server:
        refused = {"rejected": {"n1": {"code": "Unschedulable", "reasons": ["not today"]}}}
        server.answers["filter"] = refused
        server.answers["score"] = {"scores": {"n2": 100}}
        async with running_daemon(cluster, recording(tmp_path, server)):
            for number in range(4):
                cluster.add(make_worker(f"n{number}"))
            cluster.submit(*(make_pod(f"p{number}") for number in range(8)))
            await expect_bound(cluster, *(f"p{number}" for number in range(8)))
            assert "n1" not in cluster.bound().values()
        asked = len(server.asked)
        replayed = await asyncio.to_thread(follow, tmp_path)
        assert len(server.asked) == asked, "nobody is asked again"
    assert replayed.comparison.differences == []
    assert replayed.comparison.decisions >= 8
    assert replayed.comparison.reasons == {}


async def test_a_recording_stays_within_its_bound_and_replays_from_where_it_begins(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MIN_RECORDING_BYTES", 1)
    bounds = {"directory": str(tmp_path), "maxBytes": 24_000, "segmentBytes": 4_000}
    config = configuration(own={"recording": bounds})
    async with running_daemon(cluster, config):
        cluster.add(make_worker("n0"), make_worker("n1"))
        for turn in range(1_000):
            if min(segments_in(tmp_path), default=1) > 1:  # the oldest segment is gone
                break
            names = [f"p{turn}-{number}" for number in range(6)]
            cluster.submit(*(make_pod(name).cpu("100m") for name in names))
            await expect_bound(cluster, *names)
            for name in names:
                cluster.delete_pod(name)
    assert written(tmp_path) <= 24_000
    replayed = await asyncio.to_thread(follow, tmp_path)
    assert replayed.restored == 1
    assert replayed.comparison.decisions > 0
    assert replayed.comparison.differences == []


async def test_a_directory_that_cannot_be_used_does_not_keep_pods_waiting(
    cluster: Cluster, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    async with running_daemon(cluster, recording(blocked / "recording")) as replica:
        cluster.add(make_worker("n"))
        cluster.submit(make_pod("p"))
        await expect_bound(cluster, "p")
        dropped = "equipoise_recording_dropped_entries_total"
        await eventually(lambda: bool(replica.metrics.registry.get_sample_value(dropped)), dropped)


async def test_what_is_not_read_is_not_recorded(cluster: Cluster, tmp_path: Path) -> None:
    pod = make_pod("p").meta(annotations={"secret": "annotated-secret"}).obj()
    container = pod["spec"]["containers"][0]
    container |= {"env": [{"name": "TOKEN", "value": "env-secret"}], "command": ["cmd-secret"]}
    async with running_daemon(cluster, recording(tmp_path)):
        cluster.add(make_worker("n").meta(annotations={"secret": "node-secret"}))
        cluster.submit(pod)
        await expect_bound(cluster, "p")
    from scheduler.recording.reader import segments

    text = "".join(str(entry) for segment in segments(tmp_path) for entry in segment.entries())
    assert "default/p" in text
    assert "-secret" not in text
