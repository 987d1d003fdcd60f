"""Plugins with sums of their own are called for each pod that a trial adds or removes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.framework.faults import PluginFault
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, unschedulable
from scheduler.plugin_api import Handle, PreFilterResult
from scheduler.plugin_api.cycle import Cycle, Slot
from scheduler.plugins.table import IN_TREE
from scheduler.state.columns import Codes, Rows
from tests.builders import PodBuilder, make_pod
from tests.framework.fakes import Fake, a_cycle, framework_of
from tests.pipeline.evicting import Arena, make_box

LIMIT = 2
FULL = unschedulable("too many licences in use")


class Licences:
    """No more than two pods with the label may run in the whole cluster; counted by pre-filter."""

    name = "Licences"
    _used = Slot[list[int]]("licences in use")

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        if not _licensed(cycle.pod):
            return PreFilterResult(SKIP)
        state = cycle.state
        running = [pod for name in state.nodes_with_pods() for pod in state.pods_on(name)]
        cycle.put(self._used, [sum(map(_licensed, running))])
        return PreFilterResult()

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        full = cycle.get(self._used)[0] >= LIMIT
        return cycle.reject(rows >= 0 if full else rows < 0, FULL.by(self.name))

    def add_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        cycle.get(self._used)[0] += _licensed(pod)

    def remove_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        cycle.get(self._used)[0] -= _licensed(pod)


def _licensed(pod: PodInfo) -> bool:
    return "licence" in pod.pod.metadata.labels


def arena() -> Arena:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": Licences.name}]}}}
    config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    return Arena({**IN_TREE, Licences.name: Licences}, (config,))


def licensed(name: str, priority: int = 0) -> PodBuilder:
    return make_pod(name).cpu(1).priority(priority).label(licence="yes")


async def test_victims_are_chosen_by_what_the_plugin_counts() -> None:
    """Room there is; only who gives a licence back is worth evicting."""
    stage = arena()
    pods = [licensed("a").on("n"), make_pod("b").cpu(1).on("n"), licensed("c").on("n")]
    node = await stage.preempt(make_box("n"), *pods, licensed("vip", 10))
    assert node == "n"
    assert len(stage.outlet.evicted) == 1
    assert stage.outlet.evicted[0] in {"a", "c"}
    stage.check()


async def test_nominated_pods_count_as_if_they_had_come() -> None:
    stage = arena()
    stage.see(make_box("n"), make_box("m"), licensed("a").on("m"))
    nominated = licensed("promised", 10)
    stage.core.state.nominations.set(nominated.info(), "n")
    stage.see(licensed("p"))
    stage.attempt()
    await stage.idle()
    assert stage.outlet.bound == [("default/p", "m")], "on n the nominated one would be the second"


class Diary(Fake):
    """Records the pods that it is called for."""

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        return PreFilterResult()

    def add_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.note(f"+{pod.pod.metadata.name} {node}")

    def remove_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.note(f"-{pod.pod.metadata.name} {node}")


class Touchy(Diary):
    """Cannot cope with one pod."""

    def add_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        super().add_pod(cycle, pod, node)
        if pod.pod.metadata.name == "bad":
            raise RuntimeError("boom")


def test_every_change_is_told_and_undone() -> None:
    plugin = Diary("D")
    cycle = a_cycle()
    cycle.state.set_pod(make_pod("there").on("n0").info())
    there = cycle.state.pod("uid-there")
    assert there is not None
    with framework_of(plugin).trial(cycle) as changes:
        changes.add(make_pod("one").info(), "n1")
        changes.remove(there)
        changes.add(make_pod("two").info(), "n2")
        changes.restore(there)
        changes.remove(there)
    told = [line.removeprefix("D ") for line in plugin.diary]
    assert told[:5] == ["+one n1", "-there n0", "+two n2", "+there n0", "-there n0"]
    assert told[5:] == ["-two n2", "-one n1", "+there n0"]
    assert cycle.state.pod_count == 1


def test_a_plugin_that_fails_ends_the_attempt_and_the_state_is_whole() -> None:
    plugin = Touchy("T")
    cycle = a_cycle()

    def try_out() -> None:
        with framework_of(plugin).trial(cycle) as changes:
            changes.add(make_pod("good").info(), "n1")
            changes.add(make_pod("bad").info(), "n1")

    with pytest.raises(PluginFault, match="plugin 'T' failed at AddPod: RuntimeError: boom"):
        try_out()
    assert cycle.state.pod_count == 0
    assert not cycle.state.changes.on_trial


def test_a_plugin_that_skipped_the_pod_is_told_nothing() -> None:
    plugin = Diary("D")
    cycle = a_cycle()
    cycle.skip("filter", frozenset({"D"}))
    with framework_of(plugin).trial(cycle) as changes:
        changes.add(make_pod("one").info(), "n1")
    assert plugin.diary == []
