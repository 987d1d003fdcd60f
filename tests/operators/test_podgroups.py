"""The status of PodGroups follows their members, on an embedded API server, with real kopf."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from sandbox.apiserver import ApiServer
from scheduler.gangs.registry import find_registry
from scheduler.kube.credentials import ApiAccess
from scheduler.operators import podgroups
from tests.builders import make_worker
from tests.daemon.support import (
    Cluster,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
)
from tests.gangs.support import configured, make_group, member
from tests.operators.support import Groups
from tests.patience import PATIENCE

PROFILES = {"profiles": configured()["profiles"]}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with ApiServer() as server:
        yield Cluster(server)


@pytest.fixture
def groups(cluster: Cluster) -> Groups:
    return Groups(cluster)


def run(cluster: Cluster, name: str, phase: str) -> None:
    """What a kubelet would say of a pod."""
    registry = cluster.server.registry
    body = {**cluster.pod(name)}
    body["status"] = {**body.get("status", {}), "phase": phase}
    registry.update(registry.builtin("pods"), ("default", name), body, "status")


def kopf_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("kopf")]


async def test_a_status_follows_the_members_of_its_gang(cluster: Cluster, groups: Groups) -> None:
    groups.define()
    cluster.add(make_worker("n1"))
    groups.create(make_group("g", 2))
    async with running_daemon(cluster, configuration(kube=PROFILES)):
        await eventually(lambda: groups.status("g").get("phase") == "Pending", "nobody is there")
        owned = member("b").owner("Job", "training", "batch/v1")
        cluster.submit(member("a"), owned)
        await expect_bound(cluster, "a", "b")
        await eventually(lambda: groups.status("g").get("phase") == "Scheduled", "both have nodes")
        status = groups.status("g")
        assert status["scheduled"] == 2
        assert status["occupiedBy"] == "default/training"
        started = status["scheduleStartTime"]
        run(cluster, "a", "Running")
        run(cluster, "b", "Running")
        await eventually(lambda: groups.status("g").get("phase") == "Running", "both run")
        run(cluster, "a", "Succeeded")
        run(cluster, "b", "Failed")
        await eventually(lambda: groups.status("g").get("phase") == "Failed", "one has failed")
        assert groups.status("g") == {
            "phase": "Failed",
            "scheduled": 0,
            "running": 0,
            "succeeded": 1,
            "failed": 1,
            "occupiedBy": "default/training",
            "scheduleStartTime": started,
        }
        metadata = groups.get("g")["metadata"]
        assert not metadata.get("finalizers")
        assert not metadata.get("annotations")
        assert kopf_threads()
    await eventually(lambda: not kopf_threads(), "the operator's thread ends")


async def test_a_status_that_others_wrote_is_put_right(cluster: Cluster, groups: Groups) -> None:
    groups.define()
    groups.create(make_group("g", 2))
    async with running_daemon(cluster, configuration(kube=PROFILES)):
        await eventually(lambda: groups.status("g").get("phase") == "Pending", "the status")
        groups.set_status("g", phase="Finished", scheduleStartTime="2026-01-01T00:00:00Z")
        await eventually(lambda: groups.status("g").get("phase") == "Pending", "it is put right")
        assert groups.status("g")["scheduleStartTime"] == "2026-01-01T00:00:00Z"


async def test_without_the_definition_nothing_runs_and_nothing_breaks(
    cluster: Cluster, groups: Groups
) -> None:
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, configuration(kube=PROFILES)) as replica:
        cluster.submit(member("lonely"), member("free", group=""))
        await expect_bound(cluster, "free")
        entry = replica.queued("lonely")
        assert entry is not None
        assert entry.message == "pod group default/g does not exist"
        assert not kopf_threads()


async def test_without_the_plugin_there_is_no_operator(cluster: Cluster, groups: Groups) -> None:
    groups.define()
    groups.create(make_group("g", 2))
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster):
        cluster.submit(member("a"))
        await expect_bound(cluster, "a")
        assert not kopf_threads()
    assert groups.status("g") == {}


async def test_a_standby_leaves_statuses_alone(cluster: Cluster, groups: Groups) -> None:
    groups.define()
    groups.create(make_group("g", 2))
    lease = cluster.server.registry.builtin("leases", "coordination.k8s.io")
    held = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    held["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"metadata": {"name": "equipoise"}, "spec": held}
    cluster.server.registry.create(lease, "kube-system", body)
    election = {"leaderElect": True, "resourceNamespace": "kube-system"}
    config = configuration(kube={**PROFILES, "leaderElection": election})
    async with running_daemon(cluster, config) as replica:
        registry = find_registry(replica.daemon.core.state)
        assert registry is not None
        await eventually(
            lambda: registry.get("default/g") is not None, "the standby knows the group"
        )
        cluster.submit(member("a"))
        await eventually(lambda: replica.queued("a") is not None, "and its members")
        assert not kopf_threads()
        assert groups.status("g") == {}


async def test_the_definition_goes_and_comes_again(
    cluster: Cluster, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podgroups, "RESTART_SECONDS", 0.1)
    groups.define()
    groups.create(make_group("g", 2))
    async with running_daemon(cluster, configuration(kube=PROFILES)):
        await eventually(lambda: groups.status("g").get("phase") == "Pending", "the status")
        groups.undefine()
        groups.define()
        groups.create(make_group("h", 1))
        await eventually(lambda: groups.status("h").get("phase") == "Pending", "the new one")


def test_kopf_may_ask_for_access_after_the_daemon_has_ended() -> None:
    """As when it did not stop in time: nothing is begun that nobody can finish."""
    asked: list[str] = []

    async def access() -> ApiAccess:
        asked.append("access")
        raise AssertionError("nobody waits for it")

    async def watcher() -> podgroups._KopfThread:
        return podgroups._KopfThread(lambda key, status: None, access)

    left = asyncio.run(watcher())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        answer = left._asked()
        gc.collect()
    assert (asked, told) == ([], [])
    assert not answer.done()


def test_kopf_does_not_bring_in_a_library_that_nobody_uses() -> None:
    """In a process of its own: others here may have imported all of it."""
    script = (
        "import sys; from scheduler.operators.podgroups import _without_models\n"
        "with _without_models():\n    import kopf\n"
        "assert not [name for name in sys.modules if name.startswith('kubernetes_asyncio')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


async def test_many_gangs_do_not_flood_the_api_server(cluster: Cluster, groups: Groups) -> None:
    groups.define()
    names = [f"g{number}" for number in range(50)]
    cluster.add(*(make_worker(f"n{number}").cpu("50").pods("500") for number in range(5)))
    groups.create(*(make_group(name, 4) for name in names))
    async with running_daemon(cluster, configuration(kube=PROFILES)) as replica:
        pods = [(f"{name}-{number}", name) for name in names for number in range(4)]
        cluster.submit(*(member(pod, group) for pod, group in pods))
        await expect_bound(cluster, *(pod for pod, _ in pods))
        for pod, _ in pods:
            run(cluster, pod, "Running")
        await eventually(
            lambda: all(groups.status(name).get("phase") == "Running" for name in names),
            "all of them run",
        )
        assert all(groups.status(name)["running"] == 4 for name in names)
        # Each gang has had 8 changes that matter; a write for each of them would be 400.
        assert replica.requests("PATCH", 200) <= 3 * len(names)
