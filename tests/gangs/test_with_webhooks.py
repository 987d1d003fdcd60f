"""Gangs whose members somebody outside has to be asked about: still whole, or not at all."""

from __future__ import annotations

import asyncio

import pytest

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
        assert stage.core.queue.counts()["in-flight"] == 0
