"""The wire format of kube-scheduler's extenders (``k8s.io/kube-scheduler/extender/v1``).

Go writes the fields under their own names, capitals included, and reads them whatever their case.
Extenders in other languages rely on that, so we read them likewise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.slices import checkpoint
from scheduler.webhooks.protocol import MAX_STRINGS, STRINGS_PER_NODE, clean

MAX_EXTENDER_PRIORITY = 10
STRINGS_PER_WHOLE_NODE = 1024
"""How many strings an answer may have for each node that it sends back whole."""


class NodeList(msgspec.Struct):
    """A ``v1.NodeList``; Go sends its empty metadata too."""

    metadata: dict[str, str]
    items: list[msgspec.Raw]


class ExtenderArgs(msgspec.Struct, rename="pascal"):
    """What a filter or prioritize verb is sent: nodes, or their names."""

    pod: msgspec.Raw
    nodes: NodeList | None
    node_names: list[str] | None


class BindingArgs(msgspec.Struct, rename="pascal"):
    """What a bind verb is sent."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class MetaPod(msgspec.Struct):
    """A victim by its uid."""

    uid: str = msgspec.field(name="UID")


class WireVictims(msgspec.Struct):
    """The victims on a node: objects, or `MetaPod`."""

    pods: list[Any] = msgspec.field(name="Pods")
    violations: int = msgspec.field(name="NumPDBViolations")


class PreemptionArgs(msgspec.Struct, rename="pascal"):
    """What a preempt verb is sent: victims, or their uids."""

    pod: msgspec.Raw
    node_name_to_victims: dict[str, WireVictims] | None
    node_name_to_meta_victims: dict[str, WireVictims] | None


class FilterResult(msgspec.Struct, frozen=True):
    """What a filter verb answers. None: the field was not there."""

    nodes: frozenset[str] | None
    node_names: frozenset[str] | None
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


class VictimRefs(msgspec.Struct, frozen=True):
    """The victims on a node, as a preempt verb answers."""

    uids: tuple[str, ...]
    violations: int


class _Priority(msgspec.Struct, forbid_unknown_fields=True):
    """A priority as Go writes it; others are read name by name."""

    host: str = msgspec.field(name="Host", default="")
    score: int = msgspec.field(name="Score", default=0)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = _Meta()


class _Items(msgspec.Struct):
    items: list[_Named] | None = None


class _Object:
    """The members of a JSON object by their names in whatever case; null counts as absent."""

    def __init__(self, body: bytes | msgspec.Raw, path: str = "") -> None:
        members: dict[str, msgspec.Raw] | None = _decode(body, dict[str, msgspec.Raw] | None, path)
        self._path = path
        self._members = {name.lower(): raw for name, raw in (members or {}).items()}

    def get(self, name: str, type_: Any, default: Any) -> Any:
        raw = self._members.get(name.lower())
        if raw is None or bytes(raw) == b"null":
            return default
        return _decode(raw, type_, f"{self._path}.{name}" if self._path else name)


_PRIORITIES = msgspec.json.Decoder(list[_Priority])


def _decode(body: bytes | msgspec.Raw, type_: Any, path: str) -> Any:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as fault:
        raise ValueError(f"{path}: {fault}" if path else str(fault)) from None


def read_filter(body: bytes, *, items: int = 0, whole: bool = False) -> FilterResult:
    """What a filter verb answers about so many nodes; raises ValueError that names the field."""
    _bound(body, items, STRINGS_PER_WHOLE_NODE if whole else STRINGS_PER_NODE)
    answer = _Object(body)
    nodes: _Items | None = answer.get("Nodes", _Items, None)
    names: list[str] | None = answer.get("NodeNames", list[str], None)
    return FilterResult(
        None if nodes is None else frozenset(n.metadata.name for n in nodes.items or ()),
        None if names is None else frozenset(names),
        answer.get("FailedNodes", dict[str, str], {}),
        answer.get("FailedAndUnresolvableNodes", dict[str, str], {}),
        answer.get("Error", str, ""),
    )


def read_priorities(body: bytes, *, items: int = 0) -> dict[str, int]:
    """What a prioritize verb answers about so many nodes; raises ValueError, naming the field."""
    _bound(body, items)
    try:
        return {each.host: each.score for each in _PRIORITIES.decode(body)}
    except msgspec.DecodeError:
        pass  # in another case, or something else than numbers: the slow way finds out
    hosts: list[msgspec.Raw] = _decode(body, list[msgspec.Raw] | None, "") or []
    scores: dict[str, int] = {}
    for i, raw in enumerate(hosts):
        checkpoint()
        host = _Object(raw, f"[{i}]")
        scores[host.get("Host", str, "")] = host.get("Score", int, 0)
    return scores


def read_binding(body: bytes) -> str:
    """The error that a bind verb answers with, "" if it is none; raises ValueError."""
    error: str = _Object(body).get("Error", str, "")
    return error


def read_preemption(body: bytes, *, items: int = 0) -> dict[str, VictimRefs]:
    """What a preempt verb answers about so many victims; raises ValueError that names the field."""
    _bound(body, items)
    field = "NodeNameToMetaVictims"
    nodes: dict[str, msgspec.Raw] = _Object(body).get(field, dict[str, msgspec.Raw], {})
    return {node: _victims(raw, f"{field}[{clean(node)!r}]") for node, raw in nodes.items()}


def _victims(raw: msgspec.Raw, path: str) -> VictimRefs:
    checkpoint()
    victims = _Object(raw, path)
    pods: list[msgspec.Raw] = victims.get("Pods", list[msgspec.Raw], [])
    uids: list[str] = []
    for i, pod in enumerate(pods):
        checkpoint()
        uids.append(_Object(pod, f"{path}.Pods[{i}]").get("UID", str, ""))
    return VictimRefs(tuple(uids), victims.get("NumPDBViolations", int, 0))


def _bound(body: bytes, items: int, strings: int = STRINGS_PER_NODE) -> None:
    """Refuse what would take long to read for its number of values."""
    if body.count(b'"') > 2 * (MAX_STRINGS + strings * items):
        raise ValueError(f"more strings than an answer about {items} items can have")
