"""Field managers: who owns which fields, as `metadata.managedFields` says.

Fields are tracked for objects that somebody writes under a manager's name, as kubectl does; the
scheduler's own writes to other objects are spared that. An object without managers that is applied
to belongs to `before-first-apply`, as on the real server.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from sandbox import schemas
from sandbox.errors import ApiFailure
from sandbox.field_sets import (
    Leaves,
    Path,
    containers,
    from_fields_v1,
    leaves,
    shown,
    to_fields_v1,
)
from sandbox.resources import Resource
from sandbox.store import Body
from scheduler.kube.schemas import resolved

APPLY, UPDATE = "Apply", "Update"
_BEFORE = "before-first-apply"
_UNTRACKED: set[Path] = {
    ("f:apiVersion",),
    ("f:kind",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "generation",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        )
    ),
}
_METADATA, _STATUS = "f:metadata", "f:status"


class Manager(NamedTuple):
    """Who writes, and how."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(slots=True)
class Owned:
    """The fields of one manager, and since when."""

    paths: set[Path]
    time: str


Managers = dict[Manager, Owned]


def managers_of(body: Body) -> Managers:
    """The managers of an object; entries that make no sense are left out."""
    found: Managers = {}
    for entry in body["metadata"].get("managedFields") or ():
        if isinstance(entry, dict) and entry.get("manager"):
            manager = Manager(
                str(entry["manager"]),
                str(entry.get("operation", UPDATE)),
                str(entry.get("apiVersion", "")),
                str(entry.get("subresource", "")),
            )
            paths = from_fields_v1(entry.get("fieldsV1"))
            found[manager] = Owned(paths, str(entry.get("time", "")))
    return found


def entries(managers: Managers) -> list[Body]:
    """The `managedFields` of these managers; who owns nothing is gone."""
    listed: list[Body] = []
    for manager, owned in managers.items():
        if owned.paths:
            entry = {
                "manager": manager.name,
                "operation": manager.operation,
                "apiVersion": manager.api_version,
                "time": owned.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": to_fields_v1(owned.paths),
            }
            if manager.subresource:
                entry["subresource"] = manager.subresource
            listed.append(entry)
    return listed


def tracked_leaves(resource: Resource, body: Body) -> Leaves:
    """The leaves of an object that somebody can own."""
    found = leaves(resolved(schemas.of(resource)), body)
    return {path: value for path, value in found.items() if path[:2] not in _UNTRACKED}


def writable(resource: Resource, leaves_: Leaves, subresource: str) -> set[Path]:
    """The paths that an endpoint writes: the status endpoint only the status, others all else."""
    if subresource == "status":
        return {path for path in leaves_ if path[0] == _STATUS}
    if not resource.has_status:
        return set(leaves_)
    return {path for path in leaves_ if path[0] != _STATUS}


def record(
    resource: Resource, old: Body | None, new: Body, manager: Manager, now: str, managers: Managers
) -> None:
    """Note an update: its manager owns what it changes, others lose that and what is removed."""
    before = tracked_leaves(resource, old) if old else {}
    after = tracked_leaves(resource, new)
    written = writable(resource, after, manager.subresource)
    changed = {path for path in written if before.get(path, _ABSENT) != after[path]}
    removed: set[Path] = before.keys() - after.keys()
    if not changed and not removed:
        return
    schema = resolved(schemas.of(resource))
    had = containers(schema, old) if old else {}
    has = containers(schema, new)
    touched = {path[:length] for path in changed for length in range(1, len(path))}
    # Who makes a map or a list owns it, besides what is in it.
    changed |= {path for path in touched & has.keys() if path not in had and not has[path]}
    removed |= had.keys() - has.keys()
    for owned in managers.values():
        owned.paths = owned.paths - changed - removed
    mine = managers.setdefault(manager, Owned(set(), now))
    mine.paths = mine.paths | changed
    mine.time = now


_ABSENT = object()


def conflicts(
    managers: Managers, manager: Manager, changed: set[Path]
) -> dict[Manager, list[Path]]:
    """Who else owns fields that are about to change."""
    return {
        other: sorted(owned.paths & changed)
        for other, owned in managers.items()
        if other != manager and owned.paths & changed
    }


def conflict(found: dict[Manager, list[Path]]) -> ApiFailure:
    """409: fields of others; the message names them, as kubectl shows it."""
    count = sum(map(len, found.values()))
    texts = []
    for other, paths in sorted(found.items()):
        if len(paths) == 1:
            texts.append(f"conflict with {other}: {shown(paths[0])}")
        else:
            listed = "".join(f"\n- {shown(path)}" for path in paths)
            texts.append(f"conflicts with {other}:{listed}")
    plural = "conflict" if count == 1 else "conflicts"
    message = f"Apply failed with {count} {plural}: " + "\n".join(texts)
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {other}",
            "field": shown(path),
        }
        for other, paths in sorted(found.items())
        for path in paths
    ]
    return ApiFailure(409, "Conflict", message, {"causes": causes})


def before_first_apply(resource: Resource, body: Body, now: str) -> Managers:
    """The managers of an object that had none: all it has belongs to one of that name."""
    manager = Manager(_BEFORE, UPDATE, resource.api_version)
    return {manager: Owned(writable(resource, tracked_leaves(resource, body), ""), now)}


def with_managers(body: Body, managers: Managers) -> Body:
    """The body under these managers."""
    listed: Any = entries(managers)
    return {**body, "metadata": {**body["metadata"], "managedFields": listed}}
