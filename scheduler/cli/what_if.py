"""Changes to the objects of a simulation: nodes added, nodes drained, workloads scaled.

Each takes a list of objects and returns another one; the objects themselves stay as they are. They
come before workloads are expanded to pods, so DaemonSets have pods on added nodes, too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.cli.claim_templates import without_claims_of
from scheduler.cli.targets import KINDS
from scheduler.cli.workloads import (
    DEFAULT_NAMESPACE,
    MAX_REPLICAS,
    Body,
    controller_of,
    expand,
    identity,
    is_active,
    pod_key,
)

HOSTNAME = "kubernetes.io/hostname"
MOST_NODES = 100_000
_REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_CONTROLLER = "ReplicationController"

SCALED = {
    **{name: kind for kind in _REPLICATED for name in KINDS[kind]},
    **dict.fromkeys(("replicationcontroller", "replicationcontrollers", "rc"), _CONTROLLER),
}
"""How kubectl names the kinds that can be scaled."""

_MOST_DIGITS = 20
_MOST_NAMESAKES = 3
"""In how many other namespaces a name is pointed out."""


class NoSuchObject(ValueError):
    """What is to be changed is not among the objects."""


@dataclass(frozen=True)
class Drained:
    """The objects after nodes were drained, and what became of pods that nothing makes again."""

    objects: list[Body]
    moved: int
    lost: list[str]


def add_nodes(objects: Sequence[Body], number: int, like: str) -> list[Body]:
    """More nodes of the shape of one that is there: empty, schedulable, with names of their own.

    Objects that describe the node by its name (CSINode, NodeResourceTopology) are copied, too, and
    the slices of its devices.
    """
    example = _node(objects, like)
    described = [
        body
        for body in objects
        if body["kind"] in ("CSINode", "NodeResourceTopology") and body["metadata"]["name"] == like
    ]
    slices = [
        body
        for body in objects
        if body["kind"] == "ResourceSlice" and body.get("spec", {}).get("nodeName") == like
    ]
    taken = {body["metadata"]["name"] for body in objects if body["kind"] == "Node"}
    added: list[Body] = []
    serial = 0
    while number:
        serial += 1
        name = f"{like}-new-{serial}"
        if name in taken:
            continue
        number -= 1
        added.append(_empty(example, name))
        added += [_renamed(_whole(each), name) for each in described]
        added += [_slice_of(name, each, like) for each in slices]
    return [*objects, *added]


def drain(objects: Sequence[Body], nodes: Sequence[str]) -> Drained:
    """Nodes without pods, on which no pod may start: theirs wait again.

    A DaemonSet's pods and those of the kubelet stay where they are. Those that are being deleted
    are gone. A pod without a controller is lost, as nothing would make it again.
    """
    for node in nodes:
        _node(objects, node)
    kept: list[Body] = []
    lost: list[str] = []
    moved = 0
    for body in objects:
        if body["kind"] == "Node" and body["metadata"]["name"] in nodes:
            kept.append({**body, "spec": {**body.get("spec", {}), "unschedulable": True}})
        elif body["kind"] != "Pod" or not _leaves(body, nodes):
            kept.append(body)
        elif body["metadata"].get("deletionTimestamp"):
            continue  # it goes anyway, and its controller has made another, or will
        elif controller_of(body) is None:
            lost.append("/".join(identity(body)[1:]))
        else:
            moved += 1
            kept.append(_waiting(body))
    gone = {pod_key(each) for each in objects if each["kind"] == "Pod" and _leaves(each, nodes)}
    return Drained(without_claims_of(kept, gone), moved, lost)


def scale(objects: Sequence[Body], workload: str, replicas: int) -> list[Body]:
    """A workload with another number of replicas; of fewer, the pods that wait go first.

    Of a StatefulSet those of the highest ordinals go, and no others. A Deployment's newest
    ReplicaSet makes up for what the older ones still have.
    """
    kind, namespace, name = _named(workload)
    owner = _workload(objects, kind, namespace, name)
    sets = _replica_sets(objects, owner) if kind == "Deployment" else [owner]
    pods = [
        (body, controller)
        for body in objects
        if body["kind"] == "Pod" and is_active(body) and (controller := controller_of(body))
    ]
    owners = {identity(each) for each in sets}
    own = [body for body, controller in pods if controller in owners]
    wanted = {id(owner): replicas}
    if kind == "Deployment" and sets:
        newest = identity(sets[-1])
        older = sum(controller in owners - {newest} for _, controller in pods)
        wanted[id(sets[-1])] = max(0, replicas - older)
    if kind == "StatefulSet":
        end = owner.get("spec", {}).get("ordinals", {}).get("start", 0) + replicas
        excess = [body for body in own if _ordinal(body) >= end]
    else:
        own.sort(key=lambda body: bool(body.get("spec", {}).get("nodeName")))
        excess = own[: max(0, len(own) - replicas)]
    gone = {id(body) for body in excess}
    kept = [_with_replicas(body, wanted.get(id(body))) for body in objects if id(body) not in gone]
    return without_claims_of(kept, set(map(pod_key, excess)))


def _ordinal(pod: Body) -> int:
    """The number at the end of the name of a StatefulSet's pod; -1 if there is none."""
    number = str(pod["metadata"]["name"]).rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def pod_of_workload(objects: Sequence[Body], workload: str) -> Body:
    """A pod as a workload makes it, whether it has any or not."""
    kind, namespace, name = _named(workload)
    owner = _workload(objects, kind, namespace, name)
    related = [owner, *(_replica_sets(objects, owner) if kind == "Deployment" else ())]
    lone = scale(related, workload, 1)
    owners = {identity(each) for each in expand(lone)}
    made = (each for each in expand(lone) if each["kind"] == "Pod")
    found = next((each for each in made if controller_of(each) in owners), None)
    if found is None:
        raise NoSuchObject(f"{kind} {namespace}/{name} has no template, or makes no pods")
    return found


def has_claim_templates(objects: Sequence[Body], workload: str) -> bool:
    """Whether each pod of a workload has claims of its own."""
    return bool(_workload(objects, *_named(workload)).get("spec", {}).get("volumeClaimTemplates"))


def replicas_of(objects: Sequence[Body], workload: str) -> int:
    """How many replicas a workload asks for."""
    spec = _workload(objects, *_named(workload)).get("spec", {})
    return int(spec.get("replicas", spec.get("parallelism", 1)))


def _with_replicas(body: Body, replicas: int | None) -> Body:
    if replicas is None:
        return body
    field = "parallelism" if body["kind"] == "Job" else "replicas"
    return {**body, "spec": {**body.get("spec", {}), field: replicas}}


def parse_replicas(text: str) -> tuple[str, int]:
    """``deployment/web=5``, perhaps with a namespace before the name; raises ValueError."""
    workload, equals, digits = text.rpartition("=")
    number = parse_number(digits, MAX_REPLICAS)
    if not equals or number is None:
        raise ValueError(f"expected KIND/NAME=NUMBER, up to {MAX_REPLICAS}, not {text!r}")
    _named(workload)
    return workload, number


def parse_number(text: str, most: int) -> int | None:
    """A number in digits, from 0 to ``most``; None for anything else."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number <= most else None


def _named(workload: str) -> tuple[str, str, str]:
    """``deployment/web`` or ``deployment/shop/web``: kind, namespace, name."""
    parts = workload.split("/")
    kind = SCALED.get(parts[0].lower())
    if kind is None or not 2 <= len(parts) <= 3 or not all(parts):
        kinds = ", ".join(each.lower() for each in (*_REPLICATED, _CONTROLLER))
        raise ValueError(f"expected KIND/NAME or KIND/NAMESPACE/NAME of {kinds}, not {workload!r}")
    namespace = parts[1] if len(parts) == 3 else DEFAULT_NAMESPACE
    return kind, namespace, parts[-1]


def _workload(objects: Sequence[Body], kind: str, namespace: str, name: str) -> Body:
    there = {identity(body): body for body in objects if body["kind"] == kind}
    found = there.get((kind, namespace, name))
    if found is None:
        key, keys = f"{namespace}/{name}", ["/".join(each[1:]) for each in there]
        raise NoSuchObject(f"no {kind} {key}{hint_of_key(key, keys)}")
    return found


def hint_of_key(key: str, keys: Iterable[str]) -> str:
    """The same name in other namespaces, which are easily forgotten; else what is spelt alike."""
    keys, ending = list(keys), key[key.index("/") :]
    same = sorted(each for each in keys if each.endswith(ending))[:_MOST_NAMESAKES]
    return f", did you mean {' or '.join(same)}?" if same else hint(key, keys)


def hint(name: str, names: Iterable[str]) -> str:
    """What was probably meant, as the end of a message."""
    near = difflib.get_close_matches(name, list(names), 1)
    return f", did you mean {near[0]}?" if near else ""


def _replica_sets(objects: Sequence[Body], deployment: Body) -> list[Body]:
    """Those of a Deployment, the newest last."""
    own = [
        body
        for body in objects
        if body["kind"] == "ReplicaSet" and controller_of(body) == identity(deployment)
    ]
    return sorted(own, key=lambda body: body["metadata"].get("creationTimestamp") or "")


def _node(objects: Sequence[Body], name: str) -> Body:
    nodes = {body["metadata"]["name"]: body for body in objects if body["kind"] == "Node"}
    if name not in nodes:
        raise NoSuchObject(f"no node {name}{hint(name, nodes)}")
    return nodes[name]


def _empty(node: Body, name: str) -> Body:
    """A node of the same shape; what befell the example (cordons, conditions) stays there."""
    new = _renamed(node, name)
    labels = new["metadata"].get("labels", {})
    if HOSTNAME in labels:
        new["metadata"]["labels"] = {**labels, HOSTNAME: name}
    spec = dict(new.get("spec", {}))
    spec.pop("unschedulable", None)
    spec["taints"] = [each for each in spec.get("taints", []) if not _of_condition(each)]
    status = {key: each for key, each in new.get("status", {}).items() if key != "images"}
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {**new, "spec": spec, "status": status}


def _of_condition(taint: Body) -> bool:
    """Whether controllers set a taint for what a node suffers from."""
    return str(taint.get("key", "")).startswith("node.kubernetes.io/")


def _renamed(body: Body, name: str) -> Body:
    metadata = {k: v for k, v in body["metadata"].items() if k not in ("uid", "annotations")}
    return {**body, "metadata": {**metadata, "name": name}}


def _slice_of(node: str, example: Body, like: str) -> Body:
    """The same devices on another node, in a pool of their own."""
    new = _renamed(example, f"{example['metadata']['name']}-{node}")
    spec = new["spec"]
    pool = spec.get("pool", {})
    named = pool.get("name", "")
    pool = {**pool, "name": node if named == like else f"{named}-{node}"}
    return {**new, "spec": {**spec, "nodeName": node, "pool": pool}}


def _whole(topology: Body) -> Body:
    """The cells of an empty node: all that pods can have of them is available."""
    if topology["kind"] != "NodeResourceTopology":
        return topology
    zones = [
        {**zone, "resources": [_unused(each) for each in zone.get("resources", [])]}
        for zone in topology.get("zones", [])
    ]
    return {**topology, "zones": zones}


def _unused(resource: Body) -> Body:
    return {**resource, "available": resource.get("allocatable", resource.get("available", 0))}


def _leaves(pod: Body, nodes: Sequence[str]) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    if ended or pod.get("spec", {}).get("nodeName") not in nodes:
        return False
    owner = controller_of(pod)
    return owner is None or owner[0] not in ("DaemonSet", "Node")


def _waiting(pod: Body) -> Body:
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}
