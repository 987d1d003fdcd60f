"""Pods that go or change while somebody outside is asked about them, and what is kept of them."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from scheduler.model.status import unschedulable
from scheduler.pipeline.attempt import Attempt
from scheduler.webhooks import gate
from tests.builders import Json, make_pod, make_worker
from tests.gangs.support import make_group, member
from tests.gangs.test_with_webhooks import asking
from tests.patience import PATIENCE
from tests.pipeline.support import turns
from tests.webhooks.support import (
    RemoteStage,
    WebhookServer,
    documents,
    suspended,
    until,
    webhook,
)


async def test_a_pod_that_others_bind_and_that_goes_then_is_not_placed() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_pod("p").on("n1"))
        assert suspended(stage.core) == 0
        stage.lose(make_pod("p").on("n1"))
        server.open.set()
        await turns(50)
        await stage.settle()
        assert stage.bound() == {}


async def test_a_pod_that_another_of_its_name_replaced_is_not_placed() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_pod("p").meta(uid="another"))
        assert suspended(stage.core) == 0
        server.open.set()
        await turns(50)
        await stage.settle()
        assert [pod for pod, _ in stage.outlet.bound] == ["default/p"]


async def test_a_pod_that_changes_while_it_waits_is_asked_about_as_it_is_now() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):

        async def by_team(request: Json) -> Json:
            team = request["pod"]["metadata"].get("labels", {}).get("team", "")
            return {"rejected": {"n1": {"reasons": ["not for red"]}} if team == "red" else {}}

        server.answers["filter"] = by_team
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.present == 1)
        stage.see(make_pod("p").label(team="red"))
        server.open.set()
        await stage.settle()
        assert len(server.asked) == 2
        assert stage.bound() == {}
        assert "1 not for red" in stage.messages()["p"]


async def test_a_pod_that_is_deleted_while_a_webhook_has_it_wait_is_given_up() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "permit"))) as stage,
    ):
        wait = {"code": "Wait", "timeoutSeconds": 600, "retryAfterSeconds": 0.01}
        server.answers["permit"] = wait
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: len(server.asked) > 1)
        stage.lose(make_pod("p"))
        async with asyncio.timeout(PATIENCE):
            await stage.core.bindings.idle()
            await stage.core.background.idle()
        assert server.paths()[-1] == "unreserve"
        assert stage.bound() == {}


async def test_what_is_undone_is_undone_before_it_is_done_again() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "reserve", "preBind"))) as stage,
    ):
        undone = asyncio.Event()

        async def slow(request: Json) -> Json:
            await undone.wait()
            return {}

        server.answers["unreserve"] = slow
        server.answers["pre-bind"] = {"code": "Unschedulable"}
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: server.paths() == ["reserve", "pre-bind", "unreserve"])
        server.answers["pre-bind"] = {}
        await stage.core.bindings.idle()
        stage.see(make_pod("p").label(again="yes"))
        stage.core.queue.activate(["default/p"])
        stage.start()
        await asyncio.sleep(0.05)
        assert server.paths().count("reserve") == 1
        undone.set()
        await stage.settle()
        assert server.paths() == ["reserve", "pre-bind", "unreserve", "reserve", "pre-bind"]
        assert stage.bound() == {"p": "n1"}


async def test_turns_of_pods_that_are_gone_are_not_lost() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"), maxSuspendedPods=2)) as stage,
    ):
        server.open.clear()
        names = [f"p{i}" for i in range(10)]
        stage.see(make_worker("n1"), *map(make_pod, names))
        stage.start()
        waiting = [name for name, tier in stage.tiers().items() if tier == "unschedulable"]
        assert len(waiting) == 8
        *gone, last = waiting
        stage.lose(*map(make_pod, gone))
        server.open.set()
        for _ in range(5):
            await stage.settle()
        assert last in stage.bound()


async def test_codes_that_members_of_a_gang_hold_are_not_used_when_given_out_anew() -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        held = asyncio.Event()

        async def not_n0(request: Json) -> Json:
            if len(server.asked) > 1:
                await held.wait()
            return {"rejected": {name: {} for name in request["nodeNames"] if name == "n0"}}

        server.answers["filter"] = not_n0
        stage.see(make_group("g", 2), *(make_worker(f"n{i}").cpu("1") for i in range(3)))
        stage.see(member("m0"), member("m1"))
        stage.start()
        await until(lambda: len(server.asked) == 2)
        statuses, numbers = stage.core.state.statuses, itertools.count()
        while not statuses.overfull:
            statuses.code(unschedulable(f"reason {next(numbers)}"))
        held.set()
        await stage.settle()
        assert set(stage.bound()) == {"m0", "m1"}
        assert "n0" not in stage.bound().values()


async def test_answers_are_not_kept_while_a_pod_is_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = asyncio.Event()
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", "permit"))) as stage,
    ):

        async def wait(request: Json) -> Json:
            await held.wait()
            return {}

        server.answers["permit"] = wait
        attempts: list[Attempt] = []
        start = stage.core.bindings.start

        def noted(attempt: Attempt) -> None:
            attempts.append(attempt)
            start(attempt)

        monkeypatch.setattr(stage.core.bindings, "start", noted)
        stage.see(make_worker("n1"), make_pod("p"))
        stage.start()
        await until(lambda: "permit" in server.paths())
        (attempt,) = attempts
        assert not attempt.answers._rows
        held.set()
        await stage.settle()


async def test_all_pods_at_the_gate_are_asked_about_when_a_replica_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MAX_KNOWN", 2)
    async with WebhookServer() as server:
        stage = RemoteStage(documents(webhook(server, "preEnqueue")))
        stage.see(make_worker("n1"), *(make_pod(f"p{i}") for i in range(6)))
        await turns()
        assert server.asked == []
        stage.core.scheduler.begin()
        await stage.settle()
        assert len(stage.bound()) == 6
        await stage.core.stop()


async def test_a_pod_is_asked_about_again_though_its_answer_was_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MAX_KNOWN", 2)
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "preEnqueue"))) as stage,
    ):

        async def later(request: Json) -> Json:
            name = request["pod"]["metadata"]["name"]
            first = name not in [body["pod"]["metadata"]["name"] for _, body in server.asked[:-1]]
            late = name == "late" and first
            return {"code": "Pending", "retryAfterSeconds": 0.2} if late else {}

        server.answers["pre-enqueue"] = later
        stage.see(make_worker("n1"), make_pod("late"))
        await stage.core.background.idle()
        stage.see(*(make_pod(f"p{i}") for i in range(5)))
        await stage.settle()
        await until(lambda: stage.tiers().get("late") != "gated")
        await stage.settle()
        assert "late" in stage.bound()


async def test_nodes_that_its_class_knows_are_not_left_out_when_others_keep_changing() -> None:
    reads = {"pod": [], "node": ["labels"]}
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", reads=reads))) as stage,
    ):
        stage.see(make_worker("calm"), make_worker("restless"), make_pod("first"))
        await stage.settle()
        assert len(server.asked) == 1

        async def change(request: Json) -> Json:
            stage.see(make_worker("restless").label(turn=str(len(server.asked))))
            return {"rejected": {n: {} for n in request["nodeNames"] if n == "restless"}}

        server.answers["filter"] = change
        stage.see(make_worker("restless").label(turn="0"), make_pod("p"))
        await stage.settle()
        assert stage.bound()["p"] == "calm"
        assert len(server.asked) <= 5
