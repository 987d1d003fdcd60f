"""The status of PodGroups, from the registry of gangs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from scheduler.gangs.gang import Gang, Phase, Stage, stage_of
from scheduler.gangs.registry import find_registry
from scheduler.model.pods import Pod
from scheduler.state.cache import ClusterState

FIELDS = (
    "phase",
    "scheduled",
    "running",
    "succeeded",
    "failed",
    "occupiedBy",
    "scheduleStartTime",
)
"""The fields of the status that Equipoise writes."""


MAX_MEMBERS_SHOWN = 50
MAX_OWNERS_READ = 100
"""How many members are searched for an owner; usually the first one has it."""


def status_of(gang: Gang, current: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status of a gang; ``current`` is the present status of its PodGroup.

    ``scheduleStartTime`` is when the phase first left Pending; it is never changed afterwards.
    """
    counts, phase = gang.counts, gang.phase
    status: dict[str, Any] = {
        "phase": phase.value,
        "scheduled": counts[Stage.SCHEDULED] + counts[Stage.RUNNING],
        "running": counts[Stage.RUNNING],
        "succeeded": counts[Stage.SUCCEEDED],
        "failed": counts[Stage.FAILED],
    }
    if owner := _owner(gang) or current.get("occupiedBy"):
        status["occupiedBy"] = owner
    started = current.get("scheduleStartTime") or gang.started
    if started or phase is not Phase.PENDING:
        status["scheduleStartTime"] = started or now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return status


def describe_group(state: ClusterState, pod: Pod) -> dict[str, Any] | None:
    """The gang of a pod, for ``explain``; None if it has none, or no profile has gangs."""
    registry = find_registry(state)
    gang = registry.of(pod) if registry is not None else None
    if gang is None:
        return None
    rules = gang.rules
    return {
        "name": gang.key,
        "phase": gang.phase.value if rules is not None else "",
        "minMember": rules.min_member if rules is not None else None,
        "existing": gang.existing,
        "missing": max(0, rules.min_member - gang.existing) if rules is not None else None,
        "placed": gang.placed,
        "waiting": len(gang.waiting_at_permit),
        "members": [_member(state, gang, uid) for uid in islice(gang.members, MAX_MEMBERS_SHOWN)],
        "fault": rules.fault if rules is not None else "it does not exist",
    }


def _member(state: ClusterState, gang: Gang, uid: str) -> dict[str, Any]:
    """How far one member is; a node that it holds without being bound is its node too."""
    pod, holding = gang.members[uid], state.pod(uid)
    stage = "permit" if uid in gang.waiting_at_permit else stage_of(pod).value
    node = pod.spec.node_name or (holding.node_name if holding is not None else "")
    return {"pod": pod.metadata.key, "state": stage, "node": node or None}


def _owner(gang: Gang) -> str:
    """The controller of the first member that has one, as ``namespace/name``."""
    for pod in islice(gang.members.values(), MAX_OWNERS_READ):
        controller = pod.metadata.controller
        if controller is not None:
            return f"{pod.metadata.namespace}/{controller.name}"
    return ""
