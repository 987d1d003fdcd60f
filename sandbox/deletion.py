"""Deletion in steps: grace periods, finalizers, preconditions.

```
 present ──DELETE──► bound pod with grace ──grace-0 DELETE (kubelet)──┐
    │                (deletionTimestamp set)                          ▼
    ├──DELETE──► finalizers left ──last finalizer removed──────────► gone
    └──DELETE, nothing to wait for─────────────────────────────────► gone
```
"""

from datetime import datetime, timedelta
from typing import Any

from sandbox.errors import conflict
from sandbox.resources import Resource
from sandbox.store import Body, Version

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for what it owns to be deleted."""
ORPHAN = "orphan"
"""The finalizer of an object that waits for what it owns to be released."""
_BY_POLICY = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


def check_preconditions(resource: Resource, current: Version, options: Body) -> None:
    """Raise if the delete is meant for another incarnation or version of the object."""
    wanted = options.get("preconditions") or {}
    metadata = current.body["metadata"]
    for field, label, hint in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        given = wanted.get(field)
        if given is not None and given != metadata[field]:
            why = (
                f"the {label} in the precondition ({given}) does not match the {label} in record "
                f"({metadata[field]}). The object might have been {hint}"
            )
            raise conflict(resource.kind, current.key[1], why, resource.group)


def marked(resource: Resource, body: Body, options: Body, now: datetime) -> Body | None:
    """The body to keep while the object waits to go; None to remove it now."""
    body = _with_policy(body, options)
    metadata = body["metadata"]
    grace = _grace(resource, body, options)
    waits = bool(metadata.get("finalizers")) or resource.table == "namespaces"
    if "deletionTimestamp" in metadata:
        pending = metadata.get("deletionGracePeriodSeconds") or 0
        if pending and grace >= pending:
            return body
        if not grace and not waits:
            return None
        if not pending:
            return body
    elif not grace and not waits:
        return None
    return _terminating(body, grace, now)


def completed_by(old: Body, new: Body) -> bool:
    """Whether an update removed the last finalizer of an object that only waited for it."""
    metadata = old["metadata"]
    return (
        "deletionTimestamp" in metadata
        and new["kind"] != "Namespace"
        and not new["metadata"].get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def _with_policy(body: Body, options: Body) -> Body:
    """The body with the finalizer that the propagation policy asks for, and not with the other."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents"):
        policy = "Orphan"
    if policy is None:
        return body
    before = body["metadata"].get("finalizers") or []
    after = [each for each in before if each not in (FOREGROUND, ORPHAN)]
    if wanted := _BY_POLICY.get(policy):
        after.append(wanted)
    if sorted(after) == sorted(before):
        return body
    metadata = {name: value for name, value in body["metadata"].items() if name != "finalizers"}
    if after:
        metadata["finalizers"] = after
    return {**body, "metadata": metadata}


def _grace(resource: Resource, body: Body, options: Body) -> int:
    """Seconds a kubelet gets; only pods on a node that still run have any."""
    if resource.table != "pods":
        return 0
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    asked: Any = options.get("gracePeriodSeconds")
    if asked is None:
        asked = body["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds") or 0
    return int(asked) if asked >= 0 else 1


def _terminating(body: Body, grace: int, now: datetime) -> Body:
    metadata = dict(body["metadata"])
    if "deletionTimestamp" not in metadata and metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = _deadline(metadata, grace, now)
    metadata["deletionGracePeriodSeconds"] = grace
    if body.get("kind") == "Namespace":
        return {**body, "metadata": metadata, "status": {**body["status"], "phase": "Terminating"}}
    return {**body, "metadata": metadata}


def _deadline(metadata: Body, grace: int, now: datetime) -> str:
    """A shortened grace counts from when the deletion began, but never ends in the past."""
    begun = now
    if earlier := metadata.get("deletionTimestamp"):
        had = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        begun = datetime.strptime(earlier, _FORMAT).replace(tzinfo=now.tzinfo) - had
    return max(begun + timedelta(seconds=grace), now).strftime(_FORMAT)
