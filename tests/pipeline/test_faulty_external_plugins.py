"""External plugins that are not quite what a plugin should be."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.problems import ConfigError
from scheduler.equivalence.reads import Reads
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status
from scheduler.plugin_api import NodeView, PluginFactory
from scheduler.plugin_api.cycle import Cycle
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.aspects import Aspect
from tests.builders import make_node, make_pod
from tests.pipeline.evicting import Arena
from tests.pipeline.support import Stage
from tests.pipeline.test_external_plugins import External, staged
from tests.pipeline.test_own_points import REGISTRY, documents


class Boundless(External):
    """Scores one node beyond all numbers that fit."""

    def score_node(self, cycle: Cycle, node: NodeView) -> int:
        return 2**70 if node.name == "n1" else 50


class KeptBoundless(Boundless):
    score_reads = Reads(rows=frozenset({Aspect.LABELS}))

    def score_key(self, pod: PodInfo) -> str:
        return ""


@pytest.mark.parametrize("plugin", [Boundless, KeptBoundless])
async def test_a_score_beyond_all_numbers_costs_one_node_its_score(plugin: PluginFactory) -> None:
    stage = staged(plugin)
    # The larger one would be taken if the other got nothing either.
    stage.see(make_node("n1").cpu("16"), make_pod("a").cpu("1"))
    await stage.run()
    stage.see(make_node("n1").cpu("16").label(changed="yes"), make_pod("b").cpu("1"))
    await stage.run()
    assert [node for _, node in stage.outlet.bound] == ["n2", "n2"]
    assert stage.sample("equipoise_plugin_errors_total", plugin="External", extension_point="Score")


class Gatekeeper(External):
    def pre_enqueue(self, pod: PodInfo) -> Status:
        raise RuntimeError("boom")


async def test_a_gate_that_breaks_is_named_on_the_pod_once_a_minute() -> None:
    stage = staged(Gatekeeper)
    stage.see(make_pod("a"))
    assert stage.tiers() == {"a": "gated"}
    stage.see(make_node("n3"))
    (note,) = stage.outlet.events
    assert (note.pod, note.reason) == ("default/a", "PluginFault")
    assert note.note == (
        "plugin 'External' failed at PreEnqueue: RuntimeError: boom; "
        "the pod stays out of the queue until an event that the plugin listens to"
    )
    errors = {"plugin": "External", "extension_point": "PreEnqueue"}
    assert stage.sample("equipoise_plugin_errors_total", **errors) == 2


class BadHints(External):
    def post_bind(self, cycle: Cycle, node: str) -> None: ...

    def hints(self) -> Any:
        raise RuntimeError("boom")


class NoHints(BadHints):
    def hints(self) -> Any:
        return None


@pytest.mark.parametrize("plugin", [BadHints, NoHints])
def test_hints_that_cannot_be_had_are_a_problem_of_the_configuration(plugin: Any) -> None:
    with pytest.raises(ConfigError, match="plugin 'External': hints: "):
        staged(plugin)


class Beginner(External):
    """Has a method that happens to be called as one of the webhooks' is."""

    def begin(self, what: str) -> None: ...

    def post_bind(self, cycle: Cycle, node: str) -> None: ...


def test_only_plugins_that_ask_outside_are_told_that_this_replica_schedules() -> None:
    staged(Beginner).core.frameworks["equipoise"].remote.begin()


class Choosy(External):
    """Pods of a lower rank first."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        return _rank(a) < _rank(b)


def _rank(queued: QueuedPod) -> str:
    return queued.info.pod.metadata.labels["rank"]


async def test_a_pod_whose_labels_change_is_sorted_anew() -> None:
    stage = Stage(
        {**REGISTRY, "External": Choosy},
        (
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {
                        "plugins": {
                            "queueSort": {
                                "enabled": [{"name": "External"}],
                                "disabled": [{"name": "*"}],
                            }
                        }
                    }
                ],
            },
        ),
    )
    stage.see(make_node("n1").cpu("8"))
    for name, rank in (("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")):
        stage.see(make_pod(name).label(rank=rank))
    stage.see(make_pod("a").label(rank="9"), make_pod("d").label(rank="0"))
    await stage.run()
    assert [key for key, _ in stage.outlet.bound] == [f"default/{name}" for name in "dbca"]


async def test_nobody_is_evicted_for_a_node_that_was_vetoed() -> None:
    arena = Arena(REGISTRY, documents(kept=True))
    arena.see(make_node("n1").cpu("4"), make_pod("old").cpu("1").on("n1").priority(-5))
    arena.see(make_pod("a").cpu("1").priority(10).label(veto="n1"))
    await arena.run()
    await arena.core.background.idle()
    assert arena.outlet.evicted == []
    assert arena.tiers() == {"a": "unschedulable"}
    assert not arena.core.state.nominations.node_of("uid-a")


class Outside(External):
    """Has pods wait, and breaks when it is to book them outside."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0

    async def reserve_remotely(self, cycle: Cycle, node: str) -> Status:
        raise RuntimeError("boom")

    async def permit_remotely(self, cycle: Cycle, node: str) -> Status:
        return SUCCESS

    def reserve(self, cycle: Cycle, node: str) -> Status:
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None: ...


async def test_nobody_is_left_waiting_for_permission_whose_booking_broke() -> None:
    stage = staged(Outside)
    stage.see(make_pod("a"))
    await stage.run()
    assert stage.tiers() == {"a": "error-backoff"}
    assert not stage.core.frameworks["equipoise"].waiting


class Miscounting(External):
    """Has a method of the counting plugins that returns something else."""

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        return SUCCESS

    def counted(self, pod: PodInfo) -> Any:
        return [1]


async def test_what_cannot_be_counted_ahead_does_not_keep_a_pod_from_its_attempt() -> None:
    stage = staged(Miscounting)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    stage.see(make_pod("a").label(app="x").spec(topologySpreadConstraints=[constraint]))
    await stage.run()
    assert [pod for pod, _ in stage.outlet.bound] == ["default/a"]
