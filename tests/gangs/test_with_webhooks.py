"""Gangs whose members somebody outside has to be asked about: still whole, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, make_pod, make_worker
from tests.gangs.support import configured, make_group, member
from tests.webhooks.support import (
    NAME,
    RemoteStage,
    WebhookServer,
    documents,
    suspended,
    until,
    webhook,
)


def asking(server: WebhookServer, **more: Any) -> tuple[Json, ...]:
    """Coscheduling, and a webhook that filters."""
    hook = webhook(server, "filter", **more)
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
