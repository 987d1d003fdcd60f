"""An in-memory Kubernetes API server for demonstrations and tests: HTTP in front of a `Registry`.

It serves what a scheduler and people with a stock kubectl need so faithfully that one set of
contract tests holds for it and for the real server. Left out: authorization of its own requests,
answers in protobuf, most rules of validation, containers (logs, exec), metrics, and of the
controllers all but those that a cluster cannot do without (namespace deletion, default service
accounts); `sandbox.controllers` has more. New nodes are not tainted not-ready.
"""

import random
import socket
import ssl
from types import TracebackType
from typing import Any, Protocol, Self

from aiohttp import web

from sandbox import (
    discovery,
    field_validation,
    media_types,
    openapi,
    openapi_v2,
    requests,
    server_side_apply,
)
from sandbox.errors import (
    ApiFailure,
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_implemented,
    unauthorized,
)
from sandbox.faults import Faults, reset
from sandbox.listing import list_page
from sandbox.media_types import Form
from sandbox.registry import Clock, Registry, WriteOptions, utc_now
from sandbox.representations import Objects, representation
from sandbox.requests import Address
from sandbox.resources import KUBERNETES_VERSION, Resource
from sandbox.reviews import ReviewAnswers
from sandbox.store import Store, Version, encode
from sandbox.views import encoded
from sandbox.watching import Watch

_HEALTH_PATHS = frozenset({"/livez", "/readyz", "/healthz"})
_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": KUBERNETES_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_AGGREGATED_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STREAMS = frozenset({"attach", "ephemeralcontainers", "exec", "log", "portforward"})
_NO_CONTAINERS = (
    "the playground runs no containers: there are no logs, no processes and no ports to reach"
)


class Audit(Protocol):
    """Told of every request."""

    def arrived(self, method: str, path: str) -> object:
        """A request is here; `path` with its query. What is returned comes back in `answered`."""

    def answered(self, request: object, status: int) -> None:
        """It was answered; 0: it was not. A watch is answered when it ends."""


class ApiServer:
    """The server; `async with ApiServer() as server` runs it on a free port.

    `registry` is the cluster's content, open to code in the same process; `reviews` holds the
    rights for token and access reviews; `faults` injects failures; `audit` is told of all requests.
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
        self.audit: Audit | None = None
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

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, *, listening: socket.socket | None = None
    ) -> None:
        """Listen, or use a socket that listens already; port 0 takes a free one."""
        handle = self._handle if self.audit is None else self._handle_audited
        server = web.Server(handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site: web.BaseSite
        if listening is not None:
            site = web.SockSite(self._runner, listening, ssl_context=self._tls)
        else:
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

    async def _handle_audited(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self.audit is not None, "else requests are handled without it"
        noted, status = self.audit.arrived(request.method, request.path_qs), 0
        try:
            response = await self._handle(request)
            status = response.status
            return response
        finally:
            self.audit.answered(noted, status)

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
            response = await self._dispatch(request)
            self.faults.after(request)
            return response
        if drop == "after":
            await self._dispatch(request)
        reset(request)
        # Never arrives: the connection is gone. aiohttp requires a response nevertheless.
        return web.Response(status=500)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read() if request.body_exists else b""
        if request.path.endswith("/bindings") and request.method == "POST":
            return self._legacy_bind(request, raw)
        if review := self.reviews.handler(request.path):
            if request.method != "POST":
                raise method_not_allowed()
            return _json(encode(review(_body(request, raw))), 201)
        address = requests.parse_path(self.registry.catalog, request.path)
        if address is None:
            return self._informational(request)
        if address.subresource in _STREAMS:
            raise not_implemented(_NO_CONTAINERS)
        match request.method:
            case "GET":
                return await self._read(request, address)
            case "POST":
                return self._post(request, address, _body(request, raw))
            case "PUT" if address.name:
                return self._put(request, address, _body(request, raw))
            case "PATCH" if address.name:
                return self._patch(request, address, raw)
            case "DELETE" if not address.subresource:
                return self._delete(request, address, raw)
            case _:
                raise method_not_allowed()

    async def _read(self, request: web.BaseRequest, address: Address) -> web.StreamResponse:
        query, resource, registry = request.query, address.resource, self.registry
        if "get" not in resource.verbs:
            raise method_not_allowed()
        if address.subresource == "scale":
            return _json(encode(registry.scale(resource, address.key)))
        form = media_types.chosen(request.headers.get("Accept", ""), media_types.OBJECTS)
        shown = representation(form, resource, query.get("includeObject", ""), registry.clock)
        if requests.is_watch(query):
            options = requests.watch_options(query, self._bookmark_seconds, self._rng)
            selection = requests.selection(address, query)
            watch = Watch(resource, registry.store, selection, options, self.faults, shown)
            return await watch.serve(request)
        if address.name:
            body = shown.one(registry.get(resource, address.key))
        else:
            list_options = requests.list_options(query, registry.store)
            selection = requests.selection(address, query)
            page = list_page(registry.store, resource, selection, list_options)
            body = shown.many(page.versions, page.metadata)
        return _json(body, media_type=shown.media_type)

    def _put(
        self, request: web.BaseRequest, address: Address, body: dict[str, Any]
    ) -> web.Response:
        resource, key = address.resource, address.key
        options = _options(request)
        if address.subresource == "scale":
            return _json(encode(self.registry.rescale(resource, key, body, options)))
        warnings = _warnings(resource, body, options)
        existed = self.registry.table(resource).get(key) is not None
        version = self.registry.update(resource, key, body, _status_only(address), options)
        return _object(resource, version, 200 if existed else 201, warnings)

    def _patch(self, request: web.BaseRequest, address: Address, raw: bytes) -> web.Response:
        resource, key = address.resource, address.key
        kind, options = request.content_type, _options(request)
        applied = kind == server_side_apply.CONTENT_TYPE
        patch = media_types.decoded_yaml(raw) if applied else media_types.decoded_json(raw)
        if address.subresource == "scale":
            return _json(encode(self.registry.patch_scale(resource, key, kind, patch, options)))
        warnings = _warnings(resource, patch, options) if applied else {}
        existed = self.registry.table(resource).get(key) is not None
        version = self.registry.patch(resource, key, kind, patch, _status_only(address), options)
        return _object(resource, version, 200 if existed else 201, warnings)

    def _post(
        self, request: web.BaseRequest, address: Address, body: dict[str, Any]
    ) -> web.Response:
        options = _options(request)
        if address.subresource in {"binding", "eviction"}:
            named = body.setdefault("metadata", {}).setdefault("name", address.name)
            if named != address.name:
                kind = address.subresource.capitalize()
                raise bad_request(f"name in URL does not match name in {kind} object")
            if address.subresource == "binding":
                return self._bind(address.namespace, body)
            self.registry.evict(address.namespace, address.name, body, options)
            return _json(encode(_success(201)), 201)
        if address.name or (address.resource.namespaced and not address.namespace):
            raise method_not_allowed()
        warnings = _warnings(address.resource, body, options)
        version = self.registry.create(address.resource, address.namespace, body, options)
        return _object(address.resource, version, 201, warnings)

    def _legacy_bind(self, request: web.BaseRequest, raw: bytes) -> web.Response:
        parts = request.path.strip("/").split("/")
        if len(parts) != 5 or parts[:3] != ["api", "v1", "namespaces"]:
            raise no_such_resource()
        return self._bind(parts[3], _body(request, raw))

    def _bind(self, namespace: str, binding: dict[str, Any]) -> web.Response:
        self.registry.bind(namespace, binding)
        return _json(encode(_success(201)), 201)

    def _delete(self, request: web.BaseRequest, address: Address, raw: bytes) -> web.Response:
        resource = address.resource
        body = _body(request, raw) if raw else {}
        options = requests.delete_options(body, request.query)
        if not address.name:
            return self._delete_collection(request, address, options)
        dry_run = _options(request, options).dry_run
        version, gone = self.registry.delete(resource, address.key, options, dry_run=dry_run)
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
        dry_run = _options(request, options).dry_run
        deleted = [
            self.registry.delete(resource, each.key, dict(options), dry_run=dry_run)[0]
            for each in chosen
        ]
        metadata = {"resourceVersion": str(store.revision)}
        return _json(Objects(resource).many(deleted, metadata))

    def _informational(self, request: web.BaseRequest) -> web.Response:
        """Health, version and discovery."""
        path = request.path
        if path in _HEALTH_PATHS:
            return web.Response(text="ok")
        catalog, parts = self.registry.catalog, path.strip("/").split("/")
        if parts == ["version"]:
            return _json(encode(_VERSION))
        if parts[0] == "openapi":
            return self._openapi(parts[1:])
        accept = request.headers.get("Accept", "")
        if media_types.chosen(accept, media_types.DISCOVERIES) is Form.DISCOVERY:
            document = discovery.aggregated(catalog, parts)
            if document is not None:
                return _json(encode(document), media_type=_AGGREGATED_TYPE)
        document = discovery.document(catalog, parts)
        if document is None:
            raise no_such_resource()
        return _json(encode(document))

    def _openapi(self, parts: list[str]) -> web.Response:
        catalog = self.registry.catalog
        document: dict[str, Any] | None = None
        match parts:
            case ["v2"]:
                return _json(openapi_v2.document(catalog), media_type=openapi_v2.MEDIA_TYPE)
            case ["v3"]:
                document = openapi.index(catalog)
            case ["v3", *path]:
                document = openapi.document(catalog, "/".join(path))
        if document is None:
            raise no_such_resource()
        return _json(encode(document))


def _options(request: web.BaseRequest, body: dict[str, Any] | None = None) -> WriteOptions:
    return requests.write_options(request.query, body, request.headers.get("User-Agent", ""))


def _body(request: web.BaseRequest, raw: bytes) -> dict[str, Any]:
    return media_types.decoded_body(request.content_type, raw)


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


def _warnings(resource: Resource, body: Any, options: WriteOptions) -> dict[str, str]:
    """The header that warns of unknown fields; refuses them if they are refused."""
    if not isinstance(body, dict):
        return {}
    found = field_validation.check(resource, body, options.field_validation)
    quoted = (text.replace('"', r"\"") for text in found)
    return {"Warning": ", ".join(f'299 - "{text}"' for text in quoted)} if found else {}


def _object(
    resource: Resource, version: Version, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return _json(encoded(resource, version), status, headers)


def _json(
    body: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
    media_type: str = media_types.JSON,
) -> web.Response:
    return web.Response(
        body=body, status=status, headers={"Content-Type": media_type, **(headers or {})}
    )
