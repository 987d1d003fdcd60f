"""Pods wait for answers; the loop does not."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from scheduler.framework.faults import PluginFault
from scheduler.model.status import unschedulable
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from tests.builders import Json, make_pod, make_worker
from tests.pipeline.support import turns
from tests.webhooks.support import (
    NAME,
    RemoteStage,
    WebhookServer,
    documents,
    suspended,
    until,
    webhook,
)

CONCERNED = {"matchLabels": {"ask": "yes"}}


def concerned(name: str) -> Any:
    return make_pod(name).label(ask="yes")


async def test_others_are_scheduled_while_a_pod_waits_for_an_answer() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", pods=CONCERNED))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), make_worker("n2"), concerned("slow"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(*(make_pod(f"quick-{i}") for i in range(20)))
        stage.start()
        await stage.core.bindings.idle()
        assert len(stage.bound()) == 20
        assert suspended(stage.core) == 1
        assert stage.sample("equipoise_webhook_suspended_pods") == 1
        server.open.set()
        await stage.settle()
        assert "slow" in stage.bound()
        assert suspended(stage.core) == 0


async def test_pods_that_are_none_of_its_concern_stay_in_classes() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", pods=CONCERNED))) as stage,
    ):
        stage.see(make_worker("n1"), make_pod("plain"))
        await stage.settle()
        assert server.asked == []
        assert stage.core.equivalence is not None
        assert [each.known for each in stage.core.equivalence] == [True]


async def test_it_can_be_told_about_which_pods_somebody_has_to_be_asked() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", pods=CONCERNED))) as stage,
    ):
        (framework,) = stage.core.frameworks.values()
        assert framework.remote.concerns(concerned("p").info())
        assert not framework.remote.concerns(make_pod("plain").info())
        # Who cannot wait is refused, and gets no verdict that might be kept.
        stage.see(make_worker("n1"))
        cycle = Cycle(concerned("p").info(), stage.core.state)
        with pytest.raises(PluginFault, match="cannot be asked here"):
            evaluate(framework, cycle).diagnosis()
        assert (
            not evaluate(framework, Cycle(make_pod("q").info(), stage.core.state))
            .diagnosis()
            .codes.any()
        )


async def test_what_the_pod_was_told_counts_for_the_attempt_that_is_made_again() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", "score"))) as stage,
    ):
        server.answers["filter"] = {"rejected": {"n1": {"reasons": ["no licence"]}}}
        server.answers["score"] = {"scores": {"n2": 10, "n3": 90}}
        stage.see(*(make_worker(f"n{i}") for i in (1, 2, 3)), make_pod("p"))
        await stage.settle()
        assert server.paths() == ["filter", "score"]
        assert server.asked[0][1]["nodeNames"] == ["n1", "n2", "n3"]
        assert server.asked[1][1]["nodeNames"] == ["n2", "n3"]
        assert stage.bound() == {"p": "n3"}
        assert (
            stage.sample(
                "scheduler_schedule_attempts_total", result="scheduled", profile="equipoise"
            )
            == 1
        )


async def test_a_node_that_came_while_the_pod_waited_is_asked_about_too() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):

        async def only_n2(request: Json) -> Json:
            return {"rejected": {name: {} for name in request["nodeNames"] if name != "n2"}}

        server.answers["filter"] = only_n2
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_worker("n2"))
        server.open.set()
        await stage.settle()
        assert [body["nodeNames"] for _, body in server.asked] == [["n1"], ["n2"]]
        assert stage.bound() == {"p": "n2"}


async def test_a_node_that_filled_up_while_the_pod_waited_is_not_taken() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", pods=CONCERNED))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1").cpu("1"), concerned("p").cpu("1"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_pod("foreign").cpu("1").on("n1"))
        server.open.set()
        await stage.settle()
        assert stage.bound() == {}
        assert "Insufficient cpu" in stage.messages()["p"]
        stage.check()


async def test_nodes_that_keep_coming_are_left_out_in_the_end() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):

        async def another(request: Json) -> Json:
            stage.see(make_worker(f"extra-{len(server.asked)}"))
            return {"rejected": {name: {} for name in request["nodeNames"]}}

        server.answers["filter"] = another
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: "p" in stage.messages())
        # The nodes that came are a reason to try again: only the first attempt is looked at.
        assert [len(body["nodeNames"]) for _, body in server.asked[:4]] == [1, 1, 1, 1]
        left_out = f"1 node(s) changed faster than webhook {NAME} answered"
        assert left_out in stage.outlet.conditions[0].message


async def test_equal_questions_of_a_webhook_that_declares_are_asked_once() -> None:
    reads = {"pod": ["metadata.labels.app"], "node": ["labels"]}
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", "score", reads=reads))) as stage,
    ):
        server.answers["filter"] = {"rejected": {"n1": {}}}
        stage.see(make_worker("n1"), make_worker("n2").label(zone="a"))
        stage.see(*(make_pod(f"p{i}").label(app="x") for i in range(10)))
        await stage.settle()
        assert server.paths() == ["filter", "score"]
        assert set(stage.bound().values()) == {"n2"}
        shown = server.asked[0][1]
        assert shown["pod"]["metadata"] == {"labels": {"app": "x"}}
        assert shown["nodes"][1]["metadata"] == {"name": "n2", "labels": {"zone": "a"}}
        stage.see(make_pod("later").label(app="x"))
        await stage.settle()
        assert len(server.asked) == 2


async def test_a_change_of_what_it_reads_is_asked_about_and_no_other() -> None:
    reads = {"pod": [], "node": ["labels"]}
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", reads=reads))) as stage,
    ):
        stage.see(make_worker("n1"), make_worker("n2"), make_pod("a"))
        await stage.settle()
        stage.see(make_worker("n1").label(zone="b"), make_pod("b"))
        await stage.settle()
        stage.see(make_worker("n1").label(zone="b").cpu("3"), make_pod("c"))
        await stage.settle()
        assert [body["nodeNames"] for _, body in server.asked] == [["n1", "n2"], ["n1"]]
        assert len(stage.bound()) == 3


async def test_a_change_in_the_middle_of_the_call_makes_its_answer_old() -> None:
    reads = {"pod": [], "node": ["labels"]}
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", reads=reads))) as stage,
    ):

        async def by_label(request: Json) -> Json:
            closed = [
                node["metadata"]["name"]
                for node in request["nodes"]
                if "closed" in node["metadata"].get("labels", {})
            ]
            return {"rejected": {name: {} for name in closed}}

        server.answers["filter"] = by_label
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_worker("n1").label(closed="yes"))
        server.open.set()
        await stage.settle()
        assert len(server.asked) == 2
        assert stage.bound() == {}


async def test_a_pod_that_is_deleted_while_it_waits_is_forgotten() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.open.clear()
        pod = make_pod("p")
        stage.see(make_worker("n1"), pod)
        stage.start()
        await until(lambda: server.present == 1)
        stage.lose(pod)
        assert suspended(stage.core) == 0
        assert stage.core.queue.view.counts()["in-flight"] == 0
        server.open.set()
        await turns(50)
        await stage.settle()
        assert stage.bound() == {}


async def test_a_pod_that_others_bind_while_it_waits_is_let_go() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_pod("p").on("n1"))
        server.open.set()
        await stage.settle()
        assert stage.bound() == {}
        assert suspended(stage.core) == stage.core.queue.view.counts()["in-flight"] == 0


async def test_no_more_pods_are_suspended_than_may_be_and_all_get_their_turn() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"), maxSuspendedPods=3)) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), *(make_pod(f"p{i}") for i in range(10)))
        stage.start()
        assert suspended(stage.core) == 3
        assert stage.sample("equipoise_webhook_postponed_pods_total") == 7
        stage.see(make_worker("n2"))  # an event that would wake whomever a plugin has rejected
        assert stage.core.queue.view.counts()["active"] == 0
        await until(lambda: server.present == 3)
        server.open.set()
        while len(stage.bound()) < 10:
            await stage.settle()
        assert server.most == 3


async def test_stopping_drops_the_calls() -> None:
    async with WebhookServer() as server:
        stage = RemoteStage(documents(webhook(server, "filter")))
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.core.scheduler.stop()
        await stage.core.stop()
        assert suspended(stage.core) == 0
        assert stage.sample("equipoise_webhook_in_flight", webhook=NAME) == 0
        server.open.set()


async def test_codes_that_are_given_out_anew_are_asked_for_again() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", "score", pods=CONCERNED))) as stage,
    ):
        server.answers["filter"] = {"rejected": {"n1": {"reasons": ["not here"]}}}
        held = asyncio.Event()

        async def hold(request: Json) -> Json:
            await held.wait()
            return {}

        server.answers["score"] = hold
        stage.see(*(make_worker(f"n{i}") for i in (1, 2, 3)), concerned("p"))
        stage.start()
        await until(lambda: server.paths() == ["filter", "score"])
        statuses, numbers = stage.core.state.statuses, itertools.count()
        while not statuses.overfull:
            statuses.code(unschedulable(f"reason {next(numbers)}"))
        stage.see(make_pod("other"))
        stage.start()
        held.set()
        await stage.settle()
        assert server.paths() == ["filter", "score", "filter"]
        assert stage.bound()["p"] in {"n2", "n3"}
