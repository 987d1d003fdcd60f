"""Our own webhook protocol: what is sent to each extension point, and what may come back.

`docs/plugins/webhooks.openapi.yaml` says the same for those who write webhooks; a test compares.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from scheduler.framework.interface import MAX_SCORE
from scheduler.model.status import Code, Status

API_VERSION = "equipoise.dev/v1alpha1"
MAX_REASONS = 8
MAX_REASON_LENGTH = 256
"""Reasons become events and conditions, and are kept: a webhook must not fill either."""

UNRESERVE = "unreserve"

PATHS: Mapping[str, str] = {
    "preEnqueue": "pre-enqueue",
    "queueSort": "queue-sort",
    "preFilter": "pre-filter",
    "filter": "filter",
    "afterFilter": "after-filter",
    "postFilter": "post-filter",
    "preScore": "pre-score",
    "score": "score",
    "postScore": "post-score",
    "reserve": "reserve",
    UNRESERVE: "unreserve",
    "permit": "permit",
    "preBind": "pre-bind",
    "bind": "bind",
    "postBind": "post-bind",
}
"""Where each point is below a webhook's URL."""


class Request(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What a webhook is asked."""

    api_version: str = msgspec.field(name="apiVersion")
    point: str
    uid: str
    """The same for repetitions of one call."""
    profile: str
    pod: msgspec.Raw
    node_names: list[str] | None = None
    """The nodes in question."""
    nodes: list[msgspec.Raw] | None = None
    """The same as objects, if the webhook wants them."""
    node: str | None = None
    """The node that was chosen."""


class _Answer(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Base of all answers."""

    code: str = Code.SUCCESS.value
    reasons: tuple[str, ...] = ()


class StatusAnswer(_Answer, frozen=True):
    """A verdict on the pod, or on the pod and the chosen node."""

    retry_after_seconds: float = 0.0
    """Pre-enqueue and permit: when to ask again."""
    timeout_seconds: float = 0.0
    """Permit with Wait: how long that is worth."""


class PreFilterAnswer(_Answer, frozen=True):
    """A verdict on the pod, and perhaps the only nodes worth looking at."""

    node_names: tuple[str, ...] | None = None


class Rejection(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Why a node will not do."""

    code: str = Code.UNSCHEDULABLE.value
    reasons: tuple[str, ...] = ()


class FilterAnswer(_Answer, frozen=True):
    """The nodes that will not do; all others will."""

    rejected: dict[str, Rejection] = {}


class PostFilterAnswer(_Answer, frozen=True):
    """What came of making room."""

    nominated_node: str | None = None


class ScoreAnswer(_Answer, frozen=True):
    """A score from 0 to 100 for each node; those not named get 0."""

    scores: dict[str, int] = {}


class KeyAnswer(_Answer, frozen=True):
    """The pod's place in the queue: the smaller, the sooner."""

    key: float = 0.0


Answer = TypeVar("Answer", bound=_Answer)

_OK, _ERROR, _SKIP, _WAIT = Code.SUCCESS, Code.ERROR, Code.SKIP, Code.WAIT
_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)
_ALLOWED: Mapping[str, tuple[Code, ...]] = {
    "preEnqueue": (_OK, *_REJECTIONS, Code.PENDING, _ERROR),
    "queueSort": (_OK, _ERROR),
    "preFilter": (_OK, _SKIP, *_REJECTIONS, _ERROR),
    "filter": (_OK, _ERROR),
    "afterFilter": (_OK, *_REJECTIONS, _ERROR),
    "postFilter": (_OK, *_REJECTIONS, _ERROR),
    "preScore": (_OK, _SKIP, _ERROR),
    "score": (_OK, _ERROR),
    "postScore": (_OK, *_REJECTIONS, _ERROR),
    "reserve": (_OK, *_REJECTIONS, Code.PENDING, _ERROR),
    UNRESERVE: (_OK, _ERROR),
    "permit": (_OK, _WAIT, *_REJECTIONS, _ERROR),
    "preBind": (_OK, _SKIP, *_REJECTIONS, _ERROR),
    "bind": (_OK, _SKIP, *_REJECTIONS, _ERROR),
    "postBind": (_OK, _ERROR),
}
_ANSWERS: Mapping[str, type[_Answer]] = {
    "queueSort": KeyAnswer,
    "preFilter": PreFilterAnswer,
    "filter": FilterAnswer,
    "postFilter": PostFilterAnswer,
    "score": ScoreAnswer,
}
_DECODERS = {
    point: msgspec.json.Decoder(_ANSWERS.get(point, StatusAnswer), strict=True) for point in PATHS
}


def answer_type(point: str) -> type[_Answer]:
    """What comes back from a point."""
    return _ANSWERS.get(point, StatusAnswer)


def allowed_codes(point: str) -> list[str]:
    """The codes that make sense at a point."""
    return [code.value for code in _ALLOWED[point]]


def read_answer(point: str, body: bytes, asked: Collection[str] = ()) -> Any:
    """An answer, checked; raises ValueError that names the field.

    ``asked`` are the nodes it may speak of.
    """
    answer: Any = _DECODERS[point].decode(body or b"{}")
    if answer.code not in (allowed := allowed_codes(point)):
        raise ValueError(f"code: must be one of {', '.join(allowed)}, not {answer.code!r}")
    if isinstance(answer, FilterAnswer):
        if answer.rejected:
            _check_rejections(answer.rejected, frozenset(asked))
    elif isinstance(answer, ScoreAnswer):
        if answer.scores:
            _check_scores(answer.scores, frozenset(asked))
    elif isinstance(answer, KeyAnswer):
        _check_number("key", answer.key)
    elif isinstance(answer, StatusAnswer):
        for field in ("retry_after_seconds", "timeout_seconds"):
            value = getattr(answer, field)
            name = "retryAfterSeconds" if field.startswith("retry") else "timeoutSeconds"
            _check_number(name, value)
            if value < 0:
                raise ValueError(f"{name}: must not be negative, not {value:g}")
    return answer


def _check_number(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{name}: must be a finite number, not {value}")


def _check_rejections(rejected: Mapping[str, Rejection], asked: Collection[str]) -> None:
    for node, rejection in rejected.items():
        if node not in asked:
            raise ValueError(f"rejected[{node!r}]: is not one of the nodes in question")
        if rejection.code not in (code.value for code in _REJECTIONS):
            choice = " or ".join(code.value for code in _REJECTIONS)
            raise ValueError(f"rejected[{node!r}].code: must be {choice}, not {rejection.code!r}")


def _check_scores(scores: Mapping[str, int], asked: Collection[str]) -> None:
    for node, score in scores.items():
        if node not in asked:
            raise ValueError(f"scores[{node!r}]: is not one of the nodes in question")
        if not 0 <= score <= MAX_SCORE:
            raise ValueError(f"scores[{node!r}]: must be between 0 and {MAX_SCORE}, not {score}")


def status_of(answer: _Answer | Rejection, plugin: str) -> Status:
    """The verdict in an answer, its reasons shortened to what fits an event."""
    code = Code(answer.code)
    reasons = tuple(map(clean, answer.reasons[:MAX_REASONS]))
    if not reasons and code is not Code.SUCCESS:
        reasons = (f"rejected by {plugin}",)
    return Status(code, reasons, plugin)


def clean(reason: str) -> str:
    """A reason on one line, and not longer than people read."""
    line = " ".join(reason.split())
    return line if len(line) <= MAX_REASON_LENGTH else line[: MAX_REASON_LENGTH - 1] + "…"
