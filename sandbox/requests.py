"""From an HTTP request to what it asks for: the addressed resource and the query's options."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.errors import (
    FieldError,
    bad_request,
    invalid,
    no_such_resource,
    too_large_resource_version,
)
from sandbox.listing import ListOptions
from sandbox.registry import WriteOptions
from sandbox.resources import Catalog, Resource
from sandbox.selectors import compile_selectors
from sandbox.store import Key, Store
from sandbox.watching import Selection, WatchOptions

Query = Mapping[str, str]

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_DEFAULT_WATCH_SECONDS = 1800
_LONGEST_MANAGER = 128


@dataclass(frozen=True, slots=True)
class Address:
    """The resource, object and subresource that a path names."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def parse_path(catalog: Catalog, path: str) -> Address | None:
    """Read a resource path; None if it is a path of another kind (discovery, health …)."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource = catalog.find(group, version, rest[0])
    if resource is None or len(rest) > 3:
        raise no_such_resource()
    name, subresource = (*rest[1:], "", "")[:2]
    if resource.namespaced and name and not namespace:
        raise no_such_resource()
    if subresource and subresource not in resource.subresources:
        raise no_such_resource()
    return Address(resource, namespace, name, subresource)


def selection(address: Address, query: Query) -> Selection:
    """What the path and the selectors select."""
    fields = query.get("fieldSelector", "")
    if address.name:
        fields = f"metadata.name={address.name}" + (f",{fields}" if fields else "")
    predicate = compile_selectors(address.resource, query.get("labelSelector", ""), fields)
    return Selection(address.namespace, predicate)


def list_options(query: Query, store: Store) -> ListOptions:
    """Options of a list, checked against each other and against the current revision."""
    limit = _number(query, "limit")
    match = query.get("resourceVersionMatch", "")
    given = query.get("resourceVersion", "")
    token = query.get("continue", "")
    if match not in {"", "Exact", "NotOlderThan"}:
        raise bad_request(f'resourceVersionMatch: Unsupported value: "{match}"')
    if match and not given:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and token:
        raise bad_request("resourceVersionMatch is forbidden when continue is provided")
    if given and given != "0" and token:
        raise bad_request("specifying resource version is not allowed when using continue")
    revision = _number(query, "resourceVersion")
    if revision > store.revision:
        raise too_large_resource_version(revision, store.revision)
    if given == "0":
        if match == "Exact":
            raise bad_request('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        # Served from the watch cache, which has no pages.
        return ListOptions(continue_token=token, limit=limit if token else 0)
    exact = match == "Exact" or (revision > 0 and limit > 0 and not match)
    return ListOptions(limit, token, revision if exact else None)


def watch_options(query: Query, bookmark_seconds: float, rng: random.Random) -> WatchOptions:
    """Options of a watch."""
    bookmarks = _flag(query, "allowWatchBookmarks")
    initial = query.get("sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if initial is not None and match != "NotOlderThan":
        raise bad_request("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if initial is None and match:
        raise bad_request(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    revision = _number(query, "resourceVersion")
    wants_state = _flag(query, "sendInitialEvents") if initial is not None else revision == 0
    timeout = float(_number(query, "timeoutSeconds"))
    return WatchOptions(
        revision=revision or None,
        state_first=wants_state,
        mark_state_end=initial is not None and wants_state and bookmarks,
        bookmarks=bookmarks,
        bookmark_seconds=bookmark_seconds,
        timeout_seconds=timeout or _DEFAULT_WATCH_SECONDS * (1 + rng.random()),
    )


def write_options(
    query: Query, body: Mapping[str, Any] | None = None, agent: str = ""
) -> WriteOptions:
    """Options of a write, of its query or, for deletions, of its body."""
    dry_run = [query["dryRun"]] if "dryRun" in query else (body or {}).get("dryRun") or []
    for stage in dry_run:
        if stage != "All":
            text = f'Unsupported value: "{stage}": supported values: "All"'
            errors = [FieldError("FieldValueNotSupported", "dryRun", text)]
            raise invalid("WriteOptions", "", errors, "meta.k8s.io")
    named = query.get("fieldManager", "")
    return WriteOptions(
        dry_run=bool(dry_run),
        # Without a name a client is known by the program it says it is.
        manager=named or agent.partition("/")[0][:_LONGEST_MANAGER],
        tracked=bool(named),
        force=_flag(query, "force"),
        field_validation=query.get("fieldValidation", ""),
    )


def delete_options(body: dict[str, Any], query: Query) -> dict[str, Any]:
    """The DeleteOptions of the body, with those of the query on top."""
    options = dict(body)
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds", signed=True)
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    return options


def is_watch(query: Query) -> bool:
    """Whether a GET on a collection is a watch."""
    return _flag(query, "watch")


def _flag(query: Query, name: str) -> bool:
    return query.get(name, "").lower() in {"true", "1"}


def _number(query: Query, name: str, *, signed: bool = False) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    digits = text.removeprefix("-") if signed else text
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f'{name}: Invalid value: "{text}": must be a number')
    return int(text)
