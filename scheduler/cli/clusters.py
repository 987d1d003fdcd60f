"""The cluster of the user's kubeconfig: its objects, and pods behind its API server.

Requests to a pod go through the API server (`pods/proxy`), so no port has to be forwarded. The API
server keeps the Authorization header to itself; the user's token is passed on in a header of ours.
It is sent to an API server whose certificate is verified, and to nothing else.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import ssl
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from scheduler.cli.addresses import (
    LARGEST_ANSWER,
    NoAnswer,
    ProxiedCall,
    Refused,
    decoded,
    own_words,
)

if TYPE_CHECKING:  # loading takes longer than all the rest of a quick command
    from scheduler.kube.client import KubeClient
    from scheduler.kube.credentials import ApiAccess
    from scheduler.kube.http1 import HttpResponse

PASSED_ON = "Equipoise-Authorization"
"""The header that `scheduler.serve.access` reads where Authorization is missing."""
TIMEOUT_SECONDS = 15.0
TOKEN_SECONDS = 600
"""How long the token of a viewer is good: the API server grants no less."""

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class KubeconfigChoice:
    """Which kubeconfig, and which of its contexts; empty: the usual ones."""

    file: str = ""
    context: str = ""

    @property
    def given(self) -> bool:
        """Whether the user chose."""
        return bool(self.file or self.context)


class NotThere(Refused):
    """The API server knows no such object."""


class Cluster:
    """One API server, with the user's credentials. Raises `NoAnswer` and `Refused`."""

    def __init__(self, choice: KubeconfigChoice, token: str = "") -> None:
        self._choice = choice
        self._given = token

    @cached_property
    def _runner(self) -> asyncio.Runner:
        runner = asyncio.Runner()
        atexit.register(runner.close)
        return runner

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        from scheduler.kube.errors import KubeError

        try:
            return self._runner.run(work)
        except KubeError as fault:
            raise NoAnswer(str(fault)) from None

    @cached_property
    def _access(self) -> ApiAccess:
        """Address and credentials; an exec plugin of the kubeconfig may ask the user to log in."""
        from scheduler.kube.credentials import Credentials, find_source
        from scheduler.observe.logs import setup_nothing

        setup_nothing()

        async def loaded() -> ApiAccess:
            choice = self._choice
            source = find_source(choice.file or None, choice.context or None, None)
            self._credentials = Credentials(source)
            return await self._credentials.current()

        return self._run(loaded())

    @property
    def configured(self) -> bool:
        """Whether there is a kubeconfig, or an account in a pod, at all."""
        from scheduler.kube.credentials import find_source
        from scheduler.kube.errors import ClusterUnreachable

        try:
            find_source(self._choice.file or None, self._choice.context or None, None)
        except ClusterUnreachable:
            return False
        return True

    @property
    def server(self) -> str:
        """Where the API server is."""
        return self._access.server

    @property
    def verified(self) -> bool:
        """Whether the API server proves who it is."""
        tls = self._access.tls
        proven = isinstance(tls, ssl.SSLContext) and tls.verify_mode == ssl.CERT_REQUIRED
        return proven and self.server.startswith("https:")

    @property
    def namespace(self) -> str:
        """The namespace of the context, as kubectl uses it."""
        _ = self._access
        return self._credentials.source.namespace or "default"

    @property
    def has_token(self) -> bool:
        """Whether the kubeconfig, or the user, has a token that can be passed on."""
        return bool(self._given) or (self._access.authorization or "").startswith("Bearer ")

    @cached_property
    def _plain(self) -> KubeClient:
        return self._client({})

    def _client(self, headers: Mapping[str, str]) -> KubeClient:
        from scheduler.kube.client import KubeClient
        from scheduler.observe.metrics import Metrics

        _ = self._access

        async def made() -> KubeClient:
            return KubeClient(self._credentials, Metrics(), headers=headers)

        client = self._run(made())
        atexit.register(lambda: self._runner.run(client.close()))
        return client

    def read(self, path: str, **params: str) -> Json:
        """An object or a list; raises `NotThere` if there is none."""
        return self._send(self._plain, "GET", path, params)

    def create(self, path: str, body: Json) -> Json:
        """What the API server makes of an object."""
        return self._send(self._plain, "POST", path, {}, body)

    def _send(
        self,
        client: KubeClient,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Json | None = None,
    ) -> Json:
        answer = self._exchange(client, method, path, params, body)
        if answer.status >= 300:
            raise _refused(answer, f"{self.server}{path}")
        found: Json = decoded(f"{self.server}{path}", answer.body)
        return found

    def _exchange(
        self,
        client: KubeClient,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Json | None,
    ) -> HttpResponse:
        return self._run(
            client.exchange(
                method,
                path,
                params=params or None,
                body=body,
                timeout=TIMEOUT_SECONDS,
                limit=LARGEST_ANSWER,
            )
        )

    def pass_on(self, namespace: str, pod: str, call: ProxiedCall, viewer: str) -> Any:
        """The JSON answer of a pod to a request that the API server passes on.

        The port is the first that the pod declares. ``viewer`` is the service account whose
        token is used if the user has none.
        """
        proxied = f"/api/v1/namespaces/{namespace}/pods/https:{pod}:/proxy"
        path = proxied + quote(call.path, safe="/")
        client = self._passing_on(namespace, viewer)
        answer = self._exchange(client, call.method, path, dict(call.query), call.body)
        if answer.status < 300:
            return decoded(f"{self.server}{path}", answer.body)
        said = own_words(answer.body)
        if not said:
            raise _refused(answer, f"{self.server}{path}")
        hint = ""
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            hint = "\n" + self._who(namespace, viewer)
        raise Refused(said + hint, answer.status)

    def _passing_on(self, namespace: str, viewer: str) -> KubeClient:
        """The client whose requests carry the user's token for the scheduler."""
        if "_carrying" not in vars(self):
            token = self._token(namespace, viewer)
            headers = {PASSED_ON: f"Bearer {token}"} if token else {}
            self._carrying = self._client(headers)
        return self._carrying

    def _token(self, namespace: str, viewer: str) -> str:
        if not self.verified:
            if self._given:
                raise Refused(
                    f"{self.server} has no verified certificate, so no token is sent there: "
                    "name the scheduler's address with --server"
                )
            return ""
        if self._given:
            return self._given
        scheme, _, token = (self._access.authorization or "").partition(" ")
        return token if scheme == "Bearer" else self._token_of(namespace, viewer)

    def _token_of(self, namespace: str, viewer: str) -> str:
        """A token of the viewer's account, for users with a certificate; empty if not allowed."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{viewer}/token"
        try:
            answer = self.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
        except Refused:
            return ""
        return str(answer.get("status", {}).get("token", ""))

    def _who(self, namespace: str, viewer: str) -> str:
        """The user that the scheduler authenticated, and what to do."""
        way_out = f"--token $(kubectl -n {namespace} create token {viewer})"
        if not self.verified:
            return (
                f"No token was sent: {self.server} does not prove who it is. "
                "Name the scheduler's address with --server."
            )
        if self.has_token:
            return f"It was asked with your token; another one: {way_out}"
        return (
            "Your kubeconfig has no token, and a client certificate does not pass through the "
            f"API server. Pass one that may do this: {way_out}"
        )


def _refused(answer: HttpResponse, url: str) -> Refused:
    """The words of the API server."""
    try:
        said = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        said = f"{url} answers {answer.status}"
    if answer.status == HTTPStatus.FORBIDDEN:
        said += "\nThe chart's rbac.viewers gives the rights to find and reach the scheduler."
    kind = NotThere if answer.status == HTTPStatus.NOT_FOUND else Refused
    return kind(said, answer.status)
