"""Who may read what: callers are identified and judged by the API server, as kube-scheduler does.

A caller shows a client certificate or a bearer token, or is `system:anonymous`. What it may read is
what the cluster's authorizers say of the path (`nonResourceURLs` in a ClusterRole); paths that
probes use are open to all.

Decisions about waiting pods are rights to objects (`resources` in a Role of the pod's namespace),
and never open: whoever decides is known, and the API server has agreed a moment ago.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.kube.reviews import Right, User
from scheduler.observe.logs import get_logger
from scheduler.serve.answers import Answers, CannotAsk, Questions
from scheduler.serve.guards import Forbidden, Unauthorized, Unavailable

log = get_logger(__name__)

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
"""Members may do everything, so nobody is asked about them."""

COMPLAINT_SECONDS = 60.0

DECISIONS = "/api/v1/waiting/"
"""POST below this path decides about a waiting pod."""

_NOT_VALID = "the token is not, or no longer, valid in this cluster"


class Reviewer(Protocol):
    """Whoever knows callers and their rights; raises KubeError when it cannot be asked."""

    async def identify(self, token: str) -> User | None:
        """Whose token this is, if anybody's."""

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may do so."""

    async def grants(self, user: User, right: Right) -> bool:
        """Whether the user may do something to an object."""


class Access:
    """Admits requests, or raises what the caller is told instead."""

    def __init__(
        self,
        reviewer: Reviewer,
        open_paths: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviewer = reviewer
        self._open = frozenset(path for path in open_paths if not path.endswith("*"))
        self._open_below = tuple(path[:-1] for path in open_paths if path.endswith("*"))
        self._clock = clock
        questions = Questions(clock)
        self._users: Answers[User | None] = Answers(questions, clock)
        self._rights: Answers[bool] = Answers(questions, clock)
        self._grants: Answers[bool] = Answers(questions, clock)
        # Tokens are kept as digests that mean nothing outside this process.
        self._digest_key = secrets.token_bytes(32)
        self._quiet_until = 0.0

    def middleware(self) -> Middleware:
        """What stands before every handler."""

        @web.middleware
        async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
            await self.admit(request)
            return await handler(request)

        return admitted

    async def admit(self, request: web.Request) -> None:
        """Return if the caller may have the answer; raises Unauthorized, Forbidden, Unavailable."""
        path, verb = request.path, request.method.lower()
        if is_decision(request):
            return  # its handler asks `authorize`
        if path in self._open or (self._open_below and path.startswith(self._open_below)):
            return
        try:
            user = await self._identify(request)
            if MASTERS in user.groups:
                return
            key = (user, verb, path)
            allowed = await self._rights.get(key, lambda: self._reviewer.allows(*key))
        except CannotAsk as fault:
            self._complain(fault)
            raise Unavailable("the API server cannot be asked who may read this") from fault
        if not allowed:
            raise Forbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"')

    async def authorize(self, request: web.Request, right: Right) -> User:
        """The caller, if they have the right; raises Unauthorized, Forbidden, Unavailable."""
        try:
            user = await self._identify(request, stale=False)
            if user is ANONYMOUS:
                raise Unauthorized("only known callers may decide: show a token or a certificate")
            if MASTERS in user.groups:
                return user
            granted = await self._grants.get(
                (user, right), lambda: self._reviewer.grants(user, right), stale=False
            )
        except CannotAsk as fault:
            self._complain(fault)
            raise Unavailable("the API server cannot be asked who may decide this") from fault
        if not granted:
            where = f'in the namespace "{right.namespace}"'
            what = f'"{right.resource}" in API group "{right.group}"'
            raise Forbidden(
                f'forbidden: User "{user.name}" cannot {right.verb} resource {what} {where}'
            )
        return user

    async def _identify(self, request: web.Request, *, stale: bool = True) -> User:
        user = _certified(request)
        if user is None:
            token = _bearer_token(request)
            if not token:
                return ANONYMOUS
            if not token.isascii():
                raise Unauthorized(_NOT_VALID)
            digest = hashlib.blake2b(token.encode(), key=self._digest_key).digest()
            user = await self._users.get(
                digest, lambda: self._reviewer.identify(token), stale=stale
            )
            if user is None:
                raise Unauthorized(_NOT_VALID)
        if AUTHENTICATED in user.groups:
            return user
        return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)

    def _complain(self, fault: CannotAsk) -> None:
        """Log that nobody could be asked, now and then: everybody can cause this."""
        if (now := self._clock()) >= self._quiet_until:
            self._quiet_until = now + COMPLAINT_SECONDS
            log.warning("Callers cannot be reviewed", error=str(fault))


def is_decision(request: web.Request) -> bool:
    """Whether the request would decide about a waiting pod."""
    return request.method == "POST" and request.path.startswith(DECISIONS)


def _bearer_token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _certified(request: web.Request) -> User | None:
    """Whom a client certificate names; TLS has verified it against the client authority."""
    certificate: dict[str, Any] | None = request.get_extra_info("peercert")
    if not certificate:
        return None
    subject = [pair for names in certificate.get("subject", ()) for pair in names]
    names = [value for kind, value in subject if kind == "commonName"]
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    return User(names[0], groups=groups) if names and names[0] else None
