"""Gangs whose members need answers of webhooks: still whole, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from scheduler.pipeline.permits import NotWaiting, PermitDecision, Undecidable
from scheduler.webhooks.answers import MAX_ROUNDS
from tests.builders import Json, make_pod, make_worker
from tests.gangs.support import configured, make_group, member
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


def asking(server: WebhookServer, point: str = "filter") -> tuple[Json, ...]:
    """Coscheduling, and a webhook at one point."""
    hook = webhook(server, point)
    names = {"enabled": [{"name": "Coscheduling"}, {"name": NAME}]}
    (profile,) = configured()["profiles"]
    return documents(hook, profile=profile | {"plugins": {"multiPoint": names}})


async def test_a_gang_is_placed_whole_once_all_answers_are_there() -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        server.open.clear()
        stage.see(make_group("g", 3), *(make_worker(f"n{i}").cpu("1") for i in range(3)))
        stage.see(*(member(f"m{i}") for i in range(3)))
        stage.start()
        await until(lambda: server.present == 1)
        assert suspended(stage.core) == 1
        assert stage.core.state.assumed_count == 0, "what nobody is sure of holds nothing"
        stage.see(make_pod("other"))
        stage.start()
        server.open.set()
        await stage.settle()
        assert set(stage.bound()) == {"other", "m0", "m1", "m2"}


async def test_a_gang_that_an_answer_leaves_too_little_room_for_is_not_placed_at_all() -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:

        async def no_licence(request: Json) -> Json:
            refused = {"n2": {"reasons": ["no licence"]}}
            return {"rejected": refused if "n2" in request["nodeNames"] else {}}

        server.answers["filter"] = no_licence
        stage.see(make_group("g", 3), *(make_worker(f"n{i}").cpu("1") for i in range(3)))
        stage.see(*(member(f"m{i}") for i in range(3)))
        await stage.settle()
        assert stage.bound() == {}
        assert suspended(stage.core) == 0
        assert "2 of 3 members can be placed" in stage.messages()["m0"]
        assert "1 no licence" in stage.messages()["m0"]


async def test_what_a_gang_asks_makes_its_back_off_no_longer() -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        stage.see(make_group("g", 3), *(make_worker(f"n{i}").cpu("1") for i in range(2)))
        stage.see(*(member(f"m{i}") for i in range(3)))
        await stage.settle()
        assert stage.bound() == {}
        assert len(server.asked) > 1
        waiting = stage.core.queue.view.snapshot()
        assert [each.attempts for each in waiting] == [1, 1, 1]
        pods = [stage.core.queue._pods.get(each.pod) for each in waiting]
        assert [each.failures for each in pods if each is not None] == [1, 1, 1]


@pytest.mark.parametrize("gone", ["m0", "m1"])
async def test_a_member_that_goes_while_another_waits_for_an_answer_is_missed(gone: str) -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        server.open.clear()
        stage.see(make_group("g", 2), make_worker("n1"))
        members = {name: member(name) for name in ("m0", "m1", "m2")}
        stage.see(*members.values())
        stage.start()
        await until(lambda: server.present == 1)
        stage.lose(members[gone])
        server.open.set()
        await stage.settle()
        assert set(stage.bound()) == set(members) - {gone}


@pytest.mark.parametrize("woken", ["m1", "m3", "late"])
async def test_a_gang_is_tried_by_one_member_at_a_time(woken: str) -> None:
    """Two that ask at once would take turns to forget what the other was told, for ever."""
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        server.open.clear()
        stage.see(make_group("g", 3), *(make_worker(f"n{i}").cpu("1") for i in range(5)))
        names = [f"m{i}" for i in range(4)]
        stage.see(*map(member, names))
        stage.start()
        await until(lambda: server.present == 1)
        if woken == "late":
            stage.see(member("late"))
            names.append("late")
        stage.core.queue.activate({f"default/{woken}"})
        stage.start()
        assert suspended(stage.core) == 1
        await turns(50)
        assert server.present == 1
        server.open.set()
        await stage.settle()
        assert set(stage.bound()) == set(names)
        asked = Counter(request["pod"]["metadata"]["name"] for _, request in server.asked)
        assert max(asked.values()) <= MAX_ROUNDS


@pytest.mark.parametrize("left", [True, False])
async def test_members_are_tried_when_the_one_that_asks_is_theirs_no_more(left: bool) -> None:
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        server.open.clear()
        stage.see(make_group("g", 2), make_group("other", 1), make_worker("n").cpu("9"))
        stage.see(*map(member, ("m0", "m1", "m2")))
        stage.start()
        await until(lambda: server.present == 1)
        (asker,) = [
            attempt.queued.info.pod.metadata.name for attempt, _ in stage.core.suspension.asking()
        ]
        moved = make_pod(asker).cpu("1") if left else member(asker, "other")
        stage.see(moved)
        server.open.set()
        await stage.settle()
        assert set(stage.bound()) == {"m0", "m1", "m2"}


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_no_member_is_bound_before_enough_were_let_in_from_outside(point: str) -> None:
    async with WebhookServer() as server, RemoteStage(asking(server, point)) as stage:
        last = asyncio.Event()

        async def hesitate(request: Json) -> Json:
            if request["pod"]["metadata"]["name"] == "m2":
                await last.wait()
            return {}

        server.answers[point] = hesitate
        stage.see(make_group("g", 3), make_worker("n1"))
        stage.see(*(member(f"m{i}") for i in range(3)))
        stage.start()
        await until(lambda: len(server.asked) == 3 and server.present == 1)
        await turns()
        assert stage.bound() == {}
        last.set()
        await stage.settle()
        assert set(stage.bound()) == {"m0", "m1", "m2"}


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(("minimum", "bound"), [(3, set()), (2, {"m0", "m1"})])
async def test_a_member_that_is_refused_outside_costs_the_gang_if_it_is_needed(
    point: str, minimum: int, bound: set[str]
) -> None:
    async with WebhookServer() as server, RemoteStage(asking(server, point)) as stage:
        others_in = asyncio.Event()

        async def refuse(request: Json) -> Json:
            if request["pod"]["metadata"]["name"] != "m2":
                return {}
            await others_in.wait()
            return {"code": "Unschedulable", "reasons": ["not today"]}

        server.answers[point] = refuse
        stage.see(make_group("g", minimum), make_worker("n1"))
        stage.see(*(member(f"m{i}") for i in range(3)))
        stage.start()
        await until(lambda: len(server.asked) == 3 and server.present == 1)
        await turns()
        others_in.set()
        await stage.core.bindings.idle()
        assert set(stage.bound()) == bound
        assert stage.core.state.assumed_count == len(bound)
        assert stage.core.queue.view.counts()["in-flight"] == 0


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_more_gangs_than_may_ask_at_once_get_through_and_nobody_is_asked_about_twice(
    limit: int,
) -> None:
    async with WebhookServer() as server:
        scheduler, own = asking(server)
        own["maxSuspendedPods"] = limit
        async with RemoteStage((scheduler, own)) as stage:
            stage.see(*(make_worker(f"n{i}").cpu("100") for i in range(3)))
            for gang in range(6):
                stage.see(make_group(f"g{gang}", 3))
                stage.see(*(member(f"m{gang}-{i}", f"g{gang}") for i in range(3)))
            await stage.settle()
            assert len(stage.bound()) == 18
            assert suspended(stage.core) == 0
    asked = [request["pod"]["metadata"]["name"] for _, request in server.asked]
    assert sorted(asked) == sorted(stage.bound()), "what was answered is not forgotten"


async def test_a_gang_that_goes_while_it_asks_leaves_its_place_to_others() -> None:
    async with WebhookServer() as server:
        scheduler, own = asking(server)
        own["maxSuspendedPods"] = 1
        async with RemoteStage((scheduler, own)) as stage:
            server.open.clear()
            stage.see(make_worker("n1").cpu("100"))
            gone = [member(f"gone-{i}", "first") for i in range(3)]
            stage.see(make_group("first", 3), *gone)
            stage.start()
            await until(lambda: server.present == 1)
            stage.see(make_group("second", 3), *(member(f"m{i}", "second") for i in range(3)))
            stage.start()
            assert suspended(stage.core) == 1
            for each in gone:
                stage.lose(each)
            server.open.set()
            await stage.settle()
            assert set(stage.bound()) == {"m0", "m1", "m2"}


async def test_a_gang_that_waits_for_its_turn_to_ask_goes_on_when_its_asker_is_deleted() -> None:
    async with WebhookServer() as server:
        scheduler, own = asking(server)
        own["maxSuspendedPods"] = 1
        async with RemoteStage((scheduler, own)) as stage:
            server.open.clear()
            stage.see(make_worker("n1").cpu("100"), make_pod("other"))
            stage.start()
            await until(lambda: server.present == 1)
            members = {f"m{i}": member(f"m{i}") for i in range(4)}
            stage.see(make_group("g", 3), *members.values())
            stage.start()
            stage.lose(members["m0"])
            server.open.set()
            await stage.settle()
            assert set(stage.bound()) == {"other", "m1", "m2", "m3"}


async def test_what_gangs_are_told_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.webhooks.suspension.ANSWER_BYTES", 1)
    async with WebhookServer() as server, RemoteStage(asking(server)) as stage:
        server.open.clear()
        stage.see(make_worker("n1").cpu("100"))
        for gang in range(4):
            stage.see(make_group(f"g{gang}", 2))
            stage.see(*(member(f"m{gang}-{i}", f"g{gang}") for i in range(2)))
        stage.start()
        await until(lambda: server.present == 1)
        assert suspended(stage.core) == 1, "one may always ask"
        server.open.set()
        await stage.settle()
        assert len(stage.bound()) == 8
    assert len(server.asked) == 8


async def held_at_the_barrier(server: WebhookServer, stage: RemoteStage) -> None:
    """Two members are let in, and the webhook has the third wait."""

    async def hold(request: Json) -> Json:
        last = request["pod"]["metadata"]["name"] == "m2"
        return {"code": "Wait", "timeoutSeconds": 60, "retryAfterSeconds": 60} if last else {}

    server.answers["permit"] = hold
    stage.see(make_group("g", 3), make_worker("n1"))
    stage.see(*(member(f"m{i}") for i in range(3)))
    stage.start()
    await until(lambda: len(stage.core.permits.entries()) == 3)
    plugins = {entry.pod: entry.plugins for entry in stage.core.permits.entries()}
    assert plugins == {
        "default/m0": ("Coscheduling",),
        "default/m1": ("Coscheduling",),
        "default/m2": (NAME,),
    }


async def test_a_gang_waits_for_the_member_that_somebody_approves() -> None:
    async with WebhookServer() as server, RemoteStage(asking(server, "permit")) as stage:
        await held_at_the_barrier(server, stage)
        assert sorted(stage.outlet.nominations) == [(f"default/m{i}", "n1") for i in range(3)]
        permits = stage.core.permits
        with pytest.raises(Undecidable, match="only the group itself"):
            permits.decide(PermitDecision("approve", "default/m0", "alice"))
        with pytest.raises(NotWaiting):
            permits.decide(PermitDecision("approve", "default/m9", "alice"))
        assert stage.bound() == {}
        permits.decide(PermitDecision("approve", "default/m2", "alice", plugin=NAME))
        await stage.settle()
        assert set(stage.bound()) == {"m0", "m1", "m2"}
        assert permits.entries() == []


@pytest.mark.parametrize("name", ["m0", "m2"])
async def test_a_member_that_somebody_rejects_costs_the_gang(name: str) -> None:
    async with WebhookServer() as server, RemoteStage(asking(server, "permit")) as stage:
        await held_at_the_barrier(server, stage)
        server.answers["permit"] = {"code": "Unschedulable", "reasons": ["closed"]}
        stage.core.permits.decide(PermitDecision("reject", f"default/{name}", "alice", reason="no"))
        await until(lambda: not len(stage.core.bindings))
        assert stage.bound() == {}
        assert stage.core.state.assumed_count == 0
        assert stage.core.permits.entries() == []
        last = dict(stage.outlet.nominations)
        assert set(last.values()) == {""}, "no pod is nominated to a node any more"
