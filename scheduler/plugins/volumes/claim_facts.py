"""Facts about a pod's claims that no node can cure: missing, lost, deleted, not bound in time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.model.volumes import DELAYED, ClaimUse, class_of, fully_bound, made_for
from scheduler.plugin_api.facts import MAX_FACTS, Fact, closest, fact
from scheduler.plugins.volumes.matching import too_long_selector
from scheduler.plugins.volumes.words import selectors_too_long
from scheduler.state.objects import ObjectStore

_SHOWN = 3
_COMPARED = 1024
"""So many claims are looked at to find the one that was meant."""


def claim_facts(pod: PodInfo, objects: ObjectStore) -> Iterator[Fact]:
    """What is wrong with each of a pod's claims, whatever the node."""
    for use in islice(dict.fromkeys(pod.volumes.claims), MAX_FACTS):
        claim = objects.get(PersistentVolumeClaim, use.key)
        state, message = (
            _missing(use, objects) if claim is None else _state(claim, pod, use, objects)
        )
        if state:
            yield fact(
                "claim",
                f"claim {use.name} {message}",
                claim=use.name,
                state=state,
                storageClass=class_of(claim) or None if claim else None,
                volume=claim.spec.volume_name or None if claim else None,
            )
    yield from _long_selectors(pod, objects)


def _long_selectors(pod: PodInfo, objects: ObjectStore) -> Iterator[Fact]:
    uses = dict.fromkeys(pod.volumes.claims)
    found = (objects.get(PersistentVolumeClaim, use.key) for use in uses)
    unbound = [claim for claim in found if claim is not None and not fully_bound(claim)]
    if (too_long := too_long_selector(unbound)) is not None:
        name, _ = too_long
        yield fact("claim", selectors_too_long(*too_long), claim=name, state="selector")


def _missing(use: ClaimUse, objects: ObjectStore) -> tuple[str, str]:
    if use.ephemeral:
        return "missing", "has not been made by the ephemeral volume controller yet"
    namespace = use.key.removesuffix(use.name)
    there = (
        key.removeprefix(namespace)
        for key in islice(objects.all(PersistentVolumeClaim), _COMPARED)
        if key.startswith(namespace)
    )
    meant = closest(use.name, there)
    return "missing", "does not exist" + (f"; there is a claim {meant}" if meant else "")


def _state(
    claim: PersistentVolumeClaim, pod: PodInfo, use: ClaimUse, objects: ObjectStore
) -> tuple[str, str]:
    """One word and a sentence about a claim; both empty if some node may do."""
    name = claim.spec.volume_name
    if claim.status.phase == "Lost":
        return "lost", f"is bound to the volume {name}, which does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return "deleting", "is being deleted"
    if use.ephemeral and not made_for(claim, pod.pod, pod.uid):
        return "foreign", "was not made for this pod"
    if fully_bound(claim):
        if objects.get(PersistentVolume, name) is None:
            return "lost", f"is bound to the volume {name}, which does not exist"
        return "", ""
    return _unbound(claim, objects)


def _instead(name: str, objects: ObjectStore) -> str:
    """The storage class that was meant, or the first few that there are."""
    every = objects.all(StorageClass)
    if (meant := closest(name, every)) is not None:
        return f"there is {meant}"
    named = ", ".join(sorted(every)[:_SHOWN]) or "none"
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f"there {'are' if len(every) > 1 else 'is'} {named}{more}"


def _unbound(claim: PersistentVolumeClaim, objects: ObjectStore) -> tuple[str, str]:
    name = class_of(claim)
    if claim.spec.volume_name:
        return "unbound", f"waits to be bound to the volume {claim.spec.volume_name}"
    if not name:
        return "unbound", "is not bound and has no storage class"
    storage_class = objects.get(StorageClass, name)
    if storage_class is None:
        missing = f"names the storage class {name}, which does not exist"
        return "noClass", f"{missing}; {_instead(name, objects)}"
    if storage_class.volume_binding_mode != DELAYED:
        return "unbound", f"is not bound yet, and its storage class {name} binds immediately"
    return "", ""
