"""Our own webhook protocol: what is sent to each extension point, and what may come back.

`docs/plugins/webhooks.openapi.yaml` is the same for authors of webhooks; a test compares the two.
Reading an answer costs in proportion to what was asked: bytes are bounded where they
are read (`transport`), values here, and what is kept of an answer is cut to what people read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from scheduler.model.status import Code, Status
from scheduler.plugin_api.extension_points import MAX_SCORE
from scheduler.slices import checkpoint

API_VERSION = "equipoise.dev/v1alpha1"
MAX_REASONS = 8
MAX_REASON_LENGTH = 256
"""Reasons become events and conditions, and are kept: a webhook must not fill either."""

MAX_SECONDS = 86_400.0
"""Of a time to wait, in an answer: a pod must not be held for ever by a slip of the pen."""
MAX_NODE_NAMES = 100_000
MAX_STRINGS = 32 * 4096
STRINGS_PER_NODE = 32
"""How many strings an answer may have, in all and for each node in question: a rejection has a
name, two fields, a code and up to eight reasons."""

MAX_REFUSALS = 64
"""Different verdicts on nodes that are sent; the nodes of all further ones are sent together, so
that reasons take at most 128 KiB of a request."""
OTHER_REASONS = "other reasons"

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


class Refusal(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A verdict of another plugin, as a webhook gets it."""

    code: str
    plugin: str = ""
    """The plugin that gave it; empty if there is none."""
    reasons: list[str] = []
    node_names: list[str] | None = None
    """The nodes that it was given on, if it is on nodes."""


class WebhookRequest(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
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
    rejections: list[Refusal] | None = None
    """Post-filter: why the nodes do not fit, each of them in one entry."""
    rejection: Refusal | None = None
    """Unreserve: why what was booked is to be undone, if that is known."""


class _WebhookAnswer(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Base of all answers."""

    code: str = Code.SUCCESS.value
    reasons: tuple[str, ...] = ()


class StatusAnswer(_WebhookAnswer, frozen=True):
    """A verdict on the pod, or on the pod and the chosen node."""

    retry_after_seconds: float = 0.0
    """Pre-enqueue and permit: when to ask again."""
    timeout_seconds: float = 0.0
    """Permit with Wait: how long that is worth."""


class PreFilterAnswer(_WebhookAnswer, frozen=True):
    """A verdict on the pod, and perhaps the only nodes worth looking at."""

    node_names: tuple[str, ...] | None = None


class Rejection(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Why a node does not fit."""

    code: str = Code.UNSCHEDULABLE.value
    reasons: tuple[str, ...] = ()


class FilterAnswer(_WebhookAnswer, frozen=True):
    """The nodes that do not fit; all others do."""

    rejected: dict[str, Rejection] = {}


class _RawFilterAnswer(_WebhookAnswer, frozen=True):
    """The same with rejections to be read one by one, as there may be many."""

    rejected: dict[str, msgspec.Raw] = {}


class PostFilterAnswer(_WebhookAnswer, frozen=True):
    """What came of making room."""

    nominated_node: str | None = None


class ScoreAnswer(_WebhookAnswer, frozen=True):
    """A score from 0 to 100 for each node; those not named get 0."""

    scores: dict[str, int] = {}


class KeyAnswer(_WebhookAnswer, frozen=True):
    """The pod's place in the queue: the smaller, the sooner."""

    key: float = 0.0


_OK, _ERROR, _SKIP, _WAIT = Code.SUCCESS, Code.ERROR, Code.SKIP, Code.WAIT
_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)
_REJECTION_CODES = tuple(code.value for code in _REJECTIONS)
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
_ANSWERS: Mapping[str, type[_WebhookAnswer]] = {
    "queueSort": KeyAnswer,
    "preFilter": PreFilterAnswer,
    "filter": FilterAnswer,
    "postFilter": PostFilterAnswer,
    "score": ScoreAnswer,
}


def answer_type(point: str) -> type[_WebhookAnswer]:
    """The answer at a point."""
    return _ANSWERS.get(point, StatusAnswer)


_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    **{point: msgspec.json.Decoder(answer_type(point), strict=True) for point in PATHS},
    "filter": msgspec.json.Decoder(_RawFilterAnswer, strict=True),
}
_REJECTION_DECODER = msgspec.json.Decoder(Rejection, strict=True)


def allowed_codes(point: str) -> list[str]:
    """The codes that make sense at a point."""
    return [code.value for code in _ALLOWED[point]]


def read_answer(point: str, body: bytes, asked: Collection[str] = ()) -> Any:
    """An answer, checked; raises ValueError that names the field.

    ``asked`` are the nodes it may speak of. May be run in slices.
    """
    if body.count(b'"') > 2 * (MAX_STRINGS + STRINGS_PER_NODE * len(asked)):
        raise ValueError(f"more strings than an answer about {len(asked)} nodes can have")
    answer: Any = _DECODERS[point].decode(body or b"{}")
    if answer.code not in (allowed := allowed_codes(point)):
        raise ValueError(f"code: must be one of {', '.join(allowed)}, not {clean(answer.code)!r}")
    if isinstance(answer, _RawFilterAnswer):
        rejected = _read_rejections(answer.rejected, frozenset(asked))
        return FilterAnswer(code=answer.code, reasons=_cut(answer.reasons), rejected=rejected)
    if isinstance(answer, ScoreAnswer):
        _check_scores(answer.scores, frozenset(asked))
    elif isinstance(answer, KeyAnswer):
        _check_finite("key", answer.key)
    elif isinstance(answer, StatusAnswer):
        _check_seconds("retryAfterSeconds", answer.retry_after_seconds)
        _check_seconds("timeoutSeconds", answer.timeout_seconds)
    elif isinstance(answer, PreFilterAnswer) and answer.node_names is not None:
        if len(answer.node_names) > MAX_NODE_NAMES:
            raise ValueError(f"nodeNames: must not have more than {MAX_NODE_NAMES} items")
    elif isinstance(answer, PostFilterAnswer) and answer.nominated_node:
        _check_name("nominatedNode", answer.nominated_node)
    return msgspec.structs.replace(answer, reasons=_cut(answer.reasons))


def _check_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{name}: must be a finite number, not {value}")


def _check_seconds(name: str, value: float) -> None:
    _check_finite(name, value)
    if not 0 <= value <= MAX_SECONDS:
        raise ValueError(f"{name}: must be between 0 and {MAX_SECONDS:g}, not {value:g}")


def _check_name(name: str, value: str) -> None:
    if len(value) > MAX_REASON_LENGTH:
        raise ValueError(f"{name}: is longer than names of nodes are")


def _read_rejections(
    rejected: Mapping[str, msgspec.Raw], asked: Collection[str]
) -> dict[str, Rejection]:
    found: dict[str, Rejection] = {}
    for node, raw in rejected.items():
        checkpoint()
        field = f"rejected[{clean(node)!r}]"
        if node not in asked:
            raise ValueError(f"{field}: is not one of the nodes in question")
        try:
            rejection = _REJECTION_DECODER.decode(raw)
        except msgspec.DecodeError as fault:
            raise ValueError(f"{field}: {fault}") from None
        if rejection.code not in _REJECTION_CODES:
            choice = " or ".join(_REJECTION_CODES)
            raise ValueError(f"{field}.code: must be {choice}, not {clean(rejection.code)!r}")
        found[node] = rejection
    return found


def _check_scores(scores: Mapping[str, int], asked: Collection[str]) -> None:
    for node, score in scores.items():
        if node not in asked:
            raise ValueError(f"scores[{clean(node)!r}]: is not one of the nodes in question")
        if not 0 <= score <= MAX_SCORE:
            raise ValueError(
                f"scores[{clean(node)!r}]: must be between 0 and {MAX_SCORE}, not {score}"
            )


def _cut(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """As many reasons, and as much of each, as is ever shown: answers are kept for a while."""
    return tuple(map(clean, reasons[:MAX_REASONS]))


def status_of(answer: _WebhookAnswer | Rejection, plugin: str) -> Status:
    """The verdict in an answer, its reasons shortened to what fits an event."""
    code = Code(answer.code)
    reasons = tuple(map(clean, answer.reasons[:MAX_REASONS]))
    if not reasons and code is not Code.SUCCESS:
        reasons = (f"rejected by {plugin}",)
    return Status(code, reasons, plugin)


def refusal_of(status: Status, names: list[str] | None = None) -> Refusal:
    """A verdict of others, its reasons shortened like those of answers."""
    reasons = [clean(reason) for reason in status.reasons[:MAX_REASONS]]
    return Refusal(code=status.code.value, plugin=status.plugin, reasons=reasons, node_names=names)


def refusals_of(verdicts: Iterable[tuple[Status, list[str]]]) -> list[Refusal]:
    """Verdicts and the nodes they were given on, those on most nodes first; bounded in bytes."""
    largest = sorted(verdicts, key=lambda each: -len(each[1]))
    refusals = [refusal_of(status, names) for status, names in largest[:MAX_REFUSALS]]
    rest = [name for _, names in largest[MAX_REFUSALS:] for name in names]
    if rest:
        other = Status(Code.UNSCHEDULABLE, (OTHER_REASONS,))
        refusals.append(refusal_of(other, rest))
    return refusals


def clean(reason: str) -> str:
    """A reason on one line, and not longer than people read."""
    line = " ".join(reason[: 4 * MAX_REASON_LENGTH].split())
    return line if len(line) <= MAX_REASON_LENGTH else line[: MAX_REASON_LENGTH - 1] + "…"
