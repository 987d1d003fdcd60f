"""What a running daemon answers at every path is what its OpenAPI document says."""

from __future__ import annotations

import copy
from typing import Any

import aiohttp

from e2e.harness.ports import free_port
from sandbox.devices.driver import DRIVER as BOARDS
from scheduler.config.loading import Configuration
from scheduler.serve.openapi import JSON, OPERATIONS, PATH
from tests.builders import Json, make_pod, make_worker
from tests.daemon.support import (
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
)
from tests.daemon.test_endpoints import fetch_json
from tests.daemon.test_explained_states import once, posted
from tests.daemon.test_waiting_on_permit import REGISTRY, call, held, letting
from tests.gangs.support import make_group, member
from tests.operators.support import Groups
from tests.page.playground import playground, url_of
from tests.schemas import validate


def config(protection: str) -> Configuration:
    enabled = [{"name": name} for name in ("Holding", "Coscheduling")]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    own = {"server": {"port": free_port(), "protection": protection}, "batch": {"enabled": True}}
    return configuration(kube={"profiles": [profile]}, own=own, registry=REGISTRY)


def strict(schema: Any) -> Any:
    """The schema without leave for fields that it does not list."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


class Described:
    """The document of a daemon, and answers that are compared with it."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self.seen: set[tuple[str, str]] = set()

    def check(self, method: str, path: str, answer: Any, status: int = 200) -> None:
        self.seen.add((method, path))
        responses = self._document["paths"][path][method]["responses"]
        content = responses.get(str(status), responses["default"])["content"]
        components = strict(copy.deepcopy(self._document["components"]))
        schema = {**content[JSON]["schema"], "components": components}
        validate(answer, schema)


async def explanation_of(replica: Replica, name: str) -> Any:
    return await once(replica, name, lambda said: said["standing"]["attempts"] > 0, "it is tried")


async def test_every_answer_is_as_described(cluster: Cluster) -> None:
    groups = Groups(cluster)
    groups.define()
    groups.create(make_group("g", 3))
    cluster.add(make_worker("n1"), make_worker("n2").taint("dedicated"))
    async with running_daemon(cluster, config("auto"), registry=REGISTRY) as replica:
        described = Described(await fetch_json(replica, PATH))
        described.check("get", PATH, await fetch_json(replica, PATH))
        cluster.submit(make_pod("bound").cpu("1"), make_pod("large").cpu("100"), member("m"))
        cluster.submit(make_pod("held").gate("example.com/a"))
        await expect_bound(cluster, "bound")
        await held(cluster, "waits")
        await explanation_of(replica, "large")
        for name in ("bound", "large", "held", "m", "waits"):
            answer = await fetch_json(replica, f"/api/v1/explain?pod=default/{name}")
            described.check("get", "/api/v1/explain", answer)
        for query in ("", "?group=true", "?tier=gated&limit=1", "?labelSelector=!a"):
            described.check(
                "get", "/api/v1/queue", await fetch_json(replica, f"/api/v1/queue{query}")
            )
        for path in (
            *("overview", "classes", "groups", "node?name=n1", "nodes?view=map"),
            *("nodes?view=map&resource=pods", "pod?pod=default/bound"),
        ):
            answer = await fetch_json(replica, f"/api/v1/{path}")
            described.check("get", f"/api/v1/{path.partition('?')[0]}", answer)
        for name in ("nodes", "decisions", "waiting"):
            answer = await fetch_json(replica, f"/api/v1/{name}")
            assert answer[{"waiting": "pods"}.get(name, name)], "something is shown"
            described.check("get", f"/api/v1/{name}", answer)
        status, answer = await posted(replica, make_pod("new").cpu("100").obj())
        described.check("post", "/api/v1/explain", answer, status)
        status, answer = await posted(replica, {"kind": "Node"})
        assert status == 400
        described.check("post", "/api/v1/explain", answer, status)
        for path in ("/version", "/configz", "/debug/equivalence"):
            described.check("get", path, await fetch_json(replica, path))
        status, answer = await call(replica, "POST", "/api/v1/waiting/default/waits/approve")
        assert status == 403
        described.check("post", "/api/v1/waiting/{namespace}/{name}/approve", answer, status)
        cluster.delete_pod("waits")
    json = {(each.method, each.path) for each in OPERATIONS if each.media == JSON}
    assert described.seen == json - {("post", "/api/v1/waiting/{namespace}/{name}/reject")}


async def test_nodes_with_devices_and_cells_are_as_described() -> None:
    async with playground() as demo, aiohttp.ClientSession(url_of(demo)) as session:

        async def fetched(path: str) -> Any:
            async with session.get(path) as response:
                return await response.json()

        described = Described(await fetched(PATH))
        for name, shown in (("gpu-000", "devices"), ("numa-000", "numa")):
            answer = await fetched(f"/api/v1/node?name={name}")
            assert answer[shown], "something is shown"
            described.check("get", "/api/v1/node", answer)
        for resource, shown in (("cpu", "cells"), (f"device:{BOARDS}", "devices")):
            answer = await fetched(f"/api/v1/nodes?view=map&resource={resource}")
            assert answer["nodes"][shown], "something is shown"
            described.check("get", "/api/v1/nodes", answer)


async def test_decisions_about_waiting_pods_are_as_described(cluster: Cluster) -> None:
    letting(cluster)
    cluster.server.reviews.allow("people", "get", PATH)
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, config("always"), registry=REGISTRY) as replica:
        status, document = await call(replica, "GET", PATH, "bob")
        assert status == 200
        described = Described(document)
        for name, verb in (("yes", "approve"), ("no", "reject")):
            await held(cluster, name)
            path = f"/api/v1/waiting/default/{name}/{verb}"
            status, answer = await call(replica, "POST", path, "alice")
            assert status == 200
            described.check("post", f"/api/v1/waiting/{{namespace}}/{{name}}/{verb}", answer)
        await expect_bound(cluster, "yes")
        cluster.delete_pod("no")
        await eventually(lambda: len(replica.daemon.core.queue) == 0, "the queue is empty")


async def test_to_explain_a_manifest_needs_the_verb_post(cluster: Cluster) -> None:
    letting(cluster)
    reviews = cluster.server.reviews
    reviews.add_user("dave", "dave", "askers")
    reviews.allow("askers", "post", "/api/v1/explain")
    cluster.add(make_worker("n1"))
    async with running_daemon(cluster, config("always"), registry=REGISTRY) as replica:
        server = replica.daemon.server
        assert server is not None
        for token, status in (("bob", 403), ("dave", 200), ("nobody", 401)):
            async with (
                aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
                session.post(
                    f"{server.url}/api/v1/explain", json=make_pod("p").obj(), ssl=False
                ) as answer,
            ):
                assert answer.status == status
