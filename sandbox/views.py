"""How stored bodies look through the resource they are asked for.

Events live once and are seen as core/v1 and as events.k8s.io/v1; custom resources are seen in every
served version. All other resources show what is stored, byte for byte.
"""

from typing import Any

from sandbox.resources import Resource
from sandbox.store import Body, Version, encode

_STORED_EVENTS = "events.k8s.io/v1"
_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_STORED_NAMES = {core: stored for stored, core in _EVENT_NAMES.items()}


def present(resource: Resource, stored: Body) -> Body:
    """The body as this resource shows it."""
    if stored["apiVersion"] == resource.api_version:
        return stored
    body = _renamed(stored, _EVENT_NAMES) if resource.table == "events" else stored
    return {**body, "apiVersion": resource.api_version}


def absorb(resource: Resource, shown: Body) -> Body:
    """The body as it is stored, from one written through this resource."""
    if resource.table != "events" or resource.api_version == _STORED_EVENTS:
        return shown
    return {**_renamed(shown, _STORED_NAMES), "apiVersion": _STORED_EVENTS}


def encoded(resource: Resource, version: Version) -> bytes:
    """The JSON of a version as this resource shows it; readers of the stored form share it."""
    if version.body["apiVersion"] == resource.api_version:
        return version.encoded
    return encode(present(resource, version.body))


def encoded_item(resource: Resource, version: Version) -> bytes:
    """The JSON of a list item: items of built-in lists have no kind and apiVersion of their own."""
    whole = encoded(resource, version)
    if resource.custom:
        return whole
    prefix = _type_prefix(resource)
    return b"{" + whole[len(prefix) :] if whole.startswith(prefix) else whole


def typed(resource: Resource, body: Body) -> Body:
    """The body with kind and apiVersion in front, where `encoded_item` expects them."""
    rest = {name: value for name, value in body.items() if name not in {"kind", "apiVersion"}}
    return {"kind": resource.kind, "apiVersion": resource.api_version, **rest}


def _type_prefix(resource: Resource) -> bytes:
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


def _renamed(body: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in body.items()}
