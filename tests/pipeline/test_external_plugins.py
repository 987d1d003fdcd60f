"""Plugins from outside the tree: what they must not do is contained, named and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from scheduler.config.problems import ConfigError
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.equivalence.reads import Reads
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unschedulable
from scheduler.plugin_api import Handle, NodeView, PluginFactory
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.hints import HintRegistration
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Rows, Scores
from tests.builders import make_node, make_pod
from tests.pipeline.support import Stage, Word, turns


class External:
    name = "External"

    def __init__(self, args: Any, handle: Handle) -> None:
        self.handle = handle
        self.diary: list[str] = []


def staged(plugin: PluginFactory, **own: Any) -> Stage:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "External"}]}}}
    documents = (
        {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]},
        {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, **own},
    )
    stage = Stage({**IN_TREE, "External": plugin}, documents)
    stage.see(make_node("n1").cpu("2"), make_node("n2").cpu("4"))
    return stage


def external(stage: Stage) -> Any:
    return stage.core.frameworks["equipoise"].plugins["External"]


# Wrong answers


class Wrong(External):
    """Returns nothing at the point that the pod's label names, where it should."""

    def _answer(self, pod: PodInfo, point: str, answer: Any) -> Any:
        return None if pod.pod.metadata.labels.get("wrong") == point else answer

    def after_filter(self, cycle: Cycle, rows: Rows) -> Any:
        return self._answer(cycle.pod, "AfterFilter", SUCCESS)

    def post_score(self, cycle: Cycle, node: str) -> Any:
        return self._answer(cycle.pod, "PostScore", SUCCESS)

    def reserve(self, cycle: Cycle, node: str) -> Any:
        return self._answer(cycle.pod, "Reserve", SUCCESS)

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.diary.append("unreserve")

    def permit(self, cycle: Cycle, node: str) -> Any:
        return self._answer(cycle.pod, "Permit", (SUCCESS, 0))

    async def pre_bind(self, cycle: Cycle, node: str) -> Any:
        return self._answer(cycle.pod, "PreBind", SUCCESS)


@pytest.mark.parametrize(
    ("point", "undone"),
    [
        ("AfterFilter", []),
        ("PostScore", []),
        ("Reserve", ["unreserve"]),
        ("Permit", ["unreserve"]),
        ("PreBind", ["unreserve"]),
    ],
)
async def test_no_answer_is_a_fault_that_names_the_plugin(point: str, undone: list[str]) -> None:
    stage = staged(Wrong)
    stage.see(make_pod("p").label(wrong=point))
    await stage.run()
    expected = "tuple" if point == "Permit" else "Status"
    text = f"plugin 'External' failed at {point}: TypeError: returned NoneType, not {expected}"
    assert stage.outlet.conditions == [Word("default/p", "SchedulerError", text)]
    assert external(stage).diary == undone
    stage.check()


class BadPermit(External):
    ANSWERS: ClassVar = {
        "word": (Status(Code.WAIT), "soon"),
        "past": (Status(Code.WAIT), -1),
        "no-number": (Status(Code.WAIT), float("nan")),
        "short": (SUCCESS,),
        "no-status": (True, 0),
    }

    def permit(self, cycle: Cycle, node: str) -> Any:
        return self.ANSWERS[cycle.pod.pod.metadata.labels["answer"]]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("word", "must say how many seconds to wait, not 'soon'"),
        ("past", "must say how many seconds to wait, not -1"),
        ("no-number", "must say how many seconds to wait, not nan"),
        ("short", "returned something else than a Status and a time"),
        ("no-status", "returned something else than a Status and a time"),
    ],
)
async def test_half_a_permission_is_a_fault_too(answer: str, text: str) -> None:
    stage = staged(BadPermit)
    stage.see(make_pod("p").label(answer=answer))
    await stage.run()
    text = f"plugin 'External' failed at Permit: {text}"
    assert stage.outlet.conditions == [Word("default/p", "SchedulerError", text)]
    assert stage.core.frameworks["equipoise"].waiting == {}
    stage.check()


# Slow answers


class Slow(External):
    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        if "slow" in cycle.pod.pod.metadata.labels:
            time.sleep(0.003)
        return SUCCESS


async def test_slow_answers_are_counted_and_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = staged(Slow, plugins={"slowAfter": "5ms"})
    for i in range(3):
        stage.see(make_pod(f"p{i}").label(slow="yes"))
    await stage.run()
    assert len(stage.outlet.bound) == 3
    labels = {"plugin": "External", "extension_point": "Filter"}
    assert stage.sample("equipoise_plugin_slow_calls_total", **labels) == 3
    (note,) = [event for event in stage.outlet.events if event.reason == "PluginSlow"]
    assert (note.pod, note.type) == ("default/p0", "Warning")
    assert note.note.startswith("plugin 'External' took ")
    assert [r.message for r in caplog.records].count("A plugin is slow") == 1


# Undoing


class Undoing(External):
    """Permits and prepares without reserving, and must yet be able to undo."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        self.diary.append("permit")
        labels = cycle.pod.pod.metadata.labels
        if labels.get("at") == "deny":
            return unschedulable("denied"), 0.0
        if labels.get("at") == "timeout":
            return Status(Code.WAIT), 0.0
        if labels.get("at") == "wait":
            return Status(Code.WAIT), 60.0
        return SUCCESS, 0.0

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        self.diary.append("pre_bind")
        refused = cycle.pod.pod.metadata.labels.get("at") == "pre-bind"
        return unschedulable("not ready") if refused else SUCCESS

    async def bind(self, cycle: Cycle, node: str) -> Status:
        self.diary.append("bind")
        refused = cycle.pod.pod.metadata.labels.get("at") == "bind"
        return unschedulable("bound elsewhere") if refused else Status(Code.SKIP)

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.diary.append("undo")


@pytest.mark.parametrize(
    ("where", "diary"),
    [
        ("deny", ["permit", "undo"]),
        ("timeout", ["permit", "undo"]),
        ("pre-bind", ["permit", "pre_bind", "undo"]),
        ("bind", ["permit", "pre_bind", "bind", "undo"]),
        ("nowhere", ["permit", "pre_bind", "bind"]),
    ],
)
async def test_every_way_back_is_undone_once(where: str, diary: list[str]) -> None:
    profile = {
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "External"}],
                "disabled": [{"name": "DefaultBinder"}],
            },
            "bind": {"enabled": [{"name": "External"}, {"name": "DefaultBinder"}]},
        }
    }
    document = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    stage = Stage({**IN_TREE, "External": Undoing}, (document,))
    stage.see(make_node("n1"), make_pod("p").label(at=where))
    await stage.run()
    assert external(stage).diary == diary
    assert stage.cpu("n1") == 0 or where == "nowhere"
    stage.check()


async def test_a_plugin_lists_allows_and_rejects_waiting_pods() -> None:
    stage = staged(Undoing)
    for name in ("a", "b", "c"):
        stage.see(make_pod(name).label(at="wait"))
    while stage.core.queue.view.counts()["active"]:
        stage.attempt()
    await turns()
    handle: Handle = external(stage).handle
    waiting = handle.permits.waiting_pods()
    assert [pod.pod.key for pod in waiting] == ["default/a", "default/b", "default/c"]
    assert [pod.pending_plugins for pod in waiting] == [["External"]] * 3
    waiting[0].allow("External")
    waiting[1].reject("External", "changed my mind")
    await asyncio.sleep(0)
    await turns()
    assert [pod.pod.key for pod in handle.permits.waiting_pods()] == ["default/c"]
    assert [pod for pod, _ in stage.outlet.bound] == ["default/a"]
    assert stage.outlet.conditions[-1] == Word("default/b", "Unschedulable", "changed my mind")
    handle.permits.waiting_pods()[0].allow("External")
    await stage.idle()
    stage.check()


# Making them


class Picky(External):
    def __init__(self, args: Any, handle: Handle) -> None:
        raise ValueError("args.url is required")

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        return SUCCESS


class Curious(External):
    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        return SUCCESS

    def hints(self) -> Sequence[HintRegistration]:
        return (HintRegistration("Unicorn", Action.ADD),)


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (Picky, "plugin 'External' cannot be made: ValueError: args.url is required"),
        (Curious, "plugins: plugin 'External' observes 'Unicorn', which is not a known kind"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_a_problem_of_the_configuration(
    plugin: PluginFactory, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        staged(plugin)


# Scores


class Fickle(External):
    """Prefers n2, if only it could say so; declares what it reads, so that scores are kept."""

    score_reads = Reads(rows=frozenset({Aspect.PODS}))
    broken: ClassVar = True

    def score_key(self, pod: PodInfo) -> str:
        return ""

    def score_node(self, cycle: Cycle, node: NodeView) -> int:
        if node.name == "n2" and self.broken:
            raise RuntimeError("boom")
        return 100 if node.name == "n2" else 60


class FickleReversed(Fickle):
    """The lower, the better: a zero in place of what cannot be had must not come out on top."""

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        return 100 - scores

    def score_node(self, cycle: Cycle, node: NodeView) -> int:
        return 100 - super().score_node(cycle, node)


class FickleFinal(Fickle):
    traits = PluginTraits(absolute=True)


@pytest.mark.parametrize("plugin", [Fickle, FickleReversed, FickleFinal])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "anew"])
@pytest.mark.parametrize("broken", [True, False], ids=["broken", "sound"])
async def test_a_node_without_a_score_gets_zero_and_the_pod_its_node(
    plugin: Any, kept: bool, broken: bool
) -> None:
    class Rated(plugin):  # type: ignore[misc]  # one of those above
        pass

    Rated.broken = broken
    stage = staged(Rated, equivalence={"enabled": kept})
    stage.see(make_node("n1").cpu("4"), make_pod("a").cpu("100m"), make_pod("b").cpu("100m"))
    await stage.run()
    nodes = {node for _, node in stage.outlet.bound}
    assert nodes == ({"n1"} if broken else {"n2"})
    labels = {"plugin": "External", "extension_point": "Score"}
    assert bool(stage.sample("equipoise_plugin_errors_total", **labels)) is broken
