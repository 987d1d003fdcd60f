"""Unknown fields and enum values of an object, as the API server would report them.

For objects that come from files: the API server refuses, or drops with a warning, what is spelt
wrongly, and nothing else would notice. The fields are those of the client library's models, which
may be older than the cluster; so an unknown field is a mistake only if it looks like a known one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

_CLOSE = 0.8
"""How alike two names are, from 0 to 1, of which one is taken for a misspelling of the other."""
_GROUPS = ("v1", "apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1")
_LIST = re.compile(r"list\[(\w+)\]")
_MAP = re.compile(r"dict\(str, (\w+)\)")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("V1NodeSelectorRequirement", "operator"): (*_OPERATORS, "Gt", "Lt"),
    ("V1LabelSelectorRequirement", "operator"): _OPERATORS,
    ("V1Toleration", "operator"): ("Exists", "Equal", "Lt", "Gt"),
    ("V1Toleration", "effect"): ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("V1Taint", "effect"): ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("V1TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("V1TopologySpreadConstraint", "nodeAffinityPolicy"): ("Honor", "Ignore"),
    ("V1TopologySpreadConstraint", "nodeTaintsPolicy"): ("Honor", "Ignore"),
    ("V1PodSpec", "preemptionPolicy"): ("PreemptLowerPriority", "Never"),
    ("V1PodSpec", "restartPolicy"): ("Always", "OnFailure", "Never"),
    ("V1ContainerPort", "protocol"): ("TCP", "UDP", "SCTP"),
}


_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""Resources that containers may request without a domain, besides huge pages."""

_Fields = Mapping[str, "_Fields"]
_ANYTHING: _Fields = {}
_NAMED_VALUE: _Fields = {"name": _ANYTHING, "value": _ANYTHING}
_AMOUNTS: _Fields = dict.fromkeys(("name", "capacity", "allocatable", "available"), _ANYTHING)
_COMMON: _Fields = dict.fromkeys(("apiVersion", "kind", "metadata", "status"), _ANYTHING)
_CUSTOM: Mapping[tuple[str, str], _Fields] = {
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): {
        **_COMMON,
        "spec": dict.fromkeys(("minMember", "minResources", "scheduleTimeoutSeconds"), _ANYTHING),
    },
    ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"): {
        **_COMMON,
        "topologyPolicies": _ANYTHING,
        "attributes": _NAMED_VALUE,
        "zones": {
            **dict.fromkeys(("name", "type", "parent"), _ANYTHING),
            "costs": _NAMED_VALUE,
            "attributes": _NAMED_VALUE,
            "resources": _AMOUNTS,
        },
    },
}
"""The fields of custom resources, of which the library has no models; a list has its items'."""


class Oddity(NamedTuple):
    """A field that the API server would not take, or may not know."""

    path: str
    message: str
    certain: bool
    """It is a mistake; otherwise it may be newer than the library."""


def oddities(body: Mapping[str, Any]) -> Iterator[Oddity]:
    """Suspicious fields of an object of a kind in the library. Cost: one look at each value.

    What the API server has written (it has a uid) needs no look.
    """
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping) and "uid" in metadata:
        return
    version = body.get("apiVersion")
    custom = _CUSTOM.get((str(version), str(body.get("kind"))))
    if custom is not None:
        yield from _custom(body, custom, "")
    if version not in _GROUPS:
        return
    model = f"V1{body.get('kind', '')}"
    if hasattr(_models(), model):
        yield from _object(body, model, "")


def _custom(value: Any, fields: _Fields, path: str) -> Iterator[Oddity]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _custom(item, fields, f"{path}[{number}]")
    if not fields or not isinstance(value, Mapping):
        return
    for name, member in value.items():
        where = f"{path}.{name}" if path else str(name)
        if name in fields:
            yield from _custom(member, fields[name], where)
        else:
            yield _unknown(str(name), fields, where)


def _resources(value: Any, path: str) -> Iterator[Oddity]:
    """Resources that a container cannot request: without a domain there are few names."""
    for name in value if isinstance(value, Mapping) else ():
        if "/" in str(name) or str(name).startswith("hugepages-") or name in _RESOURCES:
            continue
        known = f"{', '.join(_RESOURCES)}, hugepages-… or a name with a domain"
        yield Oddity(f"{path}.{name}", f"unknown resource (expected one of {known})", True)


def _object(value: Any, model: str, path: str) -> Iterator[Oddity]:
    if not isinstance(value, Mapping):
        return
    fields = _fields(model)
    for name, member in value.items():
        where = f"{path}.{name}" if path else str(name)
        kind = fields.get(name)
        if kind is None:
            yield _unknown(str(name), fields, where)
            continue
        choices = _CHOICES.get((model, name))
        if choices is not None and isinstance(member, str) and member not in choices:
            known = ", ".join(filter(None, choices))
            yield Oddity(where, f'unknown value "{member}" (expected one of {known})', True)
        if model == "V1ResourceRequirements" and name in ("requests", "limits"):
            yield from _resources(member, where)
        yield from _typed(member, kind, where)


def _typed(value: Any, kind: str, path: str) -> Iterator[Oddity]:
    if listed := _LIST.fullmatch(kind):
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _typed(item, listed[1], f"{path}[{number}]")
    elif mapped := _MAP.fullmatch(kind):
        for name, item in value.items() if isinstance(value, Mapping) else ():
            yield from _typed(item, mapped[1], f"{path}.{name}")
    elif hasattr(_models(), kind):
        yield from _object(value, kind, path)


def _unknown(name: str, fields: Iterable[str], where: str) -> Oddity:
    close = difflib.get_close_matches(name, list(fields), 1, _CLOSE)
    if close:
        return Oddity(where, f"unknown field (did you mean {close[0]}?)", True)
    return Oddity(where, "unknown field", False)


@cache
def _fields(model: str) -> dict[str, str]:
    """The fields of a model as JSON names them, with their types."""
    found = getattr(_models(), model)
    return {found.attribute_map[name]: str(kind) for name, kind in found.openapi_types.items()}


@cache
def _models() -> Any:
    """The library's models; nothing in an image, which leaves them out."""
    try:
        from kubernetes_asyncio.client import models
    except ImportError:
        return None
    return models
