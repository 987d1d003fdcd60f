"""Conditions of a status, with the times at which they changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

Condition = dict[str, Any]

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def find(body: dict[str, Any], kind: str) -> Condition | None:
    """The condition of this type in an object's status."""
    listed = (body.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each.get("type") == kind), None)


def is_true(body: dict[str, Any], kind: str) -> bool:
    """Whether the condition of this type holds."""
    found = find(body, kind)
    return found is not None and found.get("status") == "True"


def updated(listed: Iterable[Condition], *changes: Condition, now: str) -> list[Condition]:
    """The conditions with some set; times move only with what they tell of."""
    kept = {each.get("type"): each for each in listed}
    for change in changes:
        before = kept.get(change["type"], {})
        if all(before.get(field) == value for field, value in change.items()):
            continue
        since = before.get("lastTransitionTime") if _same_status(before, change) else None
        kept[change["type"]] = {
            **change,
            "lastUpdateTime": now,
            "lastTransitionTime": since or now,
        }
    return list(kept.values())


def _same_status(before: Condition, after: Condition) -> bool:
    return bool(before.get("status") == after["status"])


def moment(text: Any) -> datetime | None:
    """A time as the API shows it, if it is one."""
    try:
        return datetime.strptime(str(text), _FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
