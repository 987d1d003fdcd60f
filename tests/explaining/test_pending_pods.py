"""The queue as it is asked for: filtered, and equal pods together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import inspection, slices
from scheduler.explaining.queries import QueueQuery
from scheduler.model.selectors import Selector, SelectorError, parse_label_selector
from scheduler.queueing.view import QueueView
from scheduler.slices import in_slices
from tests.builders import PodBuilder, make_node, make_pod
from tests.gangs.support import gang_stage, make_group, member
from tests.pipeline.support import Stage


def owned(name: str, owner: str) -> PodBuilder:
    reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    return make_pod(name).cpu("8").meta(ownerReferences=[reference])


def asked(stage: Stage, **query: Any) -> dict[str, Any]:
    return inspection.queue(stage.core, QueueQuery(query.pop("limit", 100), **query))


def names(answer: dict[str, Any]) -> list[str]:
    return sorted(entry["pod"] for entry in answer["pods"])


async def mixed() -> Stage:
    stage = Stage()
    stage.see(make_node("n").cpu("4"))
    stage.see(make_pod("a").cpu("8").label(app="web"), make_pod("b").cpu("9").label(app="db"))
    stage.see(make_pod("c").meta(namespace="other").cpu("8"))
    await stage.run()
    stage.see(make_pod("d").gate("example.com/x").label(app="web"), make_pod("e"))
    return stage


async def test_pods_are_filtered_by_namespace_tier_and_labels() -> None:
    stage = await mixed()
    assert names(asked(stage, namespace="other")) == ["other/c"]
    assert names(asked(stage, tier="gated")) == ["default/d"]
    assert names(asked(stage, selector=parse_label_selector("app=web"))) == [
        "default/a",
        "default/d",
    ]
    both = asked(stage, selector=parse_label_selector("app"), tier="unschedulable")
    assert names(both) == ["default/a", "default/b"]
    assert both["counts"]["unschedulable"] == 2
    assert both["counts"]["gated"] == both["counts"]["active"] == 0


async def test_counts_are_of_all_that_match_however_few_are_shown() -> None:
    answer = asked(await mixed(), namespace="default", limit=1)
    assert len(answer["pods"]) == 1
    assert sum(answer["counts"].values()) == 4


async def test_without_a_filter_every_pod_is_there_in_order() -> None:
    stage = await mixed()
    everything = asked(stage)["pods"]
    by_namespace = asked(stage, namespace="default")["pods"]
    assert by_namespace == [each for each in everything if each["pod"].startswith("default/")]


async def test_pods_of_one_owner_share_a_line_and_so_do_equal_ones_without() -> None:
    stage = Stage()
    stage.see(make_node("n").cpu("4"))
    stage.see(*(owned(f"web-{i}", "web") for i in range(5)))
    stage.see(*(make_pod(f"equal-{i}").cpu("9") for i in range(3)))
    stage.see(make_pod("alone").cpu("10"), owned("gated", "web").gate("example.com/x"))
    await stage.run()
    answer = asked(stage, group=True)
    assert answer["pods"] == []
    found = {(each["owner"], each["tier"]): each for each in answer["groups"]}
    assert found["ReplicaSet/web", "unschedulable"]["count"] == 5
    assert found["ReplicaSet/web", "gated"]["count"] == 1
    without = sorted(each["count"] for each in answer["groups"] if not each["owner"])
    assert without == [1, 3]
    assert len(found["ReplicaSet/web", "unschedulable"]["pods"]) == 3
    assert answer["groups"][0]["count"] == 5, "the largest comes first"
    message = found["ReplicaSet/web", "unschedulable"]["message"]
    assert message == "0/1 nodes are available: 1 Insufficient cpu."
    assert sum(each["count"] for each in answer["groups"]) == sum(answer["counts"].values()) == 10


async def test_a_gang_is_a_line() -> None:
    stage = gang_stage()
    stage.see(make_group("g", 3), member("a"), member("b"))
    (group,) = asked(stage, group=True)["groups"]
    assert (group["owner"], group["count"], group["tier"]) == ("PodGroup/g", 2, "gated")


async def test_ten_thousand_pods_are_grouped_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, steps = Stage(), [0]
    stage.see(*(make_pod(f"p{i}").gate("example.com/x") for i in range(10_000)))
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    describe = QueueView._describe

    def counted(view: QueueView, *args: Any) -> Any:
        steps[-1] += 1
        return describe(view, *args)

    monkeypatch.setattr(QueueView, "_describe", counted)
    query = QueueQuery(10, group=True)
    task = asyncio.ensure_future(in_slices(inspection.queue, stage.core, query))
    while not task.done():
        steps.append(0)
        await asyncio.sleep(0)
    answer = await task
    assert sum(steps) == 10_000
    assert max(steps) <= 2
    assert answer["counts"]["gated"] == 10_000
    assert len(answer["groups"]) == 10


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app in (web, db),tier", {"app": "db", "tier": ""}, True),
        ("app in (web, db),tier", {"app": "db"}, False),
        ("app notin (web)", {"app": "web"}, False),
        ("!old, app", {"app": "x"}, True),
        ("!old", {"old": "x"}, False),
        ("example.com/app=", {"example.com/app": ""}, True),
    ],
)
def test_selectors_are_read_as_kubectl_writes_them(
    text: str, labels: dict[str, str], selected: bool
) -> None:
    assert parse_label_selector(text).matches(labels) is selected


@pytest.mark.parametrize("text", ["a b", "=x", "a=b=c", "a in web", ",", "a,", "-a"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)
    assert Selector().matches({})


async def test_pods_that_were_not_tried_yet_are_counted_not_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page asks every few seconds, also while thousands of pods have just been created."""
    stage = Stage()
    stage.see(*(make_pod(f"new-{i}") for i in range(500)))
    stage.see(*(owned(f"web-{i}", "web") for i in range(40)))
    described: list[Any] = []
    describe = QueueView._describe

    def counting(view: QueueView, queued: Any, now: float) -> Any:
        described.append(queued)
        return describe(view, queued, now)

    monkeypatch.setattr(QueueView, "_describe", counting)
    answer = asked(stage, group=True)
    assert described == []
    assert answer["counts"]["active"] == 540
    found = {each["owner"]: each for each in answer["groups"]}
    assert {owner: each["count"] for owner, each in found.items()} == {
        "": 500,
        "ReplicaSet/web": 40,
    }
    assert len(found[""]["pods"]) == 3
    assert asked(stage, group=True, namespace="other")["groups"] == []
    assert asked(stage, group=True, tier="gated")["groups"] == []


async def test_pods_of_one_owner_share_a_line_whether_they_were_tried_or_not() -> None:
    stage = Stage()
    stage.see(make_node("n").cpu("4"))
    stage.see(*(owned(f"web-{i}", "web") for i in range(3)))
    await stage.run()
    stage.core.queue.activate(["default/web-0", "default/web-1"])
    stage.see(*(owned(f"late-{i}", "web") for i in range(2)))
    answer = asked(stage, group=True, tier="active")
    (group,) = answer["groups"]
    assert group["count"] == answer["counts"]["active"] == 4
    assert (group["attempts"], len(group["pods"])) == (1, 3)
