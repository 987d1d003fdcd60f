"""A volume that a pod releases before it was written goes to a pod that waits for it."""

from __future__ import annotations

from typing import Any

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.registry import Registry
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.plugins.table import IN_TREE
from tests.builders import make_worker
from tests.pipeline.support import Stage, turns
from tests.plugins.storage import a_claim, a_class, a_pod, a_volume, put


class Holding:
    """Has one pod wait."""

    name = "Holding"

    def __init__(self, args: object, handle: object) -> None: ...

    def permit(self, cycle: Any, node: str) -> tuple[Status, float]:
        held = cycle.pod.pod.metadata.name == "held"
        return (Status(Code.WAIT), 60.0) if held else (SUCCESS, 0.0)


def stage() -> Stage:
    registry: Registry = {**IN_TREE, Holding.name: Holding}
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": Holding.name}]}}}
    document = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    made = Stage(registry, config=(document,))
    put(made.core.state, a_class("late", "kubernetes.io/no-provisioner"))
    put(made.core.state, a_claim("c1"), a_claim("c2"), a_volume("v"))
    made.see(make_worker("n1"))
    return made


async def test_a_pod_that_lacks_the_volume_is_woken_and_others_are_not() -> None:
    stage_ = stage()
    put(stage_.core.state, a_claim("c3", "other"), a_class("other", "kubernetes.io/no-provisioner"))
    stage_.see(a_pod("held").claim("c1"), a_pod("needs").claim("c2"), a_pod("other").claim("c3"))
    for _ in range(3):
        stage_.attempt()
    await turns()
    assert stage_.tiers() == {"needs": "unschedulable", "other": "unschedulable"}
    uid = stage_.core.frameworks["equipoise"].waiting["uid-held"].pod.uid
    stage_.core.frameworks["equipoise"].waiting[uid].reject("Holding", "no")
    await stage_.core.bindings.idle()
    tiers = stage_.tiers()
    assert tiers["needs"] != "unschedulable", "it may get the volume now"
    assert tiers["other"] == "unschedulable", "the volume is of another class"
