"""Authentication and authorization by the API server: TokenReview, SubjectAccessReview."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.errors import UNREADABLE, Ambiguous

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

REVIEW_TIMEOUT_SECONDS = 10.0

Review = TypeVar("Review")


class User(msgspec.Struct, frozen=True, gc=False):
    """A user, with all that authorizers look at."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What the authenticator adds, such as the pod that a token was issued to."""


class Right(msgspec.Struct, frozen=True, gc=False):
    """To do something to an object: what a rule of a Role grants."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


class _UserInfo(msgspec.Struct, gc=False):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, gc=False):
    authenticated: bool = False
    user: _UserInfo | None = None


class _TokenReview(msgspec.Struct, gc=False):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct, gc=False):
    allowed: bool = False


class _AccessReview(msgspec.Struct, gc=False):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Reviews:
    """The two questions, each one request that is tried once; they raise KubeError."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def identify(self, token: str) -> User | None:
        """The user of a token; None if it is not valid, or no longer."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = _decoded(await self._post(TOKEN_REVIEWS, body), _TokenReview).status
        if not status.authenticated or status.user is None or not status.user.username:
            return None
        info = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted(info.extra.items()))
        return User(info.username, info.uid, tuple(info.groups), extra)

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the cluster lets `user` do `verb` to a path that is no resource's."""
        return await self._allows(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def grants(self, user: User, right: Right) -> bool:
        """Whether the cluster lets `user` do something to an object."""
        return await self._allows(user, {"resourceAttributes": msgspec.to_builtins(right)})

    async def _allows(self, user: User, attributes: Mapping[str, object]) -> bool:
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
            **attributes,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        return _decoded(await self._post(ACCESS_REVIEWS, body), _AccessReview).status.allowed

    async def _post(self, path: str, body: Mapping[str, object]) -> bytes:
        return await self._client.request("POST", path, body=body, timeout=REVIEW_TIMEOUT_SECONDS)


def _decoded(raw: bytes, kind: type[Review]) -> Review:
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE as error:
        raise Ambiguous(f"the review cannot be read: {error}") from error
