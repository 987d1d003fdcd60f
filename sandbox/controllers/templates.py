"""Pods made from a template, and what a controller sees of them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from sandbox.controllers import conditions
from sandbox.controllers.ownership import Ownership, reference_to
from sandbox.registry import Registry
from sandbox.store import Body, Version
from scheduler.model.meta import LabelSelector, ObjectMeta, Struct
from scheduler.model.objects import from_dict

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_STEM = 58


class Template(Struct, frozen=True):
    """The pod template of a workload, as far as controllers read it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Selecting(Struct, frozen=True):
    """What all workloads have."""

    template: Template = Template()
    selector: LabelSelector = LabelSelector()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


Number = int | str
"""An amount, or a percentage such as ``25%``."""


def share(number: Number, whole: int, *, up: bool) -> int:
    """An amount as it is, and a percentage of a whole, rounded up or down."""
    if isinstance(number, int):
        return max(0, number)
    digits = number.removesuffix("%")
    if not digits.isdecimal():
        raise msgspec.ValidationError(f"{number!r} is neither an amount nor a percentage")
    exact = int(digits) * whole
    return -(-exact // 100) if up else exact // 100


def digest(value: Any, length: int = 10) -> str:
    """A short name for a value: equal values have equal ones."""
    number = int.from_bytes(hashlib.sha256(msgspec.json.encode(value, order="sorted")).digest())
    text = ""
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        text += _ALPHABET[digit]
    return text


class PodMaker:
    """Makes and deletes the pods of workloads."""

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._ownership = ownership
        self._pods = registry.builtin("pods")

    def of(self, owner: Version) -> list[Version]:
        """All pods that a workload manages, the oldest first."""
        uid = owner.body["metadata"]["uid"]
        return list(self._ownership.controlled(uid, self._pods.table))

    def make(
        self,
        owner: Body,
        *,
        name: str = "",
        stem: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        spec: Body | None = None,
    ) -> Version:
        """Create a pod of a workload's template, under a name or one that begins with a stem."""
        template = owner["spec"]["template"]
        given = template.get("metadata") or {}
        metadata: Body = {
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(given.get("labels") or {}), **(labels or {})},
            "annotations": {**(given.get("annotations") or {}), **(annotations or {})},
            "finalizers": list(given.get("finalizers") or ()),
            "ownerReferences": [reference_to(owner)],
        }
        if name:
            metadata["name"] = name
        else:
            metadata["generateName"] = f"{stem or owner['metadata']['name']}-"[:_LONGEST_STEM]
        # The registry completes bodies in place, and stored ones never change.
        body = {"metadata": metadata, "spec": copy.deepcopy(spec or template.get("spec") or {})}
        return self._registry.create(self._pods, metadata["namespace"], body)

    def delete(self, pod: Version) -> None:
        """Begin to delete a pod, unless that has begun."""
        if "deletionTimestamp" not in pod.body["metadata"]:
            uid = {"preconditions": {"uid": pod.body["metadata"]["uid"]}}
            self._registry.delete(self._pods, pod.key, uid)


def shape(owner: Version, type_: type[Any]) -> Any:
    """The spec of a workload in the shape that its controller reads; raises what is wrong."""
    return from_dict(owner.body.get("spec") or {}, type_)


def is_active(pod: Version) -> bool:
    """Whether a controller counts a pod: it neither has ended nor is about to."""
    return not has_ended(pod) and "deletionTimestamp" not in pod.body["metadata"]


def has_ended(pod: Version) -> bool:
    """Whether its containers have ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def phase(pod: Version) -> str:
    """Pending, Running, Succeeded or Failed."""
    return str((pod.body.get("status") or {}).get("phase") or "Pending")


def is_ready(pod: Version) -> bool:
    """Whether it serves."""
    return conditions.is_true(pod.body, "Ready")


def is_available(pod: Version, seconds: int, now: datetime) -> bool:
    """Whether it has been ready for so long."""
    return is_ready(pod) and until_available([pod], seconds, now) is None


def until_available(pods: Iterable[Version], seconds: int, now: datetime) -> float | None:
    """In how many seconds the next of the ready pods has been ready for so long."""
    left = []
    for pod in pods if seconds > 0 else ():
        ready = conditions.find(pod.body, "Ready") or {}
        since = conditions.moment(ready.get("lastTransitionTime"))
        if ready.get("status") == "True" and since is not None:
            left.append(seconds - (now - since).total_seconds())
    return min((each for each in left if each > 0), default=None)


def worth(pod: Version) -> tuple[bool, int, bool, str]:
    """How much a pod is worth keeping: placed, running, ready, old; the smallest goes first."""
    order = {"Pending": 0, "Running": 1}.get(phase(pod), 1)
    placed = bool((pod.body.get("spec") or {}).get("nodeName"))
    return placed, order, is_ready(pod), _inverted(pod.body["metadata"]["creationTimestamp"])


def _inverted(text: str) -> str:
    """Sorts the other way round: a pod that is younger is worth less."""
    return "".join(chr(0x10FFFF - ord(letter)) for letter in text)
