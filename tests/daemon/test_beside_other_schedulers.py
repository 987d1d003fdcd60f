"""What the daemon says of pods that wait for other schedulers' pods, and of refused ones."""

from __future__ import annotations

from functools import partial

from e2e.harness.ports import free_port
from scheduler.config.loading import Configuration
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import Cluster, configuration, eventually, expect_bound, running_daemon
from tests.daemon.test_endpoints import fetch_json
from tests.daemon.test_explained_states import in_state, once


def serving() -> Configuration:
    own = {"server": {"port": free_port()}, "binding": {"headroomSeconds": 3600}}
    return configuration(own=own)


def by_another(cluster: Cluster, name: str, cpu: str, node: str) -> None:
    cluster.submit(make_pod(name).scheduler("another").cpu(cpu))
    cluster.bind(name, node)


async def test_a_pod_that_leaves_room_to_another_scheduler_says_so(cluster: Cluster) -> None:
    cluster.add(make_worker("n").cpu("4"))
    async with running_daemon(cluster, serving()) as replica:
        by_another(cluster, "theirs", "2", "n")
        cluster.submit(make_pod("p").cpu("2"))
        said = await once(replica, "p", lambda said: bool(said["standing"]["message"]), "held")
        standing = said["standing"]
        assert (standing["state"], standing["node"]) == ("binding", "n")
        assert "node n keeps room for pods of another scheduler" in standing["message"]
        assert replica.sample("equipoise_waiting_pods", held_by="headroom") == 1

        by_another(cluster, "theirs-too", "2", "n")
        await in_state(replica, "p", "unschedulable")
        assert replica.sample("equipoise_headroom_waits_total", outcome="withdrawn") == 1
        cluster.add(make_worker("free").cpu("4"))
        await expect_bound(cluster, "p")
        assert cluster.node_of("p") == "free"


async def test_a_pod_that_its_kubelet_refused_is_told(cluster: Cluster) -> None:
    cluster.add(make_worker("n").cpu("4"))
    async with running_daemon(cluster, serving()) as replica:
        cluster.submit(make_pod("p").cpu("4"))
        await expect_bound(cluster, "p")
        scheduled = {"result": "scheduled", "profile": "equipoise"}
        attempts = partial(replica.sample, "scheduler_schedule_attempts_total", **scheduled)
        await eventually(lambda: attempts() == 1, "it knows that the pod is bound")

        def refuse(pod: Json) -> None:
            pod["status"] |= {"phase": "Failed", "reason": "OutOfcpu"}

        cluster.change_pod("p", refuse, "status")
        await eventually(lambda: not replica.daemon.core.state.pod_count, "its room is free")
        told = await fetch_json(replica, "/api/v1/decisions?pod=default/p")
        assert [each["result"] for each in told["decisions"]] == ["refused", "scheduled"]
        said = (await in_state(replica, "p", "ended"))["standing"]
        assert said["message"] == "it has ended: Failed, its kubelet refused it: OutOfcpu"
        cluster.submit(make_pod("q").cpu("4"))
        await expect_bound(cluster, "q")
