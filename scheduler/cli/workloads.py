"""ReplicaSets, pods and claims that controllers would create for workloads.

Manifests name Deployments, and a scheduler places pods. What a dump of a live cluster already
holds is not made a second time. Names look like those in a cluster, and are always the same, so
two simulations of the same files agree. Objects come in without nulls and in the shapes below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Annotated, Any

import msgspec
import xxhash

from scheduler.model.devices import ResourceClaimSpec
from scheduler.model.meta import Condition, LabelSelector, ObjectMeta, Struct
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, PodSpec, named_node
from scheduler.model.tolerations import Cover

Body = dict[str, Any]
"""A Kubernetes object as JSON has it."""

MAX_REPLICAS = 100_000
DEFAULT_NAMESPACE = "default"

# The letters of generated names; without vowels they spell nothing.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
# No divisor in common with the number of suffixes: none comes twice before all have come once.
_SUFFIX_STEP = 5_309_569
_TEMPLATE_HASH_LENGTH = 10
_LONGEST_STEM = 63 - _SUFFIX_LENGTH

_Replicas = Annotated[int, msgspec.Meta(ge=0, le=MAX_REPLICAS)]


class _PodTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class _ReplicasSpec(Struct, frozen=True):
    replicas: _Replicas = 1
    template: _PodTemplate | None = None


class _Replicated(Struct, frozen=True):
    spec: _ReplicasSpec = _ReplicasSpec()


class _DeploymentSpec(_ReplicasSpec, frozen=True):
    selector: LabelSelector = LabelSelector()


class _Deployment(Struct, frozen=True):
    spec: _DeploymentSpec = _DeploymentSpec()


class _Ordinals(Struct, frozen=True):
    start: int = 0


class _NamedObject(Struct, frozen=True):
    name: str


class _ClaimTemplate(Struct, frozen=True):
    metadata: _NamedObject


class _StatefulSpec(_ReplicasSpec, frozen=True):
    ordinals: _Ordinals = _Ordinals()
    volume_claim_templates: tuple[_ClaimTemplate, ...] = ()


class _Stateful(Struct, frozen=True):
    spec: _StatefulSpec = _StatefulSpec()


class _DaemonSpec(Struct, frozen=True):
    template: _PodTemplate | None = None


class _DaemonSet(Struct, frozen=True):
    spec: _DaemonSpec = _DaemonSpec()


class _JobSpec(Struct, frozen=True):
    parallelism: _Replicas = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    template: _PodTemplate | None = None


class _JobStatus(Struct, frozen=True):
    succeeded: int = 0
    completed_indexes: str = ""
    conditions: tuple[Condition, ...] = ()


class _ClaimFromTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class _ResourceClaimTemplate(Struct, frozen=True):
    spec: _ClaimFromTemplate = _ClaimFromTemplate()


class _Job(Struct, frozen=True):
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


GROUPS = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "ReplicationController": "",
    "Job": "batch",
    "ResourceClaimTemplate": "resource.k8s.io",
}
"""The API group of each kind."""

SHAPES: dict[str, type] = {
    "Deployment": _Deployment,
    "ReplicaSet": _Replicated,
    "ReplicationController": _Replicated,
    "StatefulSet": _Stateful,
    "DaemonSet": _DaemonSet,
    "Job": _Job,
    "ResourceClaimTemplate": _ResourceClaimTemplate,
}
"""What must hold of a workload, or of a template, before something is made of it."""


def identity(body: Body) -> tuple[str, str, str]:
    """Kind, namespace and name; the default namespace if there is none."""
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace") or DEFAULT_NAMESPACE, metadata["name"]


def pod_key(pod: Body) -> str:
    """``namespace/name``."""
    return "/".join(identity(pod)[1:])


def controller_of(body: Body) -> tuple[str, str, str] | None:
    """The identity of the object that manages this one."""
    for owner in body["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            return owner.get("kind", ""), identity(body)[1], owner.get("name", "")
    return None


def expand(objects: list[Body]) -> list[Body]:
    """The objects, and after them what controllers would still make of the workloads.

    Nothing is made of what is being deleted, nor in a namespace that is: the API server refuses it.
    """
    owned: dict[tuple[str, str, str], list[Body]] = {}
    for body in objects:
        if (owner := controller_of(body)) is not None:
            owned.setdefault(owner, []).append(body)
    ending = {_name(body) for body in objects if body["kind"] == "Namespace" and _ends(body)}
    staying = [body for body in objects if not _ends(body) and identity(body)[1] not in ending]
    sets = [
        replica_set
        for body in staying
        if body["kind"] == "Deployment" and identity(body) not in owned
        for replica_set in _replica_set(body)
    ]
    result = [*objects, *sets]
    if daemons := [body for body in staying if body["kind"] == "DaemonSet"]:
        nodes = [from_dict(body, Node) for body in objects if body["kind"] == "Node"]
        for body in daemons:
            result += _daemon_pods(body, owned.get(identity(body), []), nodes)
    for body in (*staying, *sets):
        if (make := _MAKERS.get(body["kind"])) is not None:
            result += make(body, owned.get(identity(body), []))
    return _without_repetition(result)


def _name(body: Body) -> str:
    name: str = body["metadata"]["name"]
    return name


def _ends(body: Body) -> bool:
    return body["metadata"].get("deletionTimestamp") is not None


def _without_repetition(objects: Iterable[Body]) -> list[Body]:
    """A claim or pod that is there already is not made again; what was given comes first."""
    first: dict[tuple[str, str, str], Body] = {}
    for body in objects:
        first.setdefault(identity(body), body)
    return list(first.values())


def _replica_set(deployment: Body) -> Iterator[Body]:
    spec = deployment.get("spec", {})
    template = spec.get("template")
    if template is None:
        return
    digest = _letters(_hash(json.dumps(template, sort_keys=True)), _TEMPLATE_HASH_LENGTH)
    labels = {**_labels(template), "pod-template-hash": digest}
    selector = spec.get("selector", {})
    chosen = {**selector.get("matchLabels", {}), "pod-template-hash": digest}
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": _owned_metadata(
            deployment, f"{deployment['metadata']['name']}-{digest}", labels
        ),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {**selector, "matchLabels": chosen},
            "template": {
                **template,
                "metadata": {**template.get("metadata", {}), "labels": labels},
            },
        },
    }


def _replica_pods(owner: Body, owned: list[Body]) -> Iterator[Body]:
    spec = from_dict(owner, _Replicated).spec
    if spec.template is None:
        return
    missing = spec.replicas - sum(map(is_active, owned))
    for name in islice(
        generated_names(owner["metadata"]["name"], identity(owner), owned), max(0, missing)
    ):
        yield _pod(owner, name)


def _ordinal_pods(owner: Body, owned: list[Body]) -> Iterator[Body]:
    spec = from_dict(owner, _Stateful).spec
    if spec.template is None:
        return
    present = {pod["metadata"]["name"] for pod in owned}
    set_name = owner["metadata"]["name"]
    for ordinal in range(spec.ordinals.start, spec.ordinals.start + spec.replicas):
        name = f"{set_name}-{ordinal}"
        if name in present:
            continue
        pod = _pod(
            owner,
            name,
            {
                "apps.kubernetes.io/pod-index": str(ordinal),
                "statefulset.kubernetes.io/pod-name": name,
            },
        )
        claims = owner["spec"].get("volumeClaimTemplates", [])
        yield from _claimed(pod, claims)


def _claimed(pod: Body, templates: list[Body]) -> Iterator[Body]:
    """The claims of a StatefulSet's pod, and the pod that mounts them."""
    _, namespace, pod_name = identity(pod)
    names = {t["metadata"]["name"]: f"{t['metadata']['name']}-{pod_name}" for t in templates}
    for template in templates:
        metadata = {**template["metadata"], "namespace": namespace}
        metadata["name"] = names[metadata["name"]]
        yield {**template, "kind": "PersistentVolumeClaim", "metadata": metadata}
    if names:
        kept = [v for v in pod["spec"].get("volumes", ()) if v.get("name") not in names]
        added = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in names.items()
        ]
        pod["spec"] = {**pod["spec"], "volumes": [*kept, *added]}
    yield pod


def _daemon_pods(owner: Body, owned: list[Body], nodes: Iterable[Node]) -> Iterator[Body]:
    """A pod for each node that the template matches and that has none, as the controller has it."""
    template = from_dict(owner, _DaemonSet).spec.template
    if template is None:
        return
    spec = owner["spec"]["template"].get("spec", {})
    wanted = [*spec.get("tolerations", []), *_DAEMON_TOLERATIONS]
    wanted += _HOST_TOLERATIONS if spec.get("hostNetwork") else []
    example = _pod(owner, owner["metadata"]["name"])
    info = PodInfo(from_dict({**example, "spec": {**spec, "tolerations": wanted}}, Pod))
    cover = Cover(info.pod.spec.tolerations)
    manned = {_daemon_node(pod) for pod in owned if is_active(pod)}
    names = generated_names(owner["metadata"]["name"], identity(owner), owned)
    for node in nodes:
        name = node.metadata.name
        elsewhere = info.pod.spec.node_name not in ("", name)
        if name in manned or elsewhere or cover.repelled(node.spec.taints):
            continue
        if info.node_matcher.matches(node):
            pod = _pod(owner, next(names))
            pod["spec"] = {**spec, "tolerations": wanted, "affinity": _only_on(name, spec)}
            yield pod


def _daemon_node(pod: Body) -> str:
    return pod.get("spec", {}).get("nodeName") or named_node(from_dict(pod, Pod))


def _only_on(node: str, spec: Body) -> Body:
    """The template's affinity with one node in place of what it requires of nodes."""
    affinity = spec.get("affinity", {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    rules = {**affinity.get("nodeAffinity", {}), _REQUIRED: required}
    return {**affinity, "nodeAffinity": rules}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_DAEMON_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
_HOST_TOLERATIONS = [
    {
        "key": "node.kubernetes.io/network-unavailable",
        "operator": "Exists",
        "effect": "NoSchedule",
    }
]


def _job_pods(owner: Body, owned: list[Body]) -> Iterator[Body]:
    job = from_dict(owner, _Job)
    spec = job.spec
    if spec.template is None or spec.suspend or _ended(job):
        return
    active = sum(map(is_active, owned))
    unfinished = active if job.status.succeeded else spec.parallelism
    if spec.completions is not None:
        unfinished = spec.completions - job.status.succeeded
    missing = min(spec.parallelism, unfinished) - active
    job_name = owner["metadata"]["name"]
    labels = {"batch.kubernetes.io/job-name": job_name, "job-name": job_name}
    if spec.completion_mode != "Indexed":
        for name in islice(generated_names(job_name, identity(owner), owned), max(0, missing)):
            yield _pod(owner, name, labels)
        return
    taken = {
        _labels(pod).get(_INDEX)
        for pod in owned
        if is_active(pod) or pod.get("status", {}).get("phase") == "Succeeded"
    }
    left = _without(_indexes(job.status.completed_indexes), spec.completions or spec.parallelism)
    free = (index for index in left if str(index) not in taken)
    for index in islice(free, max(0, missing)):
        name = next(generated_names(f"{job_name}-{index}", identity(owner), owned))
        yield _pod(owner, name, {**labels, _INDEX: str(index)})


def _indexes(text: str) -> list[range]:
    """What ``status.completedIndexes`` says: ``0-2,5``; parts that are no numbers say nothing."""
    parts = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        with suppress(ValueError):
            parts.append(range(int(first), int(last or first) + 1))
    return parts


def _without(done: list[range], end: int) -> Iterator[int]:
    """The numbers below an end that are in none of the ranges."""
    start = 0
    for part in sorted(done, key=lambda part: part.start):
        yield from range(start, min(part.start, end))
        start = max(start, part.stop)
    yield from range(start, end)


_INDEX = "batch.kubernetes.io/job-completion-index"

_MAKERS: dict[str, Callable[[Body, list[Body]], Iterable[Body]]] = {
    "ReplicaSet": _replica_pods,
    "ReplicationController": _replica_pods,
    "StatefulSet": _ordinal_pods,
    "Job": _job_pods,
}


def _ended(job: _Job) -> bool:
    return any(
        condition.type in ("Complete", "Failed") and condition.status == "True"
        for condition in job.status.conditions
    )


def is_active(pod: Body) -> bool:
    """Whether its controller counts a pod: it neither has ended nor is about to."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and pod["metadata"].get("deletionTimestamp") is None


def _pod(owner: Body, name: str, labels: dict[str, str] | None = None) -> Body:
    template = owner["spec"]["template"]
    metadata = _owned_metadata(owner, name, {**_labels(template), **(labels or {})})
    if annotations := template.get("metadata", {}).get("annotations"):
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec", {}),
    }


def _owned_metadata(owner: Body, name: str, labels: dict[str, str]) -> Body:
    kind, namespace, owner_name = identity(owner)
    reference = {
        "apiVersion": owner.get("apiVersion", ""),
        "kind": kind,
        "name": owner_name,
        "uid": owner["metadata"].get("uid") or "/".join((kind, namespace, owner_name)),
        "controller": True,
    }
    return {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]}


def _labels(body: Body) -> dict[str, str]:
    labels: dict[str, str] = body.get("metadata", {}).get("labels", {})
    return labels


def generated_names(base: str, owner: tuple[str, str, str], owned: list[Body]) -> Iterator[str]:
    """Endless names that none of the owned has: the base, a dash and five letters."""
    taken = {body["metadata"]["name"] for body in owned}
    stem = f"{base}-"[:_LONGEST_STEM]
    start = _hash("/".join((*owner, base)))
    for i in count():
        name = stem + _letters(start + i * _SUFFIX_STEP, _SUFFIX_LENGTH)
        if name not in taken:
            yield name


def _hash(text: str) -> int:
    return xxhash.xxh64_intdigest(text.encode())


def _letters(number: int, length: int) -> str:
    text = ""
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        text += _ALPHABET[digit]
    return text
