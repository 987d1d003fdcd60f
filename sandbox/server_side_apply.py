"""Server-side apply: a configuration is merged by its fields, and conflicts are found by owner.

What the manager applied before and now leaves out goes, unless somebody else owns it too.
"""

from typing import NamedTuple

import msgspec

from sandbox import field_managers, schemas
from sandbox.errors import FieldError, bad_request, invalid
from sandbox.field_managers import APPLY, Manager, Managers, Owned
from sandbox.field_sets import Path
from sandbox.resources import Resource
from sandbox.store import Body
from sandbox.structured_merge import merged, without
from scheduler.kube.schemas import resolved

_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CONTENT_TYPE = "application/apply-patch+yaml"


class Applied(NamedTuple):
    """What an apply leads to: the object, and who owns what of it."""

    body: Body
    managers: Managers


def manager_of(resource: Resource, name: str, subresource: str) -> Manager:
    """The manager of an apply; it must have a name."""
    if not name:
        text = "Required value: is required for apply patch"
        errors = [FieldError("FieldValueRequired", "fieldManager", text)]
        raise invalid("PatchOptions", "", errors, "meta.k8s.io")
    return Manager(name, APPLY, resource.api_version, subresource)


def check(configuration: Body, resource: Resource, name: str) -> None:
    """Refuse a configuration that is not of this object, or that says who manages it."""
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if configuration.get(field) != wanted:
            raise bad_request(f"{field} of the configuration must be {wanted}")
    metadata = configuration.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name", name) != name:
        raise bad_request("the name of the object does not match the name on the URL")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def created(resource: Resource, configuration: Body, manager: Manager, now: str) -> Managers:
    """The managers of an object that an apply creates."""
    return {manager: Owned(_owned(resource, configuration, manager), now)}


def applied(
    resource: Resource, live: Body, configuration: Body, manager: Manager, now: str, force: bool
) -> Applied:
    """Merge a configuration into an object, or raise the conflict with other managers."""
    schema = resolved(schemas.of(resource))
    managers = field_managers.managers_of(live) or field_managers.before_first_apply(
        resource, live, now
    )
    mine = managers.get(manager)
    wanted = _owned(resource, configuration, manager)
    body: Body = merged(schema, live, configuration)
    dropped = (mine.paths if mine else set()) - wanted
    body = without(schema, body, _nobody_elses(dropped, managers, manager, wanted))
    before = field_managers.tracked_leaves(resource, live)
    after = field_managers.tracked_leaves(resource, body)
    changed = {path for path in wanted if path in after and before.get(path) != after[path]}
    if found := field_managers.conflicts(managers, manager, changed):
        refused = field_managers.conflicts(
            managers, manager, changed - _applied_by_client(resource, live, manager)
        )
        if refused and not force:
            raise field_managers.conflict(refused)
        for other, paths in found.items():
            managers[other].paths = managers[other].paths - set(paths)
    gone = before.keys() - after.keys()
    for owned in managers.values():
        owned.paths = owned.paths - gone
    body = _with_last_applied(body, configuration, manager)
    unchanged = mine is not None and mine.paths == wanted and body == live
    managers[manager] = Owned(wanted, mine.time if mine and unchanged else now)
    return Applied(body, managers)


def _applied_by_client(resource: Resource, live: Body, manager: Manager) -> set[Path]:
    """What `kubectl apply` last set from its side, and nobody has changed since.

    The same program may go on from the server's side, without conflicts with itself.
    """
    annotations = live["metadata"].get("annotations") or {}
    if manager.name != _KUBECTL or _LAST_APPLIED not in annotations:
        return set()
    try:
        last = msgspec.json.decode(annotations[_LAST_APPLIED])
    except msgspec.DecodeError:
        return set()
    if not isinstance(last, dict):
        return set()
    now = field_managers.tracked_leaves(resource, live)
    then = field_managers.tracked_leaves(resource, last)
    return {path for path, value in then.items() if now.get(path) == value}


def _with_last_applied(body: Body, configuration: Body, manager: Manager) -> Body:
    """Keep the client's note of what it applied up to date, where there is one."""
    annotations = body["metadata"].get("annotations") or {}
    if manager.name != _KUBECTL or _LAST_APPLIED not in annotations:
        return body
    noted = msgspec.json.encode(configuration).decode() + "\n"
    metadata = {**body["metadata"], "annotations": {**annotations, _LAST_APPLIED: noted}}
    return {**body, "metadata": metadata}


def _owned(resource: Resource, configuration: Body, manager: Manager) -> set[Path]:
    found = field_managers.tracked_leaves(resource, configuration)
    return field_managers.writable(resource, found, manager.subresource)


def _nobody_elses(
    dropped: set[Path], managers: Managers, manager: Manager, wanted: set[Path]
) -> set[Path]:
    """The dropped paths that no one else owns, in part or as a whole."""
    kept = set(wanted)
    for other, owned in managers.items():
        if other != manager:
            kept |= owned.paths
    prefixes = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    return dropped - prefixes
