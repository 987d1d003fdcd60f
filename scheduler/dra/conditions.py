"""Binding conditions: whether drivers have made the devices of a claim ready for their pod."""

from __future__ import annotations

import enum
from datetime import datetime

from scheduler.model.devices import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from scheduler.model.meta import Condition

_TRUE = "True"


class DeviceBindingError(Exception):
    """A driver reports that a device cannot be made ready."""


class Readiness(enum.Enum):
    """How far the devices of an allocated claim are."""

    READY = "ready"
    """All binding conditions are met, or there are none."""
    PENDING = "pending"
    LATE = "late"
    """Not ready, and the binding time-out after the allocation is over."""
    FAILED = "failed"


def check_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions of a claim are met; raises DeviceBindingError if one fails."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        known = {condition.type: condition for condition in status.conditions or ()}
        for name in result.binding_failure_conditions:
            failed = known.get(name)
            if failed is not None and failed.status == _TRUE:
                raise DeviceBindingError(_failure(claim, failed))
        if not all(_holds(known.get(name)) for name in result.binding_conditions):
            return False
    return True


def readiness(claim: ResourceClaim, timeout: float, now: datetime) -> Readiness:
    """How far the devices of an allocated claim are."""
    try:
        if check_ready(claim):
            return Readiness.READY
    except DeviceBindingError:
        return Readiness.FAILED
    return Readiness.LATE if is_late(claim, timeout, now) else Readiness.PENDING


def is_late(claim: ResourceClaim, timeout: float, now: datetime) -> bool:
    """Whether the devices of a claim should be ready by now."""
    allocation = claim.status.allocation
    if allocation is None or not has_conditions(claim):
        return False
    begun = _time(allocation.allocation_timestamp)
    return begun is not None and (now - begun).total_seconds() > timeout


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether some device of a claim has to be made ready before its pod is bound."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def _status_of(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == wanted:
            return status
    return None


def _holds(condition: Condition | None) -> bool:
    return condition is not None and condition.status == _TRUE


def _failure(claim: ResourceClaim, failed: Condition) -> str:
    return (
        f"device binding failed: claim={claim.metadata.name}, reason={failed.reason},"
        f' message="{failed.message}"'
    )


def _time(stamp: str | None) -> datetime | None:
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None
