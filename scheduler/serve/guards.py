"""What surrounds every handler: errors as JSON, and a few headers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.observe.logs import get_logger

log = get_logger(__name__)

CONTINUE = "100-continue"


class RequestError(Exception):
    """A request that cannot be answered; the message is shown to the client."""

    status = 500
    headers: ClassVar[Mapping[str, str]] = {}


class BadRequest(RequestError):
    """The request makes no sense: 400."""

    status = 400


class HttpUnauthorized(RequestError):
    """The credentials of the caller are not valid: 401."""

    status = 401
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": "Bearer"}


class HttpForbidden(RequestError):
    """The caller is known, if only as anonymous, and may not have this: 403."""

    status = 403


class HttpNotFound(RequestError):
    """The object does not exist: 404."""

    status = 404


class HttpConflict(RequestError):
    """It exists, and is not as the request assumes: 409."""

    status = 409


class HttpTooLarge(RequestError):
    """The body is too large: 413."""

    status = 413


class Unavailable(RequestError):
    """It may exist, but not now, for instance before the first sync or on a standby: 503."""

    status = 503


class HttpTooManyRequests(RequestError):
    """Others are being served, try again: 429."""

    status = 429
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "1"}


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure of a handler into a JSON answer; unexpected ones are logged, not shown."""
    try:
        return await handler(request)
    except RequestError as error:
        return _error(error.status, str(error), error.headers)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return _error(405, f"only {allowed} here", {"Allow": allowed})
    except web.HTTPNotFound:
        return _error(404, f"no such path: {request.path}")
    except web.HTTPException as error:
        return _error(error.status, error.text or error.reason)
    except Exception as error:
        log.error("Request failed", exc=error, path=request.path)
        return _error(500, "internal error; the log has the details")


Served = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def known_expectations(handler: Served) -> Served:
    """Answer 417 to requests that expect anything but ``100-continue``, before all else.

    The library does so too, before any middleware, but repeats the header in its answer, and fails
    where the header is no text.
    """

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", CONTINUE).lower() == CONTINUE:
            return await handler(request)
        response = _error(417, f"Expect: only {CONTINUE} is known here")
        await harden(request, response)
        return response

    return serve


async def harden(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add what keeps browsers and caches from being clever, and do not advertise versions."""
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "equipoise"


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = {"error": {"code": status, "message": message}}
    return web.json_response(body, status=status, headers=headers)
