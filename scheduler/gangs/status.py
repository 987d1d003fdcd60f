"""What a PodGroup's status should say, from what the books know."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from scheduler.gangs.books import find_books
from scheduler.gangs.gang import Gang, Phase, Stage
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
"""All that we write; whatever else a status has is not ours."""


LOOKED_AT = 100
"""Of so many members the owner is looked up: usually the first one has it."""


def status_of(gang: Gang, said: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status of a gang; ``said`` is what its PodGroup says, as far as that is known.

    Scheduling has started when the phase was first another than Pending, and has not since, however
    often members come and go.
    """
    counts, phase = gang.counts, gang.phase
    status: dict[str, Any] = {
        "phase": phase.value,
        "scheduled": counts[Stage.SCHEDULED] + counts[Stage.RUNNING],
        "running": counts[Stage.RUNNING],
        "succeeded": counts[Stage.SUCCEEDED],
        "failed": counts[Stage.FAILED],
    }
    if owner := _owner(gang) or said.get("occupiedBy"):
        status["occupiedBy"] = owner
    started = said.get("scheduleStartTime") or gang.started
    if started or phase is not Phase.PENDING:
        status["scheduleStartTime"] = started or now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return status


def describe_group(state: ClusterState, pod: Pod) -> dict[str, Any] | None:
    """How the gang of a pod stands, for people; None if it has none, or no profile has gangs."""
    books = find_books(state)
    gang = books.of(pod) if books is not None else None
    if gang is None:
        return None
    rules = gang.rules
    return {
        "name": gang.key,
        "phase": gang.phase.value if rules is not None else "",
        "minMember": rules.min_member if rules is not None else None,
        "existing": gang.existing,
        "placed": gang.placed,
        "waiting": len(gang.held),
        "fault": rules.fault if rules is not None else "it does not exist",
    }


def _owner(gang: Gang) -> str:
    """Who made the members, as ``namespace/name``: the controller of one of the first."""
    for pod in islice(gang.members.values(), LOOKED_AT):
        controller = pod.metadata.controller
        if controller is not None:
            return f"{pod.metadata.namespace}/{controller.name}"
    return ""
