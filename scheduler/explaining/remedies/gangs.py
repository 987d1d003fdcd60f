"""What would let a whole gang run, where one member alone would fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.occupancy import copies, daemons, shapes
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.explaining.replicas import place_together
from scheduler.gangs.gang import Gang
from scheduler.gangs.registry import find_registry
from scheduler.model.podinfo import PodInfo

MIN_MEMBER = "min-member"
ADD_NODES = "add-nodes"
NEW_GROUP = "pod-group"
MOST_MEMBERS = 64
"""Gangs that need more members are not tried as a whole."""
MOST_READ = 1024
"""So many members are looked at."""
MOST_NODES = 16
MOST_SHAPES = 2


def group_of(scene: Scene) -> str | None:
    """The pod group that holds the pod."""
    groups = scene.world.framework.groups
    return None if groups is None else groups.group_of(scene.world.info)


def for_gang(scene: Scene, seed: int) -> Iterator[Step]:
    """Steps after which enough members exist and fit together."""
    key = group_of(scene)
    registry = find_registry(scene.state)
    if key is None or registry is None:
        return
    gang = registry.get(key)
    if gang is not None and gang.rules is not None and gang.rules.fault:
        return
    waiting = _waiting(scene, gang)
    if gang is None or gang.rules is None:
        placed = gang.placed if gang is not None else 0
        together = _together(scene, waiting, seed)
        if members := placed + len(together):
            yield _new_group(key, members, _whom(scene, together))
        return
    needed = gang.rules.min_member - gang.placed
    if not 0 < needed <= MOST_MEMBERS:
        return
    together = _together(scene, waiting, seed)
    fit = len(together)
    if len(waiting) < needed:
        if fit == len(waiting) and gang.placed + fit:
            yield _fewer(gang, gang.placed + fit, _until_ready(gang, needed - fit))
        return
    if fit >= needed:
        return
    last = waiting.index(scene.info) if scene.info in waiting else 0
    yield from _more_nodes(scene, waiting[: max(needed, last + 1)], seed)
    if gang.placed + fit:
        yield _fewer(gang, gang.placed + fit, f"which fit together{_whom(scene, together)}")


def _whom(scene: Scene, together: Mapping[str, str]) -> str:
    """Said if members that come first take all the room."""
    return "" if scene.info.uid in together else ": others than this pod"


def _waiting(scene: Scene, gang: Gang | None) -> list[PodInfo]:
    """The members without a node that can be tried, as the queue has them."""
    own, limits = scene.info, scene.world.info.limits
    known = {} if gang is None else gang.members
    with_nodes = () if gang is None else gang.with_nodes
    members: list[PodInfo] = []
    for uid, pod in islice(known.items(), MOST_READ):
        if uid == own.uid:
            members.append(own)
        elif uid not in with_nodes and not pod.deleting and not pod.spec.scheduling_gates:
            members.append(PodInfo(pod, limits))
    if own not in members:
        members.append(own)
    members.sort(key=lambda member: -member.priority)
    return members[:MOST_MEMBERS]


def _until_ready(gang: Gang, missing: int) -> str:
    """What else would help, if too few members can be tried."""
    gated = sum(bool(pod.spec.scheduling_gates) for pod in gang.members.values())
    if gated:
        return f"or have {missing} more of its pods ready, of which {gated} are gated"
    return f"or create {missing} more of its pods"


def _together(
    scene: Scene, members: Sequence[PodInfo], seed: int, *, stop_early: bool = False
) -> dict[str, str]:
    """The nodes of the members that find one, one after the other."""
    world = scene.world
    world.spend()
    return place_together(
        world.framework, world.state, seed, members, scene.acted, stop_early=stop_early
    )


def _more_nodes(scene: Scene, members: Sequence[PodInfo], seed: int) -> Iterator[Step]:
    """The fewest nodes of one shape with which all members fit."""
    for name in shapes(scene, scene.state.names())[:MOST_SHAPES]:
        raw = scene.node(name)
        if raw is None:
            continue
        low, high, best = 1, MOST_NODES, None
        while low <= high:
            number = (low + high) // 2
            new = copies(raw, scene.state, number)
            step = Step(
                ADD_NODES,
                f"add {number} node{'s' if number > 1 else ''} like {name}, for all members",
                cost(ADD_NODES, 0.05 * (number - 1)),
                nodes=new,
                affects=(f"the cluster: {number} more node{'s' if number > 1 else ''}",),
                parts=frozenset({name}),
            )
            beside = msgspec.structs.replace(step, come=daemons(scene, name, new))
            placed = _together(scene.then(beside), members, seed, stop_early=True)
            if len(placed) == len(members):
                best, high = step, number - 1
            else:
                low = number + 1
        if best is not None:
            yield best


def _fewer(gang: Gang, members: int, why: str) -> Step:
    namespace, name = gang.key.split("/", 1)
    before = gang.rules.min_member if gang.rules is not None else 0
    change: dict[str, Any] = {
        "op": "patch",
        "kind": "PodGroup",
        "namespace": namespace,
        "name": name,
        "patch": {"spec": {"minMember": members}},
    }
    return Step(
        MIN_MEMBER,
        f"lower minMember of pod group {gang.key} from {before} to {members}, {why}",
        cost(MIN_MEMBER),
        others=(change,),
        affects=(f"pod group {gang.key}: it may run with fewer members",),
        parts=frozenset({gang.key}),
    )


def _new_group(key: str, members: int, whom: str) -> Step:
    namespace, name = key.split("/", 1)
    made = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"minMember": members},
    }
    return Step(
        NEW_GROUP,
        f"create pod group {key}, which does not exist, with minMember {members}{whom}",
        cost(NEW_GROUP),
        others=({"op": "add", "object": made},),
        affects=(f"all pods of pod group {key}",),
        parts=frozenset({key}),
    )
