"""The status of a claim, which schedulers write: who uses what, by which rules.

Who uses a claim needs an allocation first, an allocation never changes, and the status endpoint
writes nothing else.
"""

from __future__ import annotations

from typing import Any

from sandbox.devices.claims import MAX_REQUESTS
from sandbox.devices.names import (
    Errors,
    an_object,
    driver_errors,
    label_errors,
    objects,
    pool_errors,
    reference_errors,
    request_names,
)
from sandbox.field_errors import barred, duplicate, required, too_many, unsupported, wrong
from sandbox.store import Body

_MAX_CONSUMERS = 256


def merge_status(old: Body, new: Body) -> Body:
    """The claim after a write to its status: metadata and spec stay as they are.

    What drivers said about devices that are no longer allocated goes.
    """
    status = {key: value for key, value in an_object(new.get("status")).items() if value}
    allocated = _devices_of(status)
    gone = _devices_of(an_object(old.get("status"))) - allocated
    kept = [each for each in objects(status.get("devices")) if _identity(each) not in gone]
    status = {key: value for key, value in status.items() if key != "devices"}
    if kept:
        status["devices"] = kept
    # The server tracks who wrote a status, but takes nothing else of the metadata.
    metadata = {**old["metadata"], **_managed(new["metadata"])}
    return {**old, "metadata": metadata, "status": status}


def _managed(metadata: Body) -> Body:
    return {key: metadata[key] for key in ("managedFields",) if key in metadata}


def _devices_of(status: Body) -> set[tuple[Any, ...]]:
    allocation = an_object(an_object(status.get("allocation")).get("devices"))
    return {_identity(each) for each in objects(allocation.get("results"))}


def _identity(device: Body) -> tuple[Any, ...]:
    return tuple(device.get(field) for field in ("driver", "pool", "device", "shareID"))


def status_errors(old: Body, new: Body) -> Errors:
    """What a write to the status may not do."""
    before, status = an_object(old.get("status")), an_object(new.get("status"))
    if before == status:
        return
    consumers = objects(status.get("reservedFor"))
    yield from _consumer_errors(consumers)
    allocation = status.get("allocation")
    if consumers and not allocation:
        text = "may not be specified when `allocated` is not set"
        yield barred("status.reservedFor", text)
    elif consumers and "deletionTimestamp" in old["metadata"]:
        known = objects(before.get("reservedFor"))
        if any(each not in known for each in consumers):
            text = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            yield barred("status.reservedFor", text)
    if before.get("allocation") and allocation:
        if before["allocation"] != allocation:
            yield wrong("status.allocation", allocation, "field is immutable")
    elif allocation:
        requests = request_names(an_object(an_object(new.get("spec")).get("devices")))
        yield from _allocation_errors(an_object(allocation), requests)
    allocated = _devices_of(status)
    for index, device in enumerate(objects(status.get("devices"))):
        if _identity(device) not in allocated:
            named = "/".join(str(part) for part in _identity(device)[:3])
            text = "must be an allocated device in the claim"
            yield wrong(f"status.devices[{index}]", named, text)


def _consumer_errors(consumers: list[Body]) -> Errors:
    if len(consumers) > _MAX_CONSUMERS:
        yield too_many("status.reservedFor", len(consumers), _MAX_CONSUMERS)
        return
    seen = set()
    for index, consumer in enumerate(consumers):
        path = f"status.reservedFor[{index}]"
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                yield required(f"{path}.{field}")
        if consumer.get("uid") in seen:
            yield duplicate(path, consumer.get("uid"))
        seen.add(consumer.get("uid"))


def _allocation_errors(allocation: Body, requests: dict[str, set[str]]) -> Errors:
    path = "status.allocation.devices"
    devices = an_object(allocation.get("devices"))
    results = objects(devices.get("results"))
    if len(results) > MAX_REQUESTS:
        yield too_many(f"{path}.results", len(results), MAX_REQUESTS)
        return
    for index, result in enumerate(results):
        each = f"{path}.results[{index}]"
        yield from reference_errors(f"{each}.request", str(result.get("request", "")), requests)
        yield from driver_errors(f"{each}.driver", result.get("driver"))
        yield from pool_errors(f"{each}.pool", result.get("pool"))
        yield from label_errors(f"{each}.device", result.get("device"))
    for index, config in enumerate(objects(devices.get("config"))):
        each = f"{path}.config[{index}]"
        if config.get("source") not in ("FromClaim", "FromClass"):
            supported = '"FromClaim", "FromClass"'
            yield unsupported(f"{each}.source", config.get("source"), supported)
        for number, name in enumerate(config.get("requests") or ()):
            yield from reference_errors(f"{each}.requests[{number}]", str(name), requests)
