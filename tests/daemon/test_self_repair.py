"""What the API server says and does not do, and what a watch does not tell, is found out."""

from __future__ import annotations

from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
)

QUICKLY = {"server": {"port": 0}, "binding": {"confirmSeconds": 0.2}}


async def test_pods_whose_binding_is_answered_and_not_done_are_bound_in_the_end(
    cluster: Cluster,
) -> None:
    cluster.add(*(make_worker(f"n{number}") for number in range(5)))
    cluster.faults.pretend("POST", BINDING, times=47)
    async with running_daemon(cluster, configuration(own=QUICKLY)) as replica:
        names = cluster.submit_many(50, make_pod, "p")
        await expect_bound(cluster, *names)
        settled = {"outcome": "unbound"}
        assert replica.sample("equipoise_assumed_pods_settled_total", **settled) >= 47
        await eventually(lambda: not replica.daemon.core.state.assumed_count)


async def test_a_watch_that_says_nothing_leaves_nobody_assumed(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, configuration(own=QUICKLY)) as replica:
        with cluster.faults.hold("POST", BINDING) as held:
            names = cluster.submit_many(5, make_pod, "p")
            await held.reached()
            cluster.faults.silence_watches()
        state = replica.daemon.core.state
        await eventually(lambda: len(cluster.bound()) == 5)
        await eventually(lambda: not state.assumed_count, "all are read")
        assert state.pod_count == len(names)
        settled = {"outcome": "bound"}
        assert replica.sample("equipoise_assumed_pods_settled_total", **settled) == 5
        cluster.faults.resume_watches()
