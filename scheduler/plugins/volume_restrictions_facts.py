"""What VolumeRestrictions knows about its rejections: which claim or disk, and who uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.model.volumes import DiskUse
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, Fact, Told, fact, told
from scheduler.plugins.volumes.claim_facts import claim_facts
from scheduler.state.columns import Rows

_SEARCHED = 5_000
"""Among more pods the user of a claim is not looked for."""


def restrictions(cycle: Cycle, rows: Rows, exclusive: Sequence[str] | None) -> Sequence[Told]:
    """The claims and disks that are missing or in use; ``exclusive`` are claims for one pod.

    It is None if PreFilter has rejected the pod.
    """
    everywhere = _everywhere(cycle, exclusive)
    disks = {disk: set(cycle.state.volumes.conflicts(disk)) for disk in _disks(cycle)}
    ways = [
        tuple(number for number, where in enumerate(disks.values()) if row in where)
        for row in rows.tolist()
    ]
    names = list(disks)

    def facts(way: tuple[int, ...]) -> Iterator[Fact]:
        yield from everywhere
        for number in way:
            text = _text(names[number])
            yield fact("disk", f"another pod there uses the disk {text}", disk=text)

    return told(ways, facts)


def restrictions_in_cluster(
    cycle: Cycle, rows: Rows, exclusive: Sequence[str] | None
) -> Iterator[Fact]:
    """The same for the whole cluster."""
    for each in _everywhere(cycle, exclusive):
        yield {**each, "nodes": len(rows)}
    for disk in _disks(cycle):
        number, text = len(set(cycle.state.volumes.conflicts(disk))), _text(disk)
        if number:
            message = f"the disk {text} is in use on {number} of {cycle.state.node_count} nodes"
            yield fact("disk", message, disk=text, nodes=number)


def _everywhere(cycle: Cycle, exclusive: Sequence[str] | None) -> list[Fact]:
    if exclusive is None:
        return list(claim_facts(cycle.pod, cycle.state.objects))
    return [
        _in_use(cycle, key) for key in exclusive[:MAX_FACTS] if cycle.state.volumes.claimed(key)
    ]


def _in_use(cycle: Cycle, key: str) -> Fact:
    user = None
    if len(cycle.state.pods()) <= _SEARCHED:
        users = (
            pod.key
            for pod in cycle.state.pods()
            if any(use.key == key for use in pod.volumes.claims)
        )
        user = next(users, None)
    name = key.partition("/")[2]
    message = f"claim {name} (ReadWriteOncePod) is in use by {user or 'another pod'}"
    return fact("claim", message, claim=name, state="inUse", pod=user)


def _disks(cycle: Cycle) -> Sequence[DiskUse]:
    return tuple(dict.fromkeys(cycle.pod.volumes.disks))[:MAX_FACTS]


def _text(disk: DiskUse) -> str:
    return "/".join(disk.identity)
