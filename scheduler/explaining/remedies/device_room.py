"""Make room for devices: delete who holds them, or add a node with devices like those of another.

A pod that goes gives its claims back: what was made for it goes with it, of what it shared its
reservation. Kubernetes does so by itself; here it is part of the change, so that who applies it to
a copy of the cluster gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from scheduler.dra.extended_resources import extended_resources
from scheduler.dra.ledger import DeviceLedger
from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.occupancy import (
    ADD,
    DELETE,
    MOST_NODES,
    MOST_SHAPES,
    MOST_VICTIMS,
    OWN_METADATA,
    WAIT,
    are,
    budgets_of,
    by_harm,
    copies,
    described,
    fewest,
    harm,
    keys_of,
    removable,
    them,
)
from scheduler.explaining.remedies.patches import Object, put
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.model.devices import ResourceClaim, ResourceSlice
from scheduler.model.podinfo import PodInfo
from scheduler.slices import checkpoint

UNUSED = "delete-claim"
MOST_READ = 256
"""Of so many nodes the devices are looked at."""
MOST_HOLDERS = 32
MOST_POOLS = 8
MOST_SLICES = 16

Pool = tuple[str, str]


class DeviceHolder:
    """A claim that holds devices, and who uses it."""

    def __init__(self, claim: ResourceClaim, pods: Sequence[PodInfo]) -> None:
        self.claim = claim
        self.pods = pods
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        self.pools = {(each.driver, each.pool) for each in results}


def _concerned(scene: Scene) -> DeviceLedger | None:
    """What is known of devices, if the pod needs some."""
    ledger = scene.state.shared.get(DeviceLedger)
    if ledger is None:
        return None
    pod = scene.info
    served = extended_resources(scene.state).served(pod)
    return ledger if pod.pod.spec.resource_claims or served else None


def release(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Have the fewest pods go that hold devices which a node has; or unused claims."""
    ledger = _concerned(scene)
    if ledger is None:
        return
    holders = _holders(scene, ledger)
    budgets = budgets_of(scene.state)
    tried = 0
    for name in sorted(names)[:MOST_READ]:
        checkpoint()
        here = _held_on(scene, ledger, name, holders)[:MOST_HOLDERS]
        if not here:
            continue
        if tried == MOST_NODES:
            return
        tried += 1
        yield from _unused(scene, name, here)
        users = {pod.uid: pod for each in here for pod in each.pods}
        there = {pod.uid: pod for pod in scene.state.pods_on(name)}
        leaving = [pod for pod in users.values() if pod.pod.deleting]
        without = partial(_without, scene, ledger)
        if leaving and (gone := fewest(scene, name, leaving, without)):
            yield _waiting(name, gone, without(gone))
            continue
        pods = [pod for pod in {**there, **users}.values() if removable(scene, pod)]
        chosen = fewest(scene, name, by_harm(scene, pods, budgets), without) if pods else []
        if not chosen or len(chosen) > MOST_VICTIMS or all(pod.pod.deleting for pod in chosen):
            continue
        step = without(chosen)
        yield Step(
            DELETE,
            f"delete {keys_of(chosen)} with the devices of node {name},"
            f" or move {them(chosen)} elsewhere",
            changed=step.changed,
            removed=step.removed,
            **harm(chosen, budgets),
        )


def _waiting(name: str, gone: Sequence[PodInfo], step: Step) -> Step:
    return Step(
        WAIT,
        f"wait: {keys_of(gone)} with devices of node {name} {are(gone)} being deleted",
        cost(WAIT),
        gone=tuple(gone),
        changed=step.changed,
        removed=step.removed,
        affects=tuple(map(described, gone)),
        parts=frozenset(pod.uid for pod in gone),
    )


def _unused(scene: Scene, name: str, here: Sequence[DeviceHolder]) -> Iterator[Step]:
    """Delete unused claims that hold devices; each alone, then all."""
    idle = [each.claim for each in here if not each.pods and not each.claim.status.reserved_for]
    own = {entry.resource_claim_name for entry in scene.info.pod.spec.resource_claims}
    idle = [each for each in idle if each.metadata.name not in own][:MOST_VICTIMS]
    kind = ResourceClaim.__name__
    alone = False
    for claims in (*([each] for each in idle), idle if len(idle) > 1 else []):
        raws = [raw for each in claims if (raw := scene.other(kind, each.metadata.key))]
        if not raws or (alone and len(claims) > 1):
            continue
        many = "s" if len(claims) > 1 else ""
        listed = ", ".join(sorted(each.metadata.key for each in claims))
        step = Step(
            UNUSED,
            f"delete the claim{many} {listed}, with devices of node {name} and used by no pod",
            cost(UNUSED, 0.1 * (len(claims) - 1)),
            removed=tuple(raws),
            affects=tuple(f"ResourceClaim {each.metadata.key}" for each in claims),
            parts=frozenset(each.metadata.uid for each in claims),
        )
        if scene.then(step).opens(name):
            alone = True
            if len(claims) == 1 or _all_needed(scene, name, raws):
                yield step


def _all_needed(scene: Scene, name: str, raws: Sequence[Object]) -> bool:
    """Whether without any one of some deletions the pod does not fit."""
    return not any(
        scene.then(
            Step(UNUSED, "", 0.0, removed=tuple(each for each in raws if each is not kept))
        ).opens(name)
        for kept in raws
    )


def _holders(scene: Scene, ledger: DeviceLedger) -> dict[Pool, list[DeviceHolder]]:
    """The claims that hold devices, by pool."""
    found: dict[Pool, list[DeviceHolder]] = {}
    for claim in ledger.claims():
        checkpoint()
        key = claim.metadata.key
        if claim.status.allocation is None or not ledger.settled(key):
            continue
        known = [scene.state.pod(each.uid) for each in claim.status.reserved_for]
        pods = [pod for pod in known if pod is not None]
        if len(pods) == len(known):  # else a pod without a node uses it
            holder = DeviceHolder(claim, pods)
            for pool in holder.pools:
                found.setdefault(pool, []).append(holder)
    return found


def _held_on(
    scene: Scene, ledger: DeviceLedger, name: str, holders: Mapping[Pool, list[DeviceHolder]]
) -> list[DeviceHolder]:
    """Who holds devices of pools that a node sees."""
    row = scene.state.row(name)
    if row is None:
        return []
    ledger.follow_nodes()
    views = ledger.index.inventory.segment(row).views
    found = {id(each): each for view in views for each in holders.get(view.key, ())}
    return list(found.values())


def _without(scene: Scene, ledger: DeviceLedger, pods: Sequence[PodInfo]) -> Step:
    """The step after which pods are gone, and what they hold is free."""
    gone = {pod.uid for pod in pods}
    changed, removed = [], []
    keys = dict.fromkeys(key for pod in pods for key in ledger.reserved_for(pod))
    for key in keys:
        raw, claim = scene.other(ResourceClaim.__name__, key), ledger.claim(key)
        if raw is None or claim is None or not ledger.settled(key):
            continue
        if not {each.uid for each in claim.status.reserved_for} <= gone:
            continue
        owner = claim.metadata.controller
        if owner is not None and owner.uid in gone:
            removed.append(raw)
        else:
            changed.append(put(raw, ("status",), {}))
    return Step(DELETE, "", 0.0, gone=tuple(pods), changed=tuple(changed), removed=tuple(removed))


# New nodes


def add_node(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Add a node like one that there is, with devices like those that only it has."""
    ledger = _concerned(scene)
    if ledger is None:
        return
    slices: dict[str, list[ResourceSlice]] = {}
    for each in scene.state.objects.all(ResourceSlice).values():
        checkpoint()
        if each.spec.node_name:
            slices.setdefault(each.spec.node_name, []).append(each)
    place = 0
    for name in _differing(scene, ledger, [name for name in names if name in slices]):
        raw = scene.node(name)
        if raw is None or len(slices[name]) > MOST_SLICES:
            continue
        (node,) = copies(raw, scene.state, 1)
        pools = _pools(slices[name])
        step = _of_pools(scene, name, node, pools, place)
        if not scene.then(step).opens(node["metadata"]["name"]):
            continue
        yield _of_pools(scene, name, node, _needed(scene, name, node, pools), place)
        place += 1


def _pools(slices: Sequence[ResourceSlice]) -> dict[Pool, list[ResourceSlice]]:
    pools: dict[Pool, list[ResourceSlice]] = {}
    for each in sorted(slices, key=lambda one: one.metadata.name):
        pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    return dict(list(pools.items())[:MOST_POOLS])


def _needed(
    scene: Scene, name: str, node: Object, pools: dict[Pool, list[ResourceSlice]]
) -> dict[Pool, list[ResourceSlice]]:
    """Those of the pools that the pod needs."""
    for pool in list(pools):
        fewer = {key: each for key, each in pools.items() if key != pool}
        if fewer and scene.then(_of_pools(scene, name, node, fewer, 0)).opens(
            node["metadata"]["name"]
        ):
            pools = fewer
    return pools


def _of_pools(
    scene: Scene,
    name: str,
    node: Object,
    pools: Mapping[Pool, Sequence[ResourceSlice]],
    place: int,
) -> Step:
    new = node["metadata"]["name"]
    drivers = ", ".join(dict.fromkeys(driver for driver, _ in pools))
    return Step(
        ADD,
        f"add 1 node like {name} with its devices of {drivers}",
        cost(ADD, 0.01 * place),
        nodes=(node,),
        objects=tuple(
            _copied_slice(scene.world.originals.other(ResourceSlice.__name__, each), name, new)
            for slices in pools.values()
            for each in slices
        ),
        affects=("the cluster: one more node",),
        parts=frozenset({name}),
    )


def _copied_slice(raw: Object, node: str, new: str) -> Object:
    """A slice of a node as another node would have it."""
    metadata = {key: each for key, each in raw["metadata"].items() if key not in OWN_METADATA}
    spec = raw.get("spec") or {}
    pool = spec.get("pool") or {}  # a file may have slices that no API server would take
    name = str(pool.get("name") or "")
    renamed = new if name == node else f"{name}-{new}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": ResourceSlice.__name__,
        "metadata": {**metadata, "name": f"{raw['metadata']['name']}-{new}"},
        "spec": {**spec, "nodeName": new, "pool": {**pool, "name": renamed}},
    }


def _differing(scene: Scene, ledger: DeviceLedger, names: Sequence[str]) -> list[str]:
    """Nodes whose devices or sizes differ, whatever is in use; the smallest first."""
    rows = [row for name in names if (row := scene.state.row(name)) is not None]
    if not rows:
        return []
    ledger.follow_nodes()
    first: dict[object, tuple[tuple[int, ...], str]] = {}
    columns = scene.state.columns
    inventory = ledger.index.inventory
    for row in rows:
        checkpoint()
        segment = inventory.segment(row)
        shapes = np.sort(inventory.arena.shape[segment.start : segment.stop]).tobytes()
        size = tuple(columns.allocatable[:, row].tolist())
        key = shapes, size, int(columns.taints.numbers[row])
        name = columns.names[row]
        if key not in first or name < first[key][1]:
            first[key] = size, name
    return [name for _, name in sorted(first.values())[:MOST_SHAPES]]
