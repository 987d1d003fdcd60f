"""Make room: wait for pods that go, delete pods, add a node of a shape that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import compress, count
from typing import Any, TypeVar

import msgspec
import numpy as np

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.patches import Object, at, put
from scheduler.explaining.remedies.scene import Scene, Step, rows_of, ways
from scheduler.explaining.remedies.taints import of_life_cycle
from scheduler.model.affinity import HOSTNAME
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import PODS
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import importance
from scheduler.slices import checkpoint
from scheduler.state.aspects import ZONE_LABELS
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Mask, Rows

R = TypeVar("R", float, list[int])

WAIT = "wait"
DELETE = "delete"
ADD = "add"
MOST_READ = 256
"""Pods of so many nodes are looked at, those that lack least."""
MOST_NODES = 6
"""On so many nodes it is tried which pods would have to go."""
MOST_SHAPES = 8
MOST_VICTIMS = 8
MOST_CLAIMS = 16
VIOLATION = 20.0
OWN_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences")


def wait(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Wait for pods that are being deleted; they count as deleted."""
    for name in least_lacking(scene, names, MOST_READ):
        checkpoint()
        leaving = [pod for pod in scene.state.pods_on(name) if pod.pod.deleting]
        if leaving:
            chosen = fewest(scene, name, sorted(leaving, key=importance))
            if chosen:
                text = keys_of(chosen)
                yield Step(
                    WAIT,
                    f"wait: {text} on node {name} {are(chosen)} being deleted",
                    cost(WAIT),
                    gone=tuple(chosen),
                    affects=tuple(map(described, chosen)),
                    parts=frozenset(pod.uid for pod in chosen),
                )
                return


def delete(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Delete the fewest pods of a node that let the pod in, none of higher priority."""
    state = scene.state
    budgets = budgets_of(state)
    tried = 0
    for name in least_lacking(scene, names, MOST_READ):
        checkpoint()
        if tried == MOST_NODES:
            return
        pods = [pod for pod in state.pods_on(name) if removable(scene, pod)]
        if not pods or not may_suffice(scene, name, pods):
            continue
        tried += 1
        chosen = fewest(scene, name, by_harm(scene, pods, budgets))
        if len(chosen) > MOST_VICTIMS or all(pod.pod.deleting for pod in chosen):
            continue
        yield Step(
            DELETE,
            f"delete {keys_of(chosen)} on node {name}, or move {them(chosen)} elsewhere",
            **harm(chosen, budgets),
        )


def budgets_of(state: ClusterState) -> Budgets:
    """The PodDisruptionBudgets of a cluster."""
    return state.shared.get_or_make(Budgets, lambda: Budgets(state.objects))


def by_harm(scene: Scene, pods: Sequence[PodInfo], budgets: Budgets) -> list[PodInfo]:
    """Pods in the order in which they should stay.

    The last ones are deleted first: no budget broken, the lowest priority, the largest.
    """
    violating, _ = budgets.split(sorted(pods, key=importance))
    protected = {pod.uid for pod in violating}
    return sorted(
        pods, key=lambda pod: (pod.uid not in protected, -pod.priority, _size(scene, pod))
    )


def harm(chosen: Sequence[PodInfo], budgets: Budgets) -> dict[str, Any]:
    """What a step that deletes pods costs, and which pods it affects."""
    # A budget that cannot spare all pods of the node may spare these.
    broken, _ = budgets.split(sorted(chosen, key=importance))
    affects = [described(pod) for pod in chosen]
    affects += [f"violates a PodDisruptionBudget of pod {pod.key}" for pod in broken]
    return {
        "cost": cost(DELETE, len(chosen) - 1 + VIOLATION * len(broken)),
        "gone": tuple(chosen),
        "affects": tuple(affects),
        "parts": frozenset(pod.uid for pod in chosen),
    }


def add_node(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Add a node like one that there is, without its pods."""
    for place, name in enumerate(shapes(scene, names)):
        step = added(scene, name, 0.01 * place)
        if step is not None and leaves_room(scene, name, step):
            yield step


def added(scene: Scene, name: str, more: float = 0.0) -> Step | None:
    """The step that adds a node like one that there is; None if that has gone."""
    raw = scene.node(name)
    if raw is None:
        return None
    return Step(
        ADD,
        f"add 1 node like {name}",
        cost(ADD, more),
        nodes=copies(raw, scene.state, 1),
        affects=("the cluster: one more node",),
        parts=frozenset({name}),
    )


def add_node_for_volume(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Add a node like one that there is, but where the pod's volumes are."""
    wanted = _volume_labels(scene)
    if not wanted:
        return
    text = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    for place, name in enumerate(shapes(scene, names)):
        raw = scene.node(name)
        if raw is None:
            continue
        (copy,) = copies(raw, scene.state, 1)
        labels = {**(at(copy, "metadata", "labels") or {}), **wanted}
        if labels == at(copy, "metadata", "labels"):
            continue  # an ordinary copy does
        step = Step(
            ADD,
            f"add 1 node like {name} with {text}, where the pod's volumes are",
            cost(ADD, 0.5 + 0.01 * place),
            nodes=(put(copy, ("metadata", "labels"), labels),),
            affects=("the cluster: one more node",),
            parts=frozenset({name, text}),
        )
        if leaves_room(scene, name, step):
            yield step


def leaves_room(scene: Scene, name: str, step: Step) -> bool:
    """Whether the pod fits on new nodes also beside the daemons that a node like it has."""
    come = daemons(scene, name, step.nodes)
    if not come:
        return True
    beside = scene.then(msgspec.structs.replace(step, come=come))
    return all(beside.opens(raw["metadata"]["name"]) for raw in step.nodes)


def daemons(scene: Scene, name: str, nodes: Sequence[Object]) -> tuple[tuple[PodInfo, str], ...]:
    """The pods that come to new nodes by themselves, since one like them has such pods."""
    there = [pod for pod in scene.state.pods_on(name) if _of_node(pod) and not pod.pod.deleting]
    names = [raw["metadata"]["name"] for raw in nodes]
    return tuple((_another(pod, new), new) for new in names for pod in there)


def _of_node(pod: PodInfo) -> bool:
    """Whether a pod comes with its node: a DaemonSet's, or the kubelet's own."""
    owner = pod.pod.metadata.controller
    return owner is not None and owner.kind in ("DaemonSet", "Node")


def _another(pod: PodInfo, node: str) -> PodInfo:
    """A pod like one, for another node."""
    known = pod.pod
    names = {"name": f"{known.metadata.name}-{node}", "uid": f"{pod.uid}/on/{node}"}
    metadata = msgspec.structs.replace(known.metadata, **names)
    spec = msgspec.structs.replace(known.spec, node_name="")
    return PodInfo(msgspec.structs.replace(known, metadata=metadata, spec=spec), pod.limits)


def _volume_labels(scene: Scene) -> dict[str, str]:
    """Labels of nodes that reach the volumes of the pod."""
    objects = scene.state.objects
    wanted: dict[str, str] = {}
    for use in scene.info.volumes.claims[:MOST_CLAIMS]:
        claim = objects.get(PersistentVolumeClaim, use.key)
        volume = objects.get(PersistentVolume, claim.spec.volume_name) if claim else None
        if volume is None:
            continue
        for key in ZONE_LABELS & volume.metadata.labels.keys():
            wanted[key] = volume.metadata.labels[key].split("__")[0]
        affinity = volume.spec.node_affinity
        terms = (
            affinity.required.node_selector_terms if affinity and affinity.required else ()
        ) or ()
        for each in terms[0].match_expressions if terms else ():
            if each.operator == "In" and each.values and each.key != HOSTNAME:
                wanted[each.key] = each.values[0]
    return wanted


def copies(raw: Object, state: ClusterState, number: int) -> tuple[Object, ...]:
    """So many nodes like another, under names that are free."""
    name = raw["metadata"]["name"]
    made: list[Object] = []
    for suffix in count(1):
        if len(made) == number:
            break
        new = f"{name}-copy-{suffix}"
        if state.row(new) is None and not state.pods_on(new):
            made.append(_copied(raw, new))
    return tuple(made)


def _copied(raw: Object, new: str) -> Object:
    """A node like another: its labels but for its name, its taints and what it offers."""
    metadata = {k: v for k, v in raw["metadata"].items() if k not in OWN_METADATA}
    labels = dict(metadata.get("labels") or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = new
    taints = [t for t in at(raw, "spec", "taints") or [] if not of_life_cycle(t.get("key", ""))]
    status = at(raw, "status") or {}
    kept = ("capacity", "allocatable", "conditions", "declaredFeatures", "nodeInfo")
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**metadata, "name": new, "labels": labels},
        "spec": {},
        "status": {key: status[key] for key in kept if key in status},
    }
    return put(made, ("spec", "taints"), taints)


def shapes(scene: Scene, names: list[str], *, large_enough: bool = True) -> list[str]:
    """Nodes that differ in what they offer, their taints or zone.

    The smallest that offer what the pod asks for come first; or else the largest of the others.
    """
    state = scene.state
    if next(iter(state.objects.all(NodeResourceTopology)), None) is not None:
        # A new node's cells are known only when it is there.
        names = [n for n in names if state.objects.get(NodeResourceTopology, n) is None]
    with scene.acted() as cycle:
        columns = cycle.state.columns
        there, rows = rows_of(cycle.state, names)
        suited = _offering(cycle, rows) == large_enough
        there, rows = [*compress(there, suited.tolist())], rows[suited]
        if not len(rows):
            return []
        table = np.vstack(
            (
                columns.allocatable[:, rows],
                columns.pod_limit[rows],
                columns.taints.numbers[rows],
                columns.labels.column("topology.kubernetes.io/zone").ids[rows],
            )
        )
    checkpoint()
    different, which = ways(table)
    checkpoint()
    first: dict[int, str] = {}
    for name, shape in zip(there, which.tolist(), strict=True):
        checkpoint()
        first[shape] = min(name, first.get(shape, name))
    signed = different[:2] if large_enough else -different[:2]
    sizes = map(signed.T.tolist().__getitem__, first)
    return [name for _, name in nsmallest(MOST_SHAPES, _in_pairs(sizes, first.values()))]


def _offering(cycle: Cycle, rows: Rows) -> Mask:
    """Which rows offer what the pod asks for, whatever of it is taken."""
    columns = cycle.state.columns
    offering: Mask = columns.pod_limit[rows] > 0
    for resource, amount in cycle.pod.fit_requests.items():
        place = columns.resources.find(resource)
        if place is not None and resource != PODS:
            offering &= columns.allocatable[place][rows] >= amount
        elif amount and resource != PODS:
            offering &= False
    return offering


def _in_pairs(ranks: Iterable[R], names: Iterable[str]) -> Iterator[tuple[R, str]]:
    """Names with their ranks; the event loop may run between them."""
    for pair in zip(ranks, names, strict=True):
        checkpoint()
        yield pair


# Which pods


def least_lacking(scene: Scene, names: list[str], most: int) -> list[str]:
    """Nodes that would have room when empty, those that lack least first."""
    with scene.acted() as cycle:
        columns = cycle.state.columns
        there, rows = rows_of(cycle.state, names)
        lacking = np.zeros(len(rows), np.float64)
        lacking += np.maximum(0, columns.pod_count[rows] + 1 - columns.pod_limit[rows])
        hopeless = np.zeros(len(rows), np.bool_)
        for resource, amount in scene.info.fit_requests.items():
            place = columns.resources.find(resource)
            if place is None:
                hopeless |= amount > 0
                continue
            offered, used = columns.allocatable[place][rows], columns.requested[place][rows]
            hopeless |= offered < amount
            lacking += np.maximum(0, amount - (offered - used)) / np.maximum(offered, 1)
    lacking[hopeless] = np.inf
    # Equals by name, so that the answer does not depend on rows: only the best are sorted.
    bound = np.partition(lacking, most)[most] if most < len(lacking) else np.inf
    near = np.flatnonzero((lacking <= bound) & np.isfinite(lacking))
    among = _in_pairs(lacking[near].tolist(), map(there.__getitem__, near.tolist()))
    return [name for _, name in nsmallest(most, among)]


def may_suffice(scene: Scene, name: str, removable: Sequence[PodInfo]) -> bool:
    """Whether there may be room without these pods, by what they request."""
    columns, row = scene.state.columns, scene.state.row(name)
    if row is None:
        return False
    for resource, amount in scene.info.fit_requests.items():
        place = columns.resources.find(resource)
        if place is None:
            continue
        free = int(columns.allocatable[place, row] - columns.requested[place, row])
        if free + sum(pod.requests.get(resource, 0) for pod in removable) < amount:
            return False
    return True


def fewest(
    scene: Scene,
    name: str,
    pods: Sequence[PodInfo],
    without: Callable[[Sequence[PodInfo]], Step] | None = None,
) -> list[PodInfo]:
    """Pods of a node that are all needed to go; those at the end of the list go rather.

    Pods are put back in halves, as long as the pod still fits, so few of many cost few trials.
    ``without`` is the step after which pods are gone.
    """

    def fits(gone: Sequence[PodInfo]) -> bool:
        step = Step(DELETE, "", 0.0, gone=tuple(gone)) if without is None else without(gone)
        return scene.then(step).opens(name)

    if not fits(pods):
        return []
    needed = list(pods)
    start, size = 0, max(1, len(needed) // 2)
    while True:
        while start < len(needed):
            fewer = needed[:start] + needed[start + size :]
            if fewer and fits(fewer):
                needed = fewer
            else:
                start += size
        if size == 1:
            return needed
        start, size = 0, max(1, size // 2)


def removable(scene: Scene, pod: PodInfo) -> bool:
    """Whether a pod may be proposed: not one that comes back, or is not on its node yet."""
    world = scene.world
    if _of_node(pod) or scene.state.assumed(pod.uid) or world.originals.waits(pod.pod):
        return False
    return pod.priority <= scene.info.priority and pod.uid != world.info.uid


def _size(scene: Scene, pod: PodInfo) -> float:
    """How much of what the pod asks for another one holds."""
    wanted = scene.info.fit_requests
    return sum(pod.requests.get(name, 0) / amount for name, amount in wanted.items() if amount)


def described(pod: PodInfo) -> str:
    """A pod as those affected are listed."""
    owner = pod.pod.metadata.controller
    of = f" of {owner.kind} {owner.name}" if owner is not None else ""
    return f"pod {pod.key}{of}, priority {pod.priority}"


def keys_of(pods: Sequence[PodInfo]) -> str:
    """Pods by name."""
    many = "s" if len(pods) > 1 else ""
    return f"pod{many} {', '.join(sorted(pod.key for pod in pods))}"


def are(pods: Sequence[PodInfo]) -> str:
    """The verb for so many."""
    return "are" if len(pods) > 1 else "is"


def them(pods: Sequence[PodInfo]) -> str:
    """The pronoun for so many."""
    return "them" if len(pods) > 1 else "it"
