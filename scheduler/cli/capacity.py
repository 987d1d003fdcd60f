"""``equipoise simulate --more`` and ``--missing-nodes``: what else fits, and what is missing.

Both begin where a simulation ends: with all pods placed that fit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.cli.claim_templates import has_templates, with_claims
from scheduler.cli.targets import KINDS, POD
from scheduler.cli.what_if import (
    HOSTNAME,
    SCALED,
    NoSuchObject,
    add_nodes,
    has_claim_templates,
    hint_of_key,
    pod_of_workload,
    replicas_of,
    scale,
)
from scheduler.cli.workloads import MAX_REPLICAS, Body, expand, identity, pod_key

if TYPE_CHECKING:
    from scheduler.simulation import More

MOST_SHAPES = 12
"""So many shapes of nodes are tried, those with the most nodes."""
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


class MissingNodes(NamedTuple):
    """What more nodes of one shape would do for the pods that wait."""

    like: str
    """A node of that shape."""
    existing: int
    """How many of that shape there are."""
    nodes: int
    """How many more it takes."""
    placed: int
    """How many of the pods that wait they let run."""


def more(objects: Sequence[Body], config: Any, named: str) -> More:
    """How many more pods of a workload, or like a pod, fit; raises `NoSuchObject`, ValueError."""
    from scheduler.simulation import how_many_more

    kind, _, rest = named.partition("/")
    pods = {pod_key(body): body for body in objects if body["kind"] == "Pod"}
    of_pod = rest if kind.lower() in KINDS[POD] else ""
    namespaces = () if kind.lower() in SCALED else {key.partition("/")[0] for key in pods}
    if of_pod or not rest or named in pods or kind in namespaces:
        name = of_pod or named
        key = name if "/" in name else f"default/{name}"
        if key not in pods:
            raise NoSuchObject(f"no pod {key}{hint_of_key(key, pods)}")
        pod = pods[key]
    else:
        pod = pod_of_workload(objects, named)
        if has_claim_templates(objects, named):
            return _more_with_claims(objects, pod, config, partial(_with_replicas, objects, named))
    if has_templates(pod):
        return _more_with_claims(objects, pod, config, partial(_with_copies, objects, pod))
    return how_many_more(objects, pod, config)


def _more_with_claims(
    objects: Sequence[Body], pod: Body, config: Any, enlarged: Callable[[int], list[Body]]
) -> More:
    """How many more pods fit of which each has claims of its own, so that only placing tells."""
    from scheduler.cli.admission import admitted
    from scheduler.simulation import how_many_more, profile_names

    there, ours = set(map(identity, objects)), profile_names(config)

    def copies(number: int) -> list[Body]:
        larger = admitted(with_claims(expand(enlarged(number))))
        new = [body for body in larger if identity(body) not in there]
        there.update(map(identity, new))
        return [_addressed(body, ours) for body in new]

    return how_many_more(objects, pod, config, copies=copies)


def _addressed(body: Body, ours: Collection[str]) -> Body:
    """A pod of another scheduler as one of ours; any other object as it is."""
    if body["kind"] != "Pod" or body["spec"].get("schedulerName", "") in ours:
        return body
    return {**body, "spec": {k: v for k, v in body["spec"].items() if k != "schedulerName"}}


def _with_replicas(objects: Sequence[Body], workload: str, more: int) -> list[Body]:
    return scale(objects, workload, min(replicas_of(objects, workload) + more, MAX_REPLICAS))


def _with_copies(objects: Sequence[Body], pod: Body, more: int) -> list[Body]:
    """The objects and so many pods like one of them that wait."""
    dropped = ("uid", "deletionTimestamp")
    metadata = {k: v for k, v in pod["metadata"].items() if k not in dropped}
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "schedulingGates")}
    copy = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    names = (f"{metadata['name']}-more-{number}" for number in range(more))
    return [*objects, *({**copy, "metadata": {**metadata, "name": name}} for name in names)]


def missing_nodes(objects: Sequence[Body], config: Any) -> tuple[int, list[MissingNodes]]:
    """How many pods wait when all are placed that fit; and for each shape how many nodes it takes.

    The smallest number with which as many of them run as with any number of that shape. Shapes
    that let none run are left out; those that let most run, with the fewest nodes, come first.
    """
    from scheduler.cli.admission import admitted
    from scheduler.simulation import place

    outcome = place(objects, config)
    known = {pod for pod, _, _ in outcome}
    waiting = {pod for pod, node, _ in outcome if node is None}
    settled = _settled(objects, {pod: node for pod, node, _ in outcome if node is not None})
    on_nodes = {pod_key(each) for each in settled if each["kind"] == "Pod" and _node_of(each)}
    again = sum(node is not None and pod not in on_nodes for pod, node, _ in outcome)

    def helped(example: str, number: int) -> int:
        larger = admitted(with_claims(expand(add_nodes(settled, number, example))))
        # Pods that DaemonSets have on added nodes did not wait.
        return sum(n is not None and pod in known for pod, n, _ in place(larger, config)) - again

    found = []
    for example, existing in _shapes(objects)[:MOST_SHAPES] if waiting else ():
        most = helped(example, len(waiting))
        if most:
            low, high = 1, len(waiting)
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if helped(example, middle) >= most else (middle + 1, high)
            found.append(MissingNodes(example, existing, low, most))
    found.sort(key=lambda each: (-each.placed, each.nodes, each.like))
    return len(waiting), found


def _settled(objects: Sequence[Body], placed: dict[str, str]) -> list[Body]:
    """The objects with the pods on the nodes that they got.

    Pods with claims wait again: what says which devices they got are their claims.
    """

    def at_home(body: Body) -> Body:
        node = placed.get(pod_key(body)) if body["kind"] == "Pod" else None
        if node is None or body["spec"].get("resourceClaims"):
            return body
        return {**body, "spec": {**body["spec"], "nodeName": node}}

    return [at_home(body) for body in objects]


def _node_of(pod: Body) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def _shapes(objects: Sequence[Body]) -> list[tuple[str, int]]:
    """A node of each shape and how many there are: equal but for names and zones."""
    equipment = _equipment(objects)
    shapes: dict[str, list[str]] = {}
    for body in objects:
        if body["kind"] == "Node" and not body.get("spec", {}).get("unschedulable"):
            metadata = body["metadata"]
            labels = metadata.get("labels", {})
            alike = {k: v for k, v in labels.items() if k != HOSTNAME and k not in _ZONES}
            amounts = body.get("status", {}).get("allocatable", {})
            taints = body.get("spec", {}).get("taints", [])
            own = sorted(equipment.get(metadata["name"], ()))
            key = json.dumps([alike, amounts, taints, own], sort_keys=True, default=str)
            shapes.setdefault(key, []).append(metadata["name"])
    counted = [(min(names), len(names)) for names in shapes.values()]
    return sorted(counted, key=lambda each: (-each[1], each[0]))


def _equipment(objects: Sequence[Body]) -> dict[str, list[str]]:
    """By node: its NUMA cells, and how many devices each driver publishes for it."""
    cells: dict[str, list[str]] = {}
    devices: Counter[tuple[str, str]] = Counter()
    for body in objects:
        if body["kind"] == "NodeResourceTopology":
            for zone in body.get("zones", ()):
                amounts = {each["name"]: each.get("allocatable") for each in zone["resources"]}
                text = f"{zone.get('name')} {json.dumps(amounts, sort_keys=True, default=str)}"
                cells.setdefault(body["metadata"]["name"], []).append(text)
        elif body["kind"] == "ResourceSlice" and (node := body["spec"].get("nodeName")):
            devices[node, body["spec"].get("driver", "")] += len(body["spec"].get("devices", ()))
    for (node, driver), number in devices.items():
        cells.setdefault(node, []).append(f"{driver} {number}")
    return cells
