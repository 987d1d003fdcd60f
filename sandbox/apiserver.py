"""An in-memory Kubernetes API server for demonstrations and tests: HTTP in front of a `Registry`.

It serves what a scheduler needs so faithfully that one set of contract tests holds for it and for
the real server. Left out: authorization of its own requests, dry runs, server-side apply, the
schemas of CRDs, tables, OpenAPI, and all controllers but those that a cluster cannot do without
(namespace deletion, default service accounts). New nodes are not tainted not-ready.
"""

import random
import ssl
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from sandbox import requests
from sandbox.errors import (
    ApiFailure,
    bad_request,
    method_not_allowed,
    no_such_resource,
    unauthorized,
)
from sandbox.faults import Faults, reset
from sandbox.listing import list_body
from sandbox.registry import Clock, Registry, utc_now
from sandbox.requests import Address
from sandbox.resources import Resource
from sandbox.reviews import ReviewAnswers
from sandbox.store import Store, Version, encode
from sandbox.views import encoded, encoded_item
from sandbox.watching import Watch

_HEALTH_PATHS = frozenset({"/livez", "/readyz", "/healthz"})
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+sandbox", "platform": "linux/amd64"}


class ApiServer:
    """The server; `async with ApiServer() as server` runs it on a free port.

    `registry` is the cluster's content, open to code in the same process; `reviews` holds the
    rights for token and access reviews; `faults` injects failures.
    The content outlives `stop`, so `start` again on the same port is a restart.
    """

    def __init__(
        self,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        validate: bool = True,
        history: int = 10_000,
        bookmark_seconds: float = 60.0,
        clock: Clock = utc_now,
        rng: random.Random | None = None,
    ) -> None:
        self._rng = rng or random.Random()
        self.registry = Registry(Store(history), validate=validate, clock=clock, rng=self._rng)
        self.faults = Faults(self.registry.store.compact)
        self.reviews = ReviewAnswers()
        self._authorization = f"Bearer {token}" if token else ""
        self._token = token
        self._tls = tls
        self._bookmark_seconds = bookmark_seconds
        self._runner: web.ServerRunner | None = None
        self.host = ""
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self.host, self.port = self._runner.addresses[0][:2]

    async def stop(self) -> None:
        """Break all connections and stop listening; the content stays."""
        if self._runner is not None:
            self.faults.cut_watches()
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def kubeconfig(self) -> dict[str, Any]:
        """A kubeconfig document for clients of this server."""
        user = {"token": self._token} if self._token else {}
        cluster = {"server": self.url}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "sandbox", "user": user}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        }

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if self._authorization and request.headers.get("Authorization") != self._authorization:
                raise unauthorized()
            if self.faults.armed:
                return await self._handle_with_faults(request)
            return await self._dispatch(request)
        except ApiFailure as error:
            return _json(encode(error.status()), error.code, error.headers)

    async def _handle_with_faults(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.faults.before(request)
        if self.faults.pretending(request):
            return _json(encode(_success(201)), 201)
        drop = self.faults.dropping(request)
        if drop is None:
            return await self._dispatch(request)
        if drop == "after":
            await self._dispatch(request)
        reset(request)
        # Never arrives: the connection is gone. aiohttp requires a response nevertheless.
        return web.Response(status=500)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        if "dryRun" in request.query:
            raise bad_request("dryRun is not supported")
        raw = await request.read() if request.body_exists else b""
        if request.path.endswith("/bindings") and request.method == "POST":
            return self._legacy_bind(request.path, raw)
        if review := self.reviews.handler(request.path):
            if request.method != "POST":
                raise method_not_allowed()
            return _json(encode(review(requests.decode_body(raw))), 201)
        address = requests.parse_path(self.registry.catalog, request.path)
        if address is None:
            return self._informational(request.path)
        match request.method:
            case "GET":
                return await self._read(request, address)
            case "POST":
                return self._post(address, raw)
            case "PUT" if address.name:
                return self._put(address, requests.decode_body(raw))
            case "PATCH" if address.name:
                version = self.registry.patch(
                    address.resource,
                    address.key,
                    request.content_type,
                    requests.decode_json(raw),
                    _status_only(address),
                )
                return _object(address.resource, version)
            case "DELETE" if not address.subresource:
                return self._delete(request, address, raw)
            case _:
                raise method_not_allowed()

    async def _read(self, request: web.BaseRequest, address: Address) -> web.StreamResponse:
        query = request.query
        if requests.is_watch(query):
            options = requests.watch_options(query, self._bookmark_seconds, self._rng)
            selection = requests.selection(address, query)
            watch = Watch(address.resource, self.registry.store, selection, options, self.faults)
            return await watch.serve(request)
        if address.name:
            return _object(address.resource, self.registry.get(address.resource, address.key))
        store = self.registry.store
        list_options = requests.list_options(query, store)
        selection = requests.selection(address, query)
        return _json(list_body(store, address.resource, selection, list_options))

    def _put(self, address: Address, body: dict[str, Any]) -> web.Response:
        resource, key = address.resource, address.key
        existed = self.registry.table(resource).get(key) is not None
        version = self.registry.update(resource, key, body, _status_only(address))
        return _object(resource, version, 200 if existed else 201)

    def _post(self, address: Address, raw: bytes) -> web.Response:
        body = requests.decode_body(raw)
        if address.subresource == "binding":
            named = body.setdefault("metadata", {}).setdefault("name", address.name)
            if named != address.name:
                raise bad_request("name in URL does not match name in Binding object")
            return self._bind(address.namespace, body)
        if address.name or (address.resource.namespaced and not address.namespace):
            raise method_not_allowed()
        version = self.registry.create(address.resource, address.namespace, body)
        return _object(address.resource, version, 201)

    def _legacy_bind(self, path: str, raw: bytes) -> web.Response:
        parts = path.strip("/").split("/")
        if len(parts) != 5 or parts[:3] != ["api", "v1", "namespaces"]:
            raise no_such_resource()
        return self._bind(parts[3], requests.decode_body(raw))

    def _bind(self, namespace: str, binding: dict[str, Any]) -> web.Response:
        self.registry.bind(namespace, binding)
        return _json(encode(_success(201)), 201)

    def _delete(self, request: web.BaseRequest, address: Address, raw: bytes) -> web.Response:
        resource = address.resource
        options = requests.delete_options(raw, request.query)
        if not address.name:
            return self._delete_collection(request, address, options)
        version, gone = self.registry.delete(resource, address.key, options)
        if gone and not resource.returns_deleted:
            details = {
                "name": address.name,
                "kind": resource.plural,
                "uid": version.body["metadata"]["uid"],
            }
            if resource.group:
                details["group"] = resource.group
            return _json(encode(_success() | {"details": details}))
        return _object(resource, version)

    def _delete_collection(
        self, request: web.BaseRequest, address: Address, options: dict[str, Any]
    ) -> web.Response:
        resource, store = address.resource, self.registry.store
        selection = requests.selection(address, request.query)
        chosen = [each for each in store.table(resource.table).list_at() if each in selection]
        deleted = [self.registry.delete(resource, each.key, dict(options))[0] for each in chosen]
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        metadata = {"metadata": {"resourceVersion": str(store.revision)}}
        items = b",".join(encoded_item(resource, version) for version in deleted)
        return _json(encode(head | metadata)[:-1] + b',"items":[' + items + b"]}")

    def _informational(self, path: str) -> web.Response:
        """Health, version and discovery."""
        if path in _HEALTH_PATHS:
            return web.Response(text="ok")
        catalog, parts = self.registry.catalog, path.strip("/").split("/")
        document: dict[str, Any] | None = None
        match parts:
            case ["version"]:
                document = dict(_VERSION)
            case ["api"]:
                document = {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}
            case ["api", version]:
                document = catalog.resource_list("", version)
            case ["apis"]:
                document = catalog.group_list()
            case ["apis", group]:
                document = catalog.group(group)
            case ["apis", group, version]:
                document = catalog.resource_list(group, version)
        if document is None:
            raise no_such_resource()
        return _json(encode(document))


def _status_only(address: Address) -> str:
    if address.subresource not in {"", "status"}:
        raise method_not_allowed()
    return address.subresource


def _success(code: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    return body | {"code": code} if code else body


def _object(resource: Resource, version: Version, status: int = 200) -> web.Response:
    return _json(encoded(resource, version), status)


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
