"""Pods that are refused after their node was chosen keep to their back-off, whatever happens."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.registry import Registry
from scheduler.model.status import Code, Status, unschedulable
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage

SECONDS = 60


class Refuses:
    """Rejects every pod at some point, and registers no events."""

    name = "Refuses"

    def __init__(self, args: object, handle: Handle) -> None: ...

    @staticmethod
    def verdict(reason: str) -> Status:
        return unschedulable(reason)


class AtFilter(Refuses):
    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        return np.full(len(rows), self._refusal, np.int32)

    def __init__(self, args: object, handle: Handle) -> None:
        self._refusal = handle.state.statuses.code(self.verdict("no").by(self.name))


class AtReserve(Refuses):
    def reserve(self, cycle: Cycle, node: str) -> Status:
        return self.verdict("no")

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


class AtPermit(Refuses):
    def permit(self, cycle: Cycle, node: str) -> Status:
        return self.verdict("no")


class AtPermitForNow(AtPermit):
    @staticmethod
    def verdict(reason: str) -> Status:
        return Status(Code.PENDING, (reason,))


class AtPreBind(Refuses):
    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        return self.verdict("no")


def stage(plugin: type[Refuses]) -> Stage:
    registry: Registry = {**IN_TREE, plugin.name: plugin}
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}
    document = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    return Stage(registry, config=(document,))


async def tried(scene: Stage, times: int) -> Counter[str]:
    """Attempt ready pods so often; returns how often that was each pod."""
    attempts: Counter[str] = Counter()
    for _ in range(times):
        queued = scene.attempt()
        if queued is not None:
            attempts[queued.key] += 1
        await scene.idle()
    return attempts


@pytest.mark.parametrize("plugin", [AtReserve, AtPermit, AtPermitForNow, AtPreBind])
async def test_two_refused_pods_do_not_wake_each_other(plugin: type[Refuses]) -> None:
    scene = stage(plugin)
    scene.see(make_node("n1"), make_pod("a"), make_pod("b"))
    attempts = await tried(scene, 100)
    assert attempts == {"default/a": 1, "default/b": 1}


@pytest.mark.parametrize("plugin", [AtFilter, AtReserve, AtPermit, AtPermitForNow, AtPreBind])
async def test_any_number_of_events_leaves_the_rate_alone(plugin: type[Refuses]) -> None:
    """Back-offs of 1, 2, 4, 8 and then 10 seconds leave room for nine attempts in a minute.

    One of them may go early while nobody else wants the time; after filters, two.
    """
    scene = stage(plugin)
    scene.see(make_node("n1"), make_pod("a"), make_pod("b"))
    attempts: Counter[str] = Counter()
    for tick in range(SECONDS * 10):
        scene.clock.advance(0.1)
        scene.core.queue.flush()
        scene.see(make_node("n1").label(tick=str(tick)))
        attempts += await tried(scene, 3)
    assert attempts.keys() == {"default/a", "default/b"}
    most = 11 if plugin is AtFilter else 10
    assert all(4 <= count <= most for count in attempts.values()), attempts
