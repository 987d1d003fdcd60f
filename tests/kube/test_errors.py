"""Refusals become typed errors, whichever server or proxy sent them."""

import pytest

from scheduler.kube import errors
from scheduler.kube.errors import ApiError, error_from


@pytest.mark.parametrize(
    ("status", "type_", "retriable"),
    [
        (400, errors.Invalid, False),
        (401, errors.Unauthorized, False),
        (403, errors.Forbidden, False),
        (404, errors.NotFound, False),
        (405, ApiError, False),
        (409, errors.Conflict, False),
        (410, errors.ResourceExpired, False),
        (422, errors.Invalid, False),
        (429, errors.TooManyRequests, True),
        (500, errors.ServerError, True),
        (503, errors.ServerError, True),
        (599, errors.ServerError, True),
    ],
)
def test_status_decides_the_type(status: int, type_: type[ApiError], retriable: bool) -> None:
    error = error_from(status, b"{}")
    assert type(error) is type_
    assert error.retriable is retriable


def test_a_status_body_gives_reason_and_message() -> None:
    error = error_from(409, b'{"reason": "AlreadyExists", "message": "leases \\"x\\" exists"}')
    assert (error.reason, error.message) == ("AlreadyExists", 'leases "x" exists')


@pytest.mark.parametrize(
    "body", [b"<html>bad gateway</html>", b"\xff\xfe", b'{"reason": 5}', b"[]"]
)
def test_a_body_that_is_no_status_still_gives_an_error(body: bytes) -> None:
    error = error_from(502, body)
    assert error.reason == "Bad Gateway"
    assert error.retriable


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_retry_after_is_read_in_seconds(header: str | None, seconds: float | None) -> None:
    assert error_from(429, b"", header).retry_after == seconds


@pytest.mark.parametrize("body", [b'{"message": "\xff"}', b"[" * 5000], ids=["no text", "deep"])
def test_a_body_that_cannot_be_read_is_still_a_refusal(body: bytes) -> None:
    assert type(error_from(409, body)) is errors.Conflict


def test_a_pause_without_end_is_cut() -> None:
    assert error_from(429, b"{}", "9" * 400).retry_after == errors.MAX_RETRY_AFTER_SECONDS
    assert error_from(429, b"{}", "5").retry_after == 5.0
