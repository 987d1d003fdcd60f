"""What requests ask for: parameters and bodies, checked; what is wrong is named (400)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from scheduler.explaining.queries import (
    MAX_REPLICAS,
    TIERS,
    DecisionsQuery,
    ExplainQuery,
    NodesQuery,
    QueueQuery,
)
from scheduler.kube.fields import Fault, oddities
from scheduler.model.objects import from_dict, without_nulls
from scheduler.model.pods import Pod
from scheduler.model.resources import CPU
from scheduler.model.selectors import Selector, SelectorError, parse_label_selector
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.serve.guards import BadRequest, HttpTooLarge

T = TypeVar("T", Pod, PersistentVolumeClaim)

DEFAULT_LIMIT = 500
MAX_LIMIT = 5000
MAX_MAP_NODES = 20_000
MAX_BODY_BYTES = 2**20
"""Of a manifest; the API server takes little more, and pods within the limits have far less."""
BODY_SECONDS = 5.0
MAX_CLAIMS = 64
"""That come with a pod."""
MAX_SELECTOR_LENGTH = 4096
MAX_FAULTS = 10
"""How many misspelt fields are named."""
MAX_ODDITIES = 1000
"""How many unknown fields are compared with known ones; each costs a tenth of a millisecond."""
UNNAMED = "what-if"
"""The name of a pod whose manifest has none."""


def limit_of(request: web.Request) -> int:
    """``limit``: how many entries at most."""
    return _bounded(request, "limit", DEFAULT_LIMIT, MAX_LIMIT)


def number(text: str) -> int | None:
    """A number of up to 64 bits, written in digits."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(2**64))
    return int(text) if digits and int(text) < 2**64 else None


def queue_query(request: web.Request) -> QueueQuery:
    """``limit``, ``namespace``, ``tier``, ``labelSelector`` and ``group``."""
    return QueueQuery(
        limit_of(request),
        request.query.get("namespace", ""),
        _one_of(request, "tier", ("", *TIERS)),
        _selector(request),
        _one_of(request, "group", ("", "false", "true")) == "true",
    )


def nodes_query(request: web.Request) -> NodesQuery:
    """``limit``, ``view`` and, of a map, ``resource``."""
    if _one_of(request, "view", ("", "list", "map")) != "map":
        if "resource" in request.query:
            raise BadRequest("resource needs view=map: a list has all resources")
        return NodesQuery(limit_of(request))
    limit = _bounded(request, "limit", MAX_MAP_NODES, MAX_MAP_NODES)
    return NodesQuery(limit, request.query.get("resource", "") or CPU)


def name_of(request: web.Request) -> str:
    """``name``: of a node."""
    name = request.query.get("name", "")
    if not name:
        raise BadRequest("name must be given")
    return name


def pod_of_query(request: web.Request) -> str:
    """``pod``: namespace/name."""
    return _pod(request)


def decisions_query(request: web.Request) -> DecisionsQuery:
    """``limit`` and ``pod``."""
    pod = _pod(request) if "pod" in request.query else ""
    return DecisionsQuery(limit_of(request), pod)


async def explain_query(request: web.Request) -> ExplainQuery:
    """``pod`` (GET) or a manifest (POST), and ``count``."""
    count = _bounded(request, "count", 0, MAX_REPLICAS) if "count" in request.query else None
    if request.method != "POST":
        return ExplainQuery(_pod(request), count=count)
    # In a thread: the loop that serves renews the lease, and a large body takes a while to read.
    manifest, claims = await asyncio.to_thread(question_of, await read_body(request))
    return ExplainQuery(manifest.key, manifest, claims, count)


async def read_body(request: web.Request) -> bytes:
    """The body, within bounds of bytes and time; kept for further calls. Empty unless POST."""
    if request.method != "POST":
        return b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {BODY_SECONDS:g} s") from None
    except (web.RequestPayloadError, ConnectionError) as fault:
        # Coded or cut otherwise than its headers say, or the caller has gone.
        raise BadRequest(f"the body cannot be read: {' '.join(str(fault).split())}") from None
    except RuntimeError:
        if request.transport is not None:
            raise
        raise BadRequest("the connection was closed before the body was there") from None
    except web.HTTPRequestEntityTooLarge:
        raise HttpTooLarge(f"the body must not exceed {MAX_BODY_BYTES} bytes") from None


def pod_of(body: bytes) -> Pod:
    """The pod of a manifest in JSON, with the defaults that matter; raises BadRequest."""
    return question_of(body)[0]


def question_of(body: bytes) -> tuple[Pod, tuple[PersistentVolumeClaim, ...]]:
    """The pod of a manifest, or of a List with the claims that are made with it."""
    try:
        raw = without_nulls(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise BadRequest(f"the body must be a Pod in JSON: {fault}") from None
    if isinstance(raw, dict) and raw.get("kind") == "List":
        return _of_list(raw.get("items"))
    return _named(_decoded(raw, Pod, "")), ()


def _of_list(items: Any) -> tuple[Pod, tuple[PersistentVolumeClaim, ...]]:
    items = items if isinstance(items, list) else []
    kinds = [each.get("kind", "Pod") if isinstance(each, dict) else "" for each in items]
    if kinds.count("Pod") != 1:
        raise BadRequest(f"items: must have one Pod, not {kinds.count('Pod')}")
    if len(items) > MAX_CLAIMS + 1:
        raise BadRequest(f"items: must have a Pod and at most {MAX_CLAIMS} claims")
    pods, claims = [], []
    for place, (each, kind) in enumerate(zip(items, kinds, strict=True)):
        if kind == "Pod":
            pods.append(_decoded(each, Pod, f"items[{place}]."))
        else:
            claims.append(_decoded(each, PersistentVolumeClaim, f"items[{place}]."))
    return _named(pods[0]), tuple(claims)


def _decoded(raw: Any, kind: type[T], where: str) -> T:
    """An object of a kind; what is wrong with it is named by its path, below ``where``."""
    name = kind.__name__
    given = raw.get("kind", "Pod") if isinstance(raw, dict) else type(raw).__name__
    if not isinstance(raw, dict) or given != name:
        raise BadRequest(f"{where}kind: must be {name}, not {_shown(given)}")
    if raw.get("apiVersion", "v1") != "v1":
        raise BadRequest(f"{where}apiVersion: must be v1, not {_shown(raw['apiVersion'])}")
    _check_fields({"kind": name, **raw}, where)
    try:
        return from_dict(raw, kind)
    except msgspec.ValidationError as fault:
        text, _, path = str(fault).partition(" - at `$")
        path = path.strip(".`")
        raise BadRequest(f"{where}{path}: {text}" if path else f"{where}{text}") from None


def _check_fields(raw: dict[str, Any], where: str) -> None:
    """Raise BadRequest if fields are misspelt, or if too many are unknown to look at each."""
    certain: list[str] = []
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and "uid" in metadata:
        return  # the API server has written it, which may be newer than the schemas
    for number, odd in enumerate(oddities({"apiVersion": "v1", **raw}), 1):
        if number > MAX_ODDITIES:
            certain.append(f"more than {MAX_ODDITIES} unknown fields or values")
            break
        if odd.fault is not Fault.UNKNOWN:
            certain.append(f"{where}{odd.path}: {odd.message}")
    if certain:
        more = f"; and {len(certain) - MAX_FAULTS} more" if len(certain) > MAX_FAULTS else ""
        raise BadRequest("; ".join(certain[:MAX_FAULTS]) + more)


def _named(pod: Pod) -> Pod:
    """The pod with a name and a namespace, and a uid that no pod has."""
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=pod.metadata.name or UNNAMED,
        namespace=pod.metadata.namespace or "default",
        uid=UNNAMED,
        deletion_timestamp=None,
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _pod(request: web.Request) -> str:
    pod = request.query.get("pod", "")
    namespace, _, name = pod.partition("/")
    if not namespace or not name or "/" in name:
        raise BadRequest(f"pod must be given as namespace/name, not {pod!r}")
    return pod


def _bounded(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    found = number(text)
    if found is None or not 0 < found <= most:
        raise BadRequest(f"{name} must be a number from 1 to {most}, not {text!r}")
    return found


def _one_of(request: web.Request, name: str, choices: Collection[str]) -> str:
    text = request.query.get(name, "")
    if text not in choices:
        known = ", ".join(filter(None, choices))
        raise BadRequest(f"{name} must be one of {known}, not {text!r}")
    return text


def _selector(request: web.Request) -> Selector:
    text = request.query.get("labelSelector", "")
    if len(text) > MAX_SELECTOR_LENGTH:
        raise BadRequest(f"labelSelector must not exceed {MAX_SELECTOR_LENGTH} characters")
    try:
        return parse_label_selector(text)
    except SelectorError as fault:
        raise BadRequest(f"labelSelector {fault}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
