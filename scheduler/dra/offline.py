"""What an API server and drivers do with claims, for simulations without either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.model.devices import AllocatedDeviceStatus, ResourceClaim
from scheduler.model.meta import Condition
from scheduler.model.objects import from_dict
from scheduler.plugin_api.outlet import ObjectRequest, Verb, WriteError


def after(claim: ResourceClaim | None, request: ObjectRequest, number: int) -> ResourceClaim | None:
    """A claim after a request; None if it is gone. ``number`` makes names and versions unique.

    Devices whose drivers would have to make them ready are ready at once.
    """
    if request.verb is Verb.CREATE:
        return _created(request, number)
    if claim is None:
        raise WriteError(f'resourceclaims "{request.key}" not found', gone=True)
    if request.verb is Verb.GET:
        return claim
    if request.verb is Verb.DELETE:
        return None
    if request.verb is Verb.STRATEGIC:
        return _numbered(_without_consumers(claim, request.body), number)
    raw = merged(msgspec.to_builtins(claim), request.body)
    return _numbered(made_ready(from_dict(raw, ResourceClaim)), number)


def merged(raw: Any, patch: Any) -> Any:
    """A value with a JSON merge patch applied."""
    if not isinstance(patch, Mapping):
        return patch
    known = dict(raw) if isinstance(raw, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = merged(known.get(key), value)
    return known


def _created(request: ObjectRequest, number: int) -> ResourceClaim:
    made = from_dict({**request.body}, ResourceClaim)
    prefix = request.body["metadata"]["generateName"]
    name = f"{prefix}{number}"
    namespace = made.metadata.namespace
    metadata = replace(made.metadata, name=name, uid=f"{namespace}/{name}")
    return _numbered(replace(made, metadata=metadata), number)


def _numbered(claim: ResourceClaim, number: int) -> ResourceClaim:
    return replace(claim, metadata=replace(claim.metadata, resource_version=str(number)))


def _without_consumers(claim: ResourceClaim, patch: Mapping[str, Any]) -> ResourceClaim:
    gone = {each["uid"] for each in patch["status"]["reservedFor"]}
    left = tuple(each for each in claim.status.reserved_for if each.uid not in gone)
    return replace(claim, status=replace(claim.status, reserved_for=left))


def made_ready(claim: ResourceClaim) -> ResourceClaim:
    """A claim after drivers have made its devices ready; those that failed stay as they are."""
    allocation = claim.status.allocation
    if allocation is None:
        return claim
    awaited = {
        (result.driver, result.pool, result.device): result.binding_conditions
        for result in allocation.devices.results
        if result.binding_conditions
    }
    devices = []
    for known in claim.status.devices:
        names = awaited.pop((known.driver, known.pool, known.device), ())
        others = tuple(each for each in known.conditions or () if each.type not in names)
        devices.append(replace(known, conditions=(*others, *_true(names))))
    devices += [
        AllocatedDeviceStatus(driver, pool, device, conditions=_true(names))
        for (driver, pool, device), names in awaited.items()
    ]
    return replace(claim, status=replace(claim.status, devices=tuple(devices)))


def _true(names: tuple[str, ...]) -> tuple[Condition, ...]:
    return tuple(Condition(name, "True") for name in names)
