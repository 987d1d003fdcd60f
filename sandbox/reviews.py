"""Reviews: who holds which token, who may read which path, what the caller itself may do.

There are no roles here: code in the same process says what holds for others, with `add_user` and
`allow`. The caller itself may do everything.
"""

from collections.abc import Callable
from typing import Any

from sandbox.errors import FieldError, bad_request, invalid

Body = dict[str, Any]

MASTERS = "system:masters"

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWN_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_OWN_RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_OWN_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_EVERYBODY = {"username": "admin", "groups": [MASTERS, "system:authenticated"]}
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


class ReviewAnswers:
    """The users and rights that reviews are answered from."""

    def __init__(self) -> None:
        self._users: dict[str, Body] = {}
        self._rights: set[tuple[str, str, str]] = set()
        self._grants: set[tuple[str, str, str, str]] = set()

    def add_user(self, token: str, name: str, *groups: str) -> None:
        """From now on the token is this user's."""
        user = {"username": name, "uid": f"uid-of-{name}"}
        self._users[token] = user | {"groups": [*groups, "system:authenticated"]}

    def remove_user(self, token: str) -> None:
        """Revoke the token."""
        self._users.pop(token, None)

    def allow(self, who: str, verb: str, path: str) -> None:
        """Let a user, or a group, do `verb` to a path, or to all with a prefix: ``/debug/*``."""
        self._rights.add((who, verb, path))

    def forbid(self, who: str, verb: str, path: str) -> None:
        """Take that back."""
        self._rights.discard((who, verb, path))

    def grant(self, who: str, verb: str, resource: str, namespace: str) -> None:
        """Let a user, or a group, do `verb` to objects of a namespace: ``resource.group``."""
        self._grants.add((who, verb, resource, namespace))

    def handler(self, path: str) -> Callable[[Body], Body] | None:
        """What answers a POST to this path, if it is a review's."""
        handlers: dict[str, Callable[[Body], Body]] = {
            _TOKEN_REVIEWS: self._token,
            _ACCESS_REVIEWS: self._access,
            # The server does not authorise its own requests, so whoever asks may do everything.
            _OWN_ACCESS_REVIEWS: lambda review: review | {"status": {"allowed": True}},
            _OWN_RULES_REVIEWS: lambda review: review | {"status": _EVERYTHING},
            _OWN_REVIEWS: lambda review: review | {"status": {"userInfo": _EVERYBODY}},
        }
        return handlers.get(path)

    def _token(self, review: Body) -> Body:
        token = review.get("spec", {}).get("token")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        status: Body = {"user": {}}
        if user := self._users.get(token):
            status = {"authenticated": True, "user": user}
        return review | {"status": status}

    def _access(self, review: Body) -> Body:
        spec = review.get("spec", {})
        asked = spec.get("nonResourceAttributes", {})
        object_ = spec.get("resourceAttributes")
        who = {each for each in (spec.get("user"), *spec.get("groups", ())) if each}
        if not who:
            text = 'Invalid value: "": at least one of user or group must be specified'
            fault = FieldError("FieldValueInvalid", "spec.user", text)
            raise invalid("SubjectAccessReview", "", [fault], "authorization.k8s.io")
        allowed = self._granted(who, object_) if object_ else self._allowed(who, asked)
        return review | {"status": {"allowed": allowed}}

    def _granted(self, who: set[str], asked: Body) -> bool:
        resource = f"{asked.get('resource', '')}.{asked.get('group', '')}"
        right = (asked.get("verb", ""), resource, asked.get("namespace", ""))
        return MASTERS in who or any((subject, *right) in self._grants for subject in who)

    def _allowed(self, who: set[str], asked: Body) -> bool:
        verb, path = asked.get("verb", ""), asked.get("path", "")
        return MASTERS in who or any(
            subject in who and granted == verb and _covers(pattern, path)
            for subject, granted, pattern in self._rights
        )


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
