"""Authentication and authorization of callers by the API server, as kube-scheduler does it.

A caller shows a client certificate or a bearer token, or is `system:anonymous`. A token that comes
through the API server's proxy of pods is in a header of our own. What it may read is
what the cluster's authorizers say of the path (`nonResourceURLs` in a ClusterRole); paths that
probes use are open to all.

Decisions about waiting pods are rights to objects (`resources` in a Role of the pod's namespace),
and never open: the caller is authenticated, and the API server has authorized it a moment ago.
"""

import asyncio
import hashlib
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler import machine
from scheduler.kube.errors import KubeError
from scheduler.kube.pacing import RateLimit
from scheduler.kube.reviews import Right, User
from scheduler.observe.logs import get_logger
from scheduler.serve.guards import HttpForbidden, HttpUnauthorized, Unavailable

# Reviews cost a request to the API server: they are cached for a while, shared, and bounded.
#
# Any client that reaches the port can cause reviews, with invalid tokens. So the number of
# questions is limited, by rate and at one time, and who was let in a moment ago is let in again
# when the API server cannot be asked: a scrape goes on through an outage, and through a flood of
# such strangers.


FRESH_SECONDS = 10.0
"""How long an answer holds without asking again; kube-scheduler's default for both reviews."""
STALE_SECONDS = 300.0
"""How long a yes may be used when the question cannot be asked."""
MAX_ANSWERS = 512
"""Of each kind, yes and no; the oldest go first."""
MAX_QUESTIONS = 16
QUESTIONS_PER_SECOND = 20.0
QUESTIONS_BURST = 100

Value = TypeVar("Value")


class CannotAsk(Exception):
    """There is no answer now, neither old nor new; the text says why."""


class _CachedReview(NamedTuple, Generic[Value]):
    value: Value
    since: float


class Questions:
    """How many questions may be asked, of whatever kind."""

    def __init__(self, clock: Callable[[], float] = machine.monotonic) -> None:
        self._clock = clock
        self._limit = RateLimit(QUESTIONS_PER_SECOND, QUESTIONS_BURST, clock=clock)
        self._open_again = 0.0
        self._under_way = 0

    def begin(self, *, by_stranger: bool) -> None:
        """Count a question in; raises CannotAsk if strangers have asked too many."""
        if by_stranger:
            if self._under_way >= MAX_QUESTIONS:
                raise CannotAsk(f"{MAX_QUESTIONS} reviews are under way")
            # A reservation cannot be returned, so none is made before the last one is due.
            now = self._clock()
            if now < self._open_again:
                raise CannotAsk(f"there were more than {QUESTIONS_PER_SECOND:g} reviews a second")
            self._open_again = now + self._limit.reserve()
        self._under_way += 1

    def end(self) -> None:
        """Count it out."""
        self._under_way -= 1


class ReviewCache(Generic[Value]):
    """Answers by key. A no (None, False) is never used when stale, nor does it push a yes out.

    Who has a yes that is merely stale is no stranger: the question is asked however many others
    there are.
    """

    def __init__(
        self, questions: Questions, clock: Callable[[], float] = machine.monotonic
    ) -> None:
        self._questions = questions
        self._clock = clock
        self._yes: OrderedDict[Hashable, _CachedReview[Value]] = OrderedDict()
        self._no: OrderedDict[Hashable, _CachedReview[Value]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[Value | CannotAsk]] = {}

    async def get(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, stale: bool = True
    ) -> Value:
        """The answer for `key`, from memory or by `ask`, which may raise KubeError.

        Concurrent calls with the same arguments share one review. Raises CannotAsk, also
        instead of a `stale` answer if that is not allowed.
        """
        known = self._yes.get(key) or self._no.get(key)
        age = self._clock() - known.since if known is not None else math.inf
        if known is not None and age < FRESH_SECONDS:
            return known.value
        good_enough = known is not None and bool(known.value) and age < STALE_SECONDS
        answer = await self._asked(key, ask, by_stranger=not good_enough)
        if not isinstance(answer, CannotAsk):
            return answer
        if known is not None and good_enough and stale:
            return known.value
        raise answer

    async def _asked(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, by_stranger: bool
    ) -> Value | CannotAsk:
        task = self._asking.get(key)
        if task is None:
            # A task of its own: the first caller may disconnect before the others.
            question = self._ask(key, ask, by_stranger=by_stranger)
            task = self._asking[key] = asyncio.create_task(question, name="review")
            task.add_done_callback(lambda _: self._asking.pop(key))
        return await asyncio.shield(task)

    async def _ask(
        self, key: Hashable, ask: Callable[[], Awaitable[Value]], *, by_stranger: bool
    ) -> Value | CannotAsk:
        try:
            self._questions.begin(by_stranger=by_stranger)
        except CannotAsk as refusal:
            return refusal
        try:
            value = await ask()
        except KubeError as fault:
            return CannotAsk(str(fault))
        finally:
            self._questions.end()
        self._remember(key, value)
        return value

    def _remember(self, key: Hashable, value: Value) -> None:
        kept, other = (self._yes, self._no) if value else (self._no, self._yes)
        other.pop(key, None)
        kept[key] = _CachedReview(value, self._clock())
        kept.move_to_end(key)
        if len(kept) > MAX_ANSWERS:
            kept.popitem(last=False)


log = get_logger(__name__)

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
"""Members may do everything, without a SubjectAccessReview."""

COMPLAINT_SECONDS = 60.0

PASSED_ON = "Equipoise-Authorization"
"""Credentials of a caller who comes through the API server, which keeps Authorization to itself."""

DECISIONS = "/api/v1/waiting/"
"""POST below this path decides about a waiting pod."""

_NOT_VALID = "the token is not, or no longer, valid in this cluster"


class Reviewer(Protocol):
    """Authenticates and authorizes callers; raises KubeError if the API server fails to."""

    async def identify(self, token: str) -> User | None:
        """The user of a token; None if it is not valid."""

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may do so."""

    async def grants(self, user: User, right: Right) -> bool:
        """Whether the user may do something to an object."""


class AccessControl:
    """Admits requests, or raises the error that answers them."""

    def __init__(
        self,
        reviewer: Reviewer,
        open_paths: Collection[str],
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._reviewer = reviewer
        self._open = frozenset(path for path in open_paths if not path.endswith("*"))
        self._open_below = tuple(path[:-1] for path in open_paths if path.endswith("*"))
        self._clock = clock
        questions = Questions(clock)
        self._users: ReviewCache[User | None] = ReviewCache(questions, clock)
        self._rights: ReviewCache[bool] = ReviewCache(questions, clock)
        self._grants: ReviewCache[bool] = ReviewCache(questions, clock)
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
            raise HttpForbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"')

    async def authorize(self, request: web.Request, right: Right) -> User:
        """The caller, if they have the right; raises Unauthorized, Forbidden, Unavailable."""
        try:
            user = await self._identify(request, stale=False)
            if user is ANONYMOUS:
                raise HttpUnauthorized(
                    "only known callers may decide: show a token or a certificate"
                )
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
            raise HttpForbidden(
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
                raise HttpUnauthorized(_NOT_VALID)
            digest = hashlib.blake2b(token.encode(), key=self._digest_key).digest()
            user = await self._users.get(
                digest, lambda: self._reviewer.identify(token), stale=stale
            )
            if user is None:
                raise HttpUnauthorized(_NOT_VALID)
        if AUTHENTICATED in user.groups:
            return user
        return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)

    def _complain(self, fault: CannotAsk) -> None:
        """Log that no review was answered, now and then: any caller can cause this."""
        if (now := self._clock()) >= self._quiet_until:
            self._quiet_until = now + COMPLAINT_SECONDS
            log.warning("Callers cannot be authenticated or authorized", error=str(fault))


def is_decision(request: web.Request) -> bool:
    """Whether the request would decide about a waiting pod."""
    return request.method == "POST" and request.path.startswith(DECISIONS)


def _bearer_token(request: web.Request) -> str:
    """The caller's token. Only without Authorization may another header have it: one credential."""
    given = request.headers.get("Authorization")
    if given is None:
        given = request.headers.get(PASSED_ON, "")
    scheme, _, token = given.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _certified(request: web.Request) -> User | None:
    """The user of a client certificate, which TLS has verified against the client authority."""
    certificate: dict[str, Any] | None = request.get_extra_info("peercert")
    if not certificate:
        return None
    subject = [pair for names in certificate.get("subject", ()) for pair in names]
    names = [value for kind, value in subject if kind == "commonName"]
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    return User(names[0], groups=groups) if names and names[0] else None
