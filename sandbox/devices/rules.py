"""Claims, slices and classes of devices: their defaults, and the rules for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sandbox.devices.claim_status import status_errors
from sandbox.devices.claims import COUNTED, claim_errors, selector_errors
from sandbox.devices.names import CLAIMS, CLASSES, SLICES, TEMPLATES, Errors, an_object, at, objects
from sandbox.devices.slices import slice_errors
from sandbox.field_errors import barred, wrong
from sandbox.resources import Resource
from sandbox.store import Body

KINDS = frozenset({CLAIMS, TEMPLATES, SLICES, CLASSES})

ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ADMIN_TEXT = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)

Namespaces = Callable[[str], Body | None]
"""Reads a namespace by its name."""


def complete(resource: Resource, body: Body, now: str) -> None:
    """Fill in what the server fills in: how requests count, when a taint was added."""
    if resource.table == SLICES:
        for device in objects(an_object(body.get("spec")).get("devices")):
            for taint in objects(device.get("taints")):
                taint.setdefault("timeAdded", now)
        return
    for request in objects(claim_spec(resource, body).get("requests")):
        for asked in alternatives(request):
            asked.setdefault("allocationMode", COUNTED)
            if asked["allocationMode"] == COUNTED and not asked.get("count"):
                asked["count"] = 1


def claim_spec(resource: Resource, body: Body) -> Body:
    spec = an_object(body.get("spec"))
    if resource.table == TEMPLATES:
        spec = an_object(spec.get("spec"))
    return an_object(spec.get("devices")) if resource.table in (CLAIMS, TEMPLATES) else {}


def alternatives(request: Body) -> list[Body]:
    exactly = request.get("exactly")
    return [exactly] if isinstance(exactly, dict) else objects(request.get("firstAvailable"))


def quantities(resource: Resource, body: Body) -> Iterator[tuple[str, Any]]:
    """Every amount of a body, with its path: what is none does not decode."""
    if resource.table != SLICES:
        for request in objects(claim_spec(resource, body).get("requests")):
            for asked in alternatives(request):
                wanted = an_object(an_object(asked.get("capacity")).get("requests"))
                yield from ((f"spec.devices.requests.capacity[{n}]", v) for n, v in wanted.items())
        return
    spec = an_object(body.get("spec"))
    for group in objects(spec.get("sharedCounters")):
        for name, counter in an_object(group.get("counters")).items():
            yield f"spec.sharedCounters.counters[{name}].value", an_object(counter).get("value")
    for device in objects(spec.get("devices")):
        for name, capacity in an_object(device.get("capacity")).items():
            yield f"spec.devices.capacity[{name}].value", an_object(capacity).get("value")
        for used in objects(device.get("consumesCounters")):
            for name, counter in an_object(used.get("counters")).items():
                yield (
                    f"spec.devices.consumesCounters.counters[{name}].value",
                    an_object(counter).get("value"),
                )


def update_errors(resource: Resource, old: Body, new: Body) -> Errors:
    """What an update may not change."""
    if resource.table in (CLAIMS, TEMPLATES) and old.get("spec") != new.get("spec"):
        yield wrong("spec", new.get("spec"), "field is immutable")
    elif resource.table == SLICES:
        before, after = an_object(old.get("spec")), an_object(new.get("spec"))
        for path in ("pool.name", "driver", "nodeName"):
            if at(before, path) != at(after, path):
                yield wrong(f"spec.{path}", at(after, path), "field is immutable")
    if resource.table == CLAIMS:
        yield from status_errors(old, new)


def admin_errors(resource: Resource, old: Body | None, new: Body, namespaces: Namespaces) -> Errors:
    """Access to devices in use needs a label of the namespace, of claims and of allocations."""
    found: str | None = None
    if resource.table in (CLAIMS, TEMPLATES) and old is None:
        prefix = "spec.devices" if resource.table == CLAIMS else "spec.spec.devices"
        requests = objects(claim_spec(resource, new).get("requests"))
        found = _first_admin(f"{prefix}.requests", [an_object(r.get("exactly")) for r in requests])
    elif resource.table == CLAIMS and old is not None:
        path = "status.allocation.devices.results"
        if _first_admin(path, _results(old)) is None:
            found = _first_admin(path, _results(new))
    if found is None:
        return
    namespace = namespaces(new["metadata"].get("namespace", "")) or {}
    labels = an_object(an_object(namespace.get("metadata")).get("labels"))
    if labels.get(ADMIN_LABEL) != "true":
        yield barred(found, _ADMIN_TEXT)


def _results(claim: Body) -> list[Body]:
    return objects(at(an_object(claim.get("status")), "allocation.devices.results"))


def _first_admin(path: str, listed: list[Body]) -> str | None:
    marked = (index for index, each in enumerate(listed) if each.get("adminAccess"))
    index = next(marked, None)
    return None if index is None else f"{path}[{index}].adminAccess"


def errors(resource: Resource, body: Body) -> Errors:
    """What is wrong with a body in itself."""
    spec = an_object(body.get("spec"))
    match resource.table:
        case table if table == CLAIMS:
            yield from claim_errors("spec.devices", an_object(spec.get("devices")))
        case table if table == TEMPLATES:
            devices = an_object(an_object(spec.get("spec")).get("devices"))
            yield from claim_errors("spec.spec.devices", devices)
        case table if table == CLASSES:
            yield from selector_errors("spec.selectors", spec.get("selectors"))
        case _:
            yield from slice_errors(spec)
