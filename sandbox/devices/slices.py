"""What the real server checks of a ResourceSlice."""

from __future__ import annotations

import re

from sandbox.devices.names import (
    Errors,
    an_object,
    driver_errors,
    duplicate_names,
    label_errors,
    listed,
    objects,
    pool_errors,
    qualified_errors,
)
from sandbox.field_errors import barred, required, too_long, too_many, unsupported, wrong
from sandbox.store import Body

EFFECTS = ("NoExecute", "NoSchedule", "None")

_MAX_DEVICES, _MAX_ADVANCED_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS = 8, 32
_MAX_PROPERTIES = 32
_MAX_VALUE = 64
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_OF_WHERE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)


def slice_errors(spec: Body) -> Errors:
    """All that is wrong with a slice."""
    yield from driver_errors("spec.driver", spec.get("driver"))
    pool = an_object(spec.get("pool"))
    yield from pool_errors("spec.pool.name", pool.get("name"))
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        yield wrong("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (pool.get("generation") or 0) < 0:
        text = "must be greater than or equal to zero"
        yield wrong("spec.pool.generation", pool["generation"], text)
    yield from _place_errors(spec)
    devices, counters = objects(spec.get("devices")), objects(spec.get("sharedCounters"))
    if devices and counters:
        yield wrong("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    advanced = any(each.get("taints") or each.get("consumesCounters") for each in devices)
    limit = _MAX_ADVANCED_DEVICES if advanced else _MAX_DEVICES
    if len(devices) > limit:
        yield too_many("spec.devices", len(devices), limit)
        return
    yield from duplicate_names("spec.devices", devices)
    for index, device in enumerate(devices):
        yield from _device_errors(f"spec.devices[{index}]", device)
    yield from _counter_errors(counters)


def _place_errors(spec: Body) -> Errors:
    given = [field for field in _WHERE if spec.get(field)]
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            yield wrong(f"spec.{field}", "false", "must be either unset or set to true")
    if not given:
        yield required("spec", f"{_ONE_OF_WHERE} is required")
    elif len(given) > 1:
        shown = ", ".join(f"`{field}`" for field in given)
        text = f"{_ONE_OF_WHERE} is required, but multiple fields are set"
        yield wrong("spec", f"{{{shown}}}", text)
    terms = objects(an_object(spec.get("nodeSelector")).get("nodeSelectorTerms"))
    if "nodeSelector" in given and len(terms) != 1:
        path = "spec.nodeSelector.nodeSelectorTerms"
        yield wrong(path, terms, "must have exactly one node selector term")


def _device_errors(path: str, device: Body) -> Errors:
    yield from label_errors(f"{path}.name", device.get("name"))
    attributes, capacity = an_object(device.get("attributes")), an_object(device.get("capacity"))
    count = len(attributes) + len(capacity)
    if count > _MAX_PROPERTIES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        yield wrong(path, count, text)
    for name, attribute in attributes.items():
        yield from qualified_errors(f"{path}.attributes", name)
        yield from _attribute_errors(f"{path}.attributes[{name}]", an_object(attribute))
    for name, value in capacity.items():
        yield from qualified_errors(f"{path}.capacity", name)
        if an_object(value).get("requestPolicy") and not device.get("allowMultipleAllocations"):
            text = "allowMultipleAllocations must be true"
            yield barred(f"{path}.capacity[{name}].requestPolicy", text)
    for index, taint in enumerate(objects(device.get("taints"))):
        each = f"{path}.taints[{index}]"
        if not taint.get("key"):
            yield required(f"{each}.key", "name part must be non-empty")
        if not taint.get("effect"):
            yield required(f"{each}.effect")
        elif taint["effect"] not in EFFECTS:
            yield unsupported(f"{each}.effect", taint["effect"], listed(EFFECTS))
    yield from _condition_errors(path, device)


def _condition_errors(path: str, device: Body) -> Errors:
    wanted, failing = (
        device.get("bindingConditions") or [],
        device.get("bindingFailureConditions") or [],
    )
    if failing and not wanted:
        text = "bindingConditions are required to use bindingFailureConditions"
        yield wrong(f"{path}.bindingConditions", "null", text)
    elif wanted and not failing:
        text = "bindingFailureConditions are required to use bindingConditions"
        yield wrong(f"{path}.bindingFailureConditions", "null", text)


def _attribute_errors(path: str, attribute: Body) -> Errors:
    given = [field for field in ("int", "bool", "string", "version") if field in attribute]
    if len(given) != 1:
        yield wrong(path, "", "exactly one value must be specified")
    for field in ("string", "version"):
        if len(str(attribute.get(field, "")).encode()) > _MAX_VALUE:
            yield too_long(f"{path}.{field}", _MAX_VALUE)
    version = attribute.get("version")
    if version is not None and not _VERSION.fullmatch(str(version)):
        text = "must be a string compatible with semver.org spec 2.0.0"
        yield wrong(f"{path}.version", version, text)


def _counter_errors(groups: list[Body]) -> Errors:
    if len(groups) > _MAX_COUNTER_SETS:
        yield too_many("spec.sharedCounters", len(groups), _MAX_COUNTER_SETS)
        return
    yield from duplicate_names("spec.sharedCounters", groups)
    for index, group in enumerate(groups):
        path = f"spec.sharedCounters[{index}]"
        yield from label_errors(f"{path}.name", group.get("name"))
        counters = an_object(group.get("counters"))
        if not counters:
            yield required(f"{path}.counters")
        elif len(counters) > _MAX_COUNTERS:
            yield too_many(f"{path}.counters", len(counters), _MAX_COUNTERS)
