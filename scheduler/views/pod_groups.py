"""Gangs and the last batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.assembly import Core
from scheduler.gangs.gang import Gang, Stage
from scheduler.gangs.registry import find_registry
from scheduler.slices import checkpoint

MAX_MEMBERS_READ = 100
"""How many members of a gang are looked at for one that says why it waits."""


def pod_groups(core: Core, limit: int) -> dict[str, Any]:
    """Gangs, those first that are not placed; and how the last backlogs were placed."""
    registry = find_registry(core.state)
    gangs = [] if registry is None else list(registry)
    urgent: list[tuple[bool, str, int]] = []
    for number, gang in enumerate(gangs):
        checkpoint()
        urgent.append((gang.rules is not None and gang.is_scheduled, gang.key, number))
    described = []
    for _, _, number in sorted(urgent)[:limit]:
        checkpoint()
        described.append(_described(core, gangs[number]))
    return {
        "count": len(gangs),
        "enabled": registry is not None,
        "groups": described,
        "batching": core.config.equipoise.batch.enabled,
        "batches": list(_batches(core)),
    }


def _described(core: Core, gang: Gang) -> dict[str, Any]:
    rules = gang.rules
    return {
        "name": gang.key,
        "phase": gang.phase.value if rules is not None else "",
        "minMember": rules.min_member if rules is not None else None,
        "existing": gang.existing,
        "placed": gang.placed,
        "waitingOnPermit": len(gang.waiting_at_permit),
        "members": {stage.value: gang.counts[stage] for stage in Stage if gang.counts[stage]},
        "message": _message(core, gang),
    }


def _message(core: Core, gang: Gang) -> str:
    """Why the gang is not placed; empty if it is."""
    rules = gang.rules
    if rules is None:
        return "the PodGroup does not exist"
    if rules.fault:
        return rules.fault
    if gang.is_scheduled:
        return ""
    missing = rules.min_member - gang.existing
    if missing > 0:
        return f"{missing} of {rules.min_member} members do not exist yet"
    return next(_verdicts(core, gang), "")


def _verdicts(core: Core, gang: Gang) -> Iterator[str]:
    """What the queue has as the verdict on members without a node."""
    for number, (uid, pod) in enumerate(gang.members.items()):
        if number >= MAX_MEMBERS_READ:
            return
        if uid not in gang.with_nodes:
            entry = core.queue.view.entry(pod.metadata.key, uid)
            if entry is not None and entry.message:
                yield entry.message


def _batches(core: Core) -> Iterator[dict[str, Any]]:
    """The last batches, newest first."""
    batches = core.scheduler.batches
    if batches is None:
        return
    now = core.queue.view.now()
    for report, ended in zip(reversed(batches.reports), reversed(batches.ended), strict=False):
        shown = {_camel(name): value for name, value in msgspec.to_builtins(report).items()}
        yield {**shown, "secondsAgo": max(0.0, now - ended)}


def _camel(name: str) -> str:
    """The name as the API spells it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
