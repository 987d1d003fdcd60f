"""Refusals of the embedded API server, as the `metav1.Status` bodies clients parse.

Each function returns the exception to raise; texts, reasons and codes are those of the real server,
because clients (and people) match on them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class ApiFailure(Exception):
    """A request that is answered with a failure `Status`; `code` is the HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = None if details is None else dict(details)
        self.headers = dict(headers or {})
        self.continue_token = continue_token

    def status(self) -> dict[str, Any]:
        """The response body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            body["details"] = self.details
        return body


class FieldError(NamedTuple):
    """One invalid field: the cause type (`FieldValueInvalid` …), the field's path and the text."""

    type: str
    field: str
    text: str


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> dict[str, Any]:
    found = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in found.items() if value}


def not_found(plural: str, name: str, group: str = "") -> ApiFailure:
    """404: no object of that name."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return ApiFailure(404, "NotFound", message, _details(plural, group, name))


def no_such_resource() -> ApiFailure:
    """404: the path names no resource that this server has."""
    # The empty details matter: kubectl reads them without a look whether they are there.
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, name: str, group: str = "") -> ApiFailure:
    """409: create of a name that is taken."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, _details(plural, group, name))


def conflict(plural: str, name: str, why: str, group: str = "") -> ApiFailure:
    """409: the object is not in the state that the request supposes."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, _details(plural, group, name))


def forbidden(
    plural: str, name: str, why: str, group: str = "", causes: Iterable[Mapping[str, str]] = ()
) -> ApiFailure:
    """403: admission refuses."""
    details = _details(plural, group, name)
    if listed := [dict(cause) for cause in causes]:
        details["causes"] = listed
    message = f'{_qualified(plural, group)} "{name}" is forbidden: {why}'
    return ApiFailure(403, "Forbidden", message, details)


def invalid(kind: str, name: str, errors: Iterable[FieldError], group: str = "") -> ApiFailure:
    """422: the object itself is wrong, field by field."""
    found = list(errors)
    listed = [f"{error.field}: {error.text}" for error in found]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    details = _details(kind, group, name)
    details["causes"] = [
        {"reason": error.type, "message": error.text, "field": error.field} for error in found
    ]
    message = f'{_qualified(kind, group)} "{name}" is invalid: {text}'
    return ApiFailure(422, "Invalid", message, details)


def bad_request(message: str) -> ApiFailure:
    """400: the request does not parse."""
    return ApiFailure(400, "BadRequest", message)


def unauthorized() -> ApiFailure:
    """401: no or a wrong bearer token."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiFailure:
    """405: the resource exists but not this verb on it."""
    return ApiFailure(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def unsupported_media_type(accepted: Iterable[str]) -> ApiFailure:
    """415: a patch type that the resource does not have."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiFailure(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Iterable[str]) -> ApiFailure:
    """406: the client takes none of the representations there are."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return ApiFailure(406, "NotAcceptable", message)


def too_many_requests(
    message: str, retry_seconds: int, causes: Iterable[Mapping[str, str]] = ()
) -> ApiFailure:
    """429: not now."""
    details: dict[str, Any] = {"causes": [dict(cause) for cause in causes]}
    headers = {}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
        headers["Retry-After"] = str(retry_seconds)
    return ApiFailure(429, "TooManyRequests", message, details, headers=headers)


def not_implemented(message: str) -> ApiFailure:
    """501: the real server can do this, the embedded one cannot."""
    return ApiFailure(501, "NotImplemented", message)


def expired(message: str, continue_token: str = "") -> ApiFailure:
    """410: the version asked for has been compacted away."""
    return ApiFailure(410, "Expired", message, continue_token=continue_token)


def too_large_resource_version(asked: int, current: int) -> ApiFailure:
    """504: a resource version from the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiFailure(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def internal(message: str) -> ApiFailure:
    """500: what the real server answers when a refusal is not one of its API errors."""
    return ApiFailure(500, "InternalError", f"Internal error occurred: {message}")
