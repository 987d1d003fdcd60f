"""Errors of requests to the API server, as one tree.

    KubeError
    ├── ApiError             the server answered, and the answer is a refusal
    │   ├── Invalid            400, 422
    │   ├── Unauthorized       401
    │   ├── Forbidden          403
    │   ├── NotFound           404
    │   ├── Conflict           409
    │   ├── Gone               410
    │   ├── TooManyRequests    429
    │   └── ServerError        5xx
    ├── Unreachable          nothing was sent: the request certainly had no effect
    ├── Ambiguous            sent, but no answer came: the request may have had its effect
    │   ├── Silent             nothing more arrived on an open connection for too long
    │   ├── Garbled            what arrived is not HTTP, or not what we asked for
    │   └── TooLarge           the answer has more bytes than we take
    ├── Outdated             nothing was sent: what was to be written is no longer right
    ├── ClusterUnreachable   no way to an API server was found at start-up
    └── WritesStopped        we no longer lead, or shut down: nothing may be written

The difference between `Unreachable` and `Ambiguous` is what callers that write must look at.
"""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises for bad input: objects can be nested deeper than a decoder follows, and
strings that are read need not be UTF-8."""
MAX_RETRY_AFTER_SECONDS = 60.0
"""A server that asks for a longer pause is tried again sooner: nothing here may wait for ever."""


class KubeError(Exception):
    """Base of the tree. `retriable`: the same request may succeed a little later."""

    retriable = False


class ApiError(KubeError):
    """The server refused. `reason` is the machine-readable word of its Status, such as Expired."""

    def __init__(
        self, status: int, reason: str = "", message: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Invalid(ApiError):
    """The server does not understand the request, or an object breaks its rules."""


class Unauthorized(ApiError):
    """The server does not know us, even with renewed credentials."""


class Forbidden(ApiError):
    """The server has authenticated the client and does not allow this."""


class NotFound(ApiError):
    """The object, or the whole resource, is not there."""


class Conflict(ApiError):
    """The object was changed first, has another uid, or already exists."""


class ResourceExpired(ApiError):
    """The resource version or continue token is too old: list again."""


class TooManyRequests(ApiError):
    """The server sheds load; honour `retry_after`."""

    retriable = True


class ServerError(ApiError):
    """The server failed. A write may have happened nevertheless, as with an etcd timeout."""

    retriable = True


class Unreachable(KubeError):
    """No connection: nothing was sent."""

    retriable = True


class Ambiguous(KubeError):
    """The answer was lost: the request may or may not have been carried out."""

    retriable = True


class Silent(Ambiguous):
    """The connection is open but has been quiet for longer than a living server would be."""


class Garbled(Ambiguous):
    """The response is not valid HTTP/1.1, or does not hold the requested objects."""


class TooLarge(Ambiguous):
    """The answer has more bytes than the caller accepts: request less."""


class ClusterUnreachable(KubeError):
    """No API server could be used at start-up. `tried` has a line for each way that was tried."""

    def __init__(self, tried: Sequence[str]) -> None:
        super().__init__("no cluster can be reached; tried " + "; ".join(tried))
        self.tried = list(tried)


class Outdated(KubeError):
    """Nothing was sent: what was to be written is no longer right."""


class WritesStopped(KubeError):
    """Writing is over for this process."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: ResourceExpired,
    422: Invalid,
    429: TooManyRequests,
}


class ErrorStatus(msgspec.Struct, frozen=True, gc=False):
    """The fields of a metav1.Status that describe a failure."""

    code: int = 0
    reason: str = ""
    message: str = ""


def error_from(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The typed error for a refusal; proxies that answer with something else than a Status count.

    `retry_after` is the header's value; only its form in seconds is used, as Kubernetes sends, and
    at most `MAX_RETRY_AFTER_SECONDS` of it.
    """
    try:
        details = msgspec.json.decode(body, type=ErrorStatus)
    except UNREADABLE:
        details = ErrorStatus(message=body[:200].decode(errors="replace").strip())
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    reason = details.reason or _phrase(status)
    seconds = None
    if retry_after and retry_after.isdecimal():
        seconds = min(float(retry_after), MAX_RETRY_AFTER_SECONDS)
    return kind(status, reason, details.message, seconds)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
