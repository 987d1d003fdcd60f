"""A plugin that raises fails one attempt of the pod, and does not affect other pods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework.registry import merge
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    configuration,
    eventually,
    expect_bound,
    expect_pending,
    running_daemon,
)


class Explosive:
    """Raises at the point that a pod's label names."""

    name = "Explosive"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        _explode(cycle.pod, "filter")
        return np.zeros(len(rows), np.int32)

    def reserve(self, cycle: Cycle, node: str) -> Status:
        _explode(cycle.pod, "reserve")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        _explode(cycle.pod, "unreserve")

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        _explode(cycle.pod, "pre-bind")
        return SUCCESS

    def post_bind(self, cycle: Cycle, node: str) -> None:
        _explode(cycle.pod, "post-bind")


def _explode(pod: PodInfo, where: str) -> None:
    if pod.pod.metadata.labels.get("explode") == where:
        raise RuntimeError(f"boom in {where}")


REGISTRY = merge(IN_TREE, {"Explosive": Explosive})
PROFILE = {
    "schedulerName": "equipoise",
    "plugins": {"multiPoint": {"enabled": [{"name": "Explosive"}]}},
}
CONFIG = configuration(kube={"profiles": [PROFILE]}, registry=REGISTRY)


@pytest.mark.parametrize("where", ["filter", "reserve", "pre-bind"])
async def test_the_pod_gets_a_scheduler_error_and_the_others_a_node(
    cluster: Cluster, where: str
) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, CONFIG, registry=REGISTRY) as replica:
        cluster.submit(make_pod("bad").label(explode=where), make_pod("good"))
        await expect_bound(cluster, "good")
        message = await expect_pending(cluster, replica, "bad", "SchedulerError")
        assert f"boom in {where}" in message
        assert "Explosive" in message

        def defuse(pod: Json) -> None:
            pod["metadata"]["labels"] = {}

        cluster.change_pod("bad", defuse)
        await expect_bound(cluster, "bad")
        assert cluster.condition("good")["status"] == "True"


async def test_a_plugin_that_fails_after_the_binding_changes_nothing(cluster: Cluster) -> None:
    cluster.add(make_worker("n"))
    async with running_daemon(cluster, CONFIG, registry=REGISTRY) as replica:
        cluster.submit(make_pod("bad").label(explode="post-bind"))
        await expect_bound(cluster, "bad")
        await eventually(lambda: bool(cluster.events("bad", "Scheduled")))
        labels = {"plugin": "Explosive", "extension_point": "PostBind"}
        assert replica.sample("equipoise_plugin_errors_total", **labels) == 1
        assert not cluster.events("bad", "FailedScheduling")
