"""The plain HTTP client of the contract tests: JSON in, JSON out, nothing that hides the server."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from types import MappingProxyType
from typing import Any, NamedTuple

import aiohttp

Body = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

PATIENCE = 300.0
"""Seconds after which something that should have happened counts as not happening."""


@dataclass(frozen=True)
class ApiEndpoint:
    """Where the API server under test listens, and what lets a client in."""

    url: str
    ssl: SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Reply(NamedTuple):
    """Status, body and headers of one response."""

    status: int
    body: Body
    headers: Mapping[str, str] = MappingProxyType({})

    def refused(self, status: int, reason: str) -> str:
        """Assert a failure `Status` of this code and reason; answers its message."""
        assert (self.status, self.body.get("reason")) == (status, reason), self.body
        assert self.body["kind"] == "Status"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        return str(self.body["message"])

    def ok(self, status: int = 200) -> Body:
        """Assert success; answers the body."""
        assert self.status == status, self.body
        return self.body


class Watch:
    """An open watch: events one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response

    async def next(self) -> tuple[str, Body]:
        """The next event's type and object."""
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        assert line, "the watch ended early"
        event = json.loads(line)
        return event["type"], event["object"]

    async def ended(self) -> bool:
        """Whether the server closes the stream without another event."""
        async with asyncio.timeout(PATIENCE):
            return not await self._response.content.readline()


class Client:
    """Requests to one API server."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: ApiEndpoint) -> None:
        self._session = session
        self._endpoint = endpoint

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request; the body is read whole. Bytes are sent as they are."""
        async with (
            asyncio.timeout(PATIENCE),
            self._session.request(
                method,
                self._endpoint.url + path,
                params=query,
                data=body if body is None or isinstance(body, bytes) else json.dumps(body),
                headers={"Content-Type": content_type, "Accept": accept},
                ssl=self._endpoint.ssl or True,
            ) as response,
        ):
            text = await response.text(errors="replace")
            body = json.loads(text) if text.startswith("{") else {"": text}
            return Reply(response.status, body, response.headers)

    async def get(self, path: str, **query: str) -> Reply:
        return await self.request("GET", path, query=query)

    async def create(self, path: str, body: Body) -> Reply:
        return await self.request("POST", path, body)

    async def replace(self, path: str, body: Body) -> Reply:
        return await self.request("PUT", path, body)

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Reply:
        return await self.request("PATCH", path, body, content_type=content_type)

    async def delete(self, path: str, options: Body | None = None, **query: str) -> Reply:
        return await self.request("DELETE", path, options, query=query)

    @asynccontextmanager
    async def watch(
        self, path: str, *, accept: str = "application/json", **query: str
    ) -> AsyncIterator[Watch]:
        """A watch on a collection."""
        async with self._session.get(
            self._endpoint.url + path,
            params={"watch": "true", **query},
            headers={"Accept": accept},
            ssl=self._endpoint.ssl or True,
        ) as response:
            yield Watch(response)

    async def version_of(self, path: str) -> str:
        """The current resourceVersion of a collection."""
        listed = (await self.get(path, limit="1")).ok()
        return str(listed["metadata"]["resourceVersion"])


@asynccontextmanager
async def connect(endpoint: ApiEndpoint) -> AsyncIterator[Client]:
    """A client with its own connections."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers=endpoint.headers, timeout=timeout) as session:
        yield Client(session, endpoint)


@asynccontextmanager
async def new_namespace(client: Client) -> AsyncIterator[str]:
    """A namespace of a test's own, ready for pods; deleted afterwards."""
    name = f"contract-{secrets.token_hex(6)}"
    (await client.create("/api/v1/namespaces", {"metadata": {"name": name}})).ok(201)
    # Pods are admitted only once the namespace has its default service account.
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    async with client.watch(accounts, fieldSelector="metadata.name=default") as watch:
        await watch.next()
    try:
        yield name
    finally:
        await client.delete(f"/api/v1/namespaces/{name}")


def a_pod(name: str, **spec: Any) -> Body:
    """A minimal pod that no scheduler picks up."""
    return {
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": False,
            "schedulerName": "contract-test",
            "containers": [{"name": "main", "image": "registry.example/pause:1"}],
            **spec,
        },
    }


def a_deployment(name: str, replicas: int = 2, **container: Any) -> Body:
    """A Deployment whose pods no scheduler picks up."""
    main = {"name": "main", "image": "registry.example/pause:1", **container}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"schedulerName": "contract-test", "containers": [main]},
            },
        },
    }


def a_lease(name: str, **labels: str) -> Body:
    """The plainest namespaced object: nothing but clients touches it."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {"holderIdentity": "someone"}}


def a_binding(name: str, node: str = "contract-node", **metadata: Any) -> Body:
    """What a scheduler posts to pods/binding."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def pods_in(namespace: str) -> str:
    """The path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def deployments_in(namespace: str) -> str:
    """The path of a namespace's Deployments."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def leases_in(namespace: str) -> str:
    """The path of a namespace's leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def names(listed: Body) -> list[str]:
    """The names of a list's items, in order."""
    return [item["metadata"]["name"] for item in listed["items"]]


def condition(pod: Body, kind: str) -> Body:
    """A pod's condition of one type; empty if it has none."""
    found = [each for each in pod["status"].get("conditions", ()) if each["type"] == kind]
    return found[0] if found else {}
