"""Pods whose lists are as long as `limits` allows: each list alone, two of them, or all at once.

All pods of one tag are alike, and unlike those of other tags. Nodes and running pods that the
lists name are in `NODE_LABELS`, `node_labels` and `NEAR_LABELS`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from scheduler.model.limits import DEFAULT_LIMITS
from tests.builders import Json, make_pod

LIMITS = DEFAULT_LIMITS
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = 64
"""Labels of each node that selectors may name."""
NEAR_LABELS = {f"near-{i}": "yes" for i in range(LIMITS.pod_affinity_terms)}
"""Labels of running pods that terms of affinity select."""


def node_labels(number: int) -> dict[str, str]:
    """Labels of a node: equal ones, and such that tell nodes apart."""
    same = {f"same-{i}": "yes" for i in range(KEYS)}
    return same | {_key(i): f"v-{number % (i + 2)}" for i in range(KEYS)}


def _key(i: int) -> str:
    return f"key-{i % KEYS}"


def spread(tag: str) -> Json:
    """Constraints by host and by zone, half of them required."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1000,
                "topologyKey": (HOST, ZONE, _key(i), _key(i + 7))[i % 4],
                "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway")[i // 4 % 2],
                "labelSelector": {"matchLabels": {f"{tag}-{i}": "yes"}},
                "nodeTaintsPolicy": ("Honor", "Ignore")[i // 2 % 2],
            }
            for i in range(LIMITS.topology_spread_constraints)
        ]
    }


def _term(tag: str, i: int) -> Json:
    key = (HOST, ZONE, _key(i), _key(i + 7))[i % 4]
    return {
        "topologyKey": key,
        "labelSelector": {"matchExpressions": [_wish(f"{tag}-{i}", "In", "yes", "no")]},
        "namespaceSelector": {},
    }


def _wish(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def apart(tag: str) -> Json:
    """Required and preferred terms of anti-affinity."""
    half = LIMITS.pod_affinity_terms // 2
    preferred = [
        {"weight": 1 + i % 100, "podAffinityTerm": _term(tag, i)}
        for i in range(half, LIMITS.pod_affinity_terms)
    ]
    required = [_term(tag, i) for i in range(half)]
    return {"affinity": {"podAntiAffinity": {REQUIRED: required, PREFERRED: preferred}}}


def near(tag: str) -> Json:
    """Required and preferred terms of affinity, which a running pod satisfies."""
    half = LIMITS.pod_affinity_terms // 2
    preferred = [
        {"weight": 1 + i % 100, "podAffinityTerm": _term("near", i)}
        for i in range(half, LIMITS.pod_affinity_terms)
    ]
    required = [{**_term("near", i), "topologyKey": ZONE} for i in range(half)]
    return {"affinity": {"podAffinity": {REQUIRED: required, PREFERRED: preferred}}}


def nodes(tag: str) -> Json:
    """Node affinity, required and preferred, and a node selector."""
    count = LIMITS.node_requirements
    wishes = [
        {"matchExpressions": [_wish(_key(i), "NotIn", f"{tag}-{i}", "v-3")]} for i in range(count)
    ]
    preferred = [{"weight": 1 + i % 100, "preference": each} for i, each in enumerate(wishes)]
    terms = {"nodeSelectorTerms": wishes}
    return {
        "affinity": {"nodeAffinity": {REQUIRED: terms, PREFERRED: preferred}},
        "nodeSelector": {f"same-{i}": "yes" for i in range(KEYS)},
    }


def names(tag: str) -> Json:
    """Node affinity by names of nodes, in expressions with very many values."""
    each = (LIMITS.selector_entries - 2 * LIMITS.node_requirements) // LIMITS.node_requirements // 2
    wishes = [
        {"matchExpressions": [_wish(HOST, "NotIn", *(f"{tag}-{i}-{j}" for j in range(each - 1)))]}
        for i in range(LIMITS.node_requirements)
    ]
    preferred = [{"weight": 1 + i % 100, "preference": each} for i, each in enumerate(wishes)]
    terms = {"nodeSelectorTerms": wishes}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms, PREFERRED: preferred}}}


def tolerations(tag: str) -> Json:
    return {
        "tolerations": [
            {"key": f"{tag}-{i}", "operator": "Exists"} for i in range(LIMITS.tolerations - 1)
        ]
        + [{"key": "taint", "operator": "Exists"}]
    }


def containers(tag: str) -> Json:
    """Containers with requests and ports."""
    each, ports = LIMITS.resource_entries // LIMITS.containers, LIMITS.ports // LIMITS.containers
    return {
        "containers": [
            {
                "name": f"c-{i}",
                "image": f"{tag}-{i}",
                "resources": {
                    "requests": {
                        "cpu": "1m",
                        "memory": "1Mi",
                        **{f"example.com/{tag}-{i}-{j}": "0" for j in range(each - 2 - (i == 0))},
                    }
                },
                "ports": [
                    {"containerPort": 1 + ports * i + j, "hostPort": 1 + ports * i + j}
                    for j in range(ports)
                ],
            }
            for i in range(LIMITS.containers)
        ]
    }


def volumes(tag: str) -> Json:
    """Claims of volumes that are bound, and such that wait for a node."""
    return {
        "volumes": [
            {"name": f"v-{i}", "persistentVolumeClaim": {"claimName": f"{tag}-{i}"}}
            for i in range(LIMITS.volume_claims)
        ]
    }


def disks(tag: str) -> Json:
    """Disks that must not be attached twice."""
    return {
        "volumes": [
            {"name": f"v-{i}", "gcePersistentDisk": {"pdName": f"{tag}-{i}"}}
            for i in range(LIMITS.volumes)
        ]
    }


LISTS: dict[str, Callable[[str], Json]] = {
    "spread": spread,
    "apart": apart,
    "near": near,
    "nodes": nodes,
    "names": names,
    "tolerations": tolerations,
    "containers": containers,
    "volumes": volumes,
    "disks": disks,
}
ALONE = [{"names", "nodes"}, {"volumes", "disks"}]
"""Lists of which a pod has one or the other."""
HALF = {"apart", "near"}
"""Terms that count together: with both, a pod has half of each."""


def pod_with(lists: tuple[str, ...], tag: str, **spec: Any) -> Json:
    """A pod whose named lists are all as long as they may be."""
    raw = make_pod(tag).label(**{f"{tag}-{i}": "yes" for i in range(64)}).obj()
    for name in lists:
        written = LISTS[name](tag)
        affinity = {**raw["spec"].get("affinity", {}), **written.get("affinity", {})}
        raw["spec"] |= written
        if affinity:
            raw["spec"]["affinity"] = affinity
    if set(lists) >= HALF:
        for side in ("podAffinity", "podAntiAffinity"):
            rules = raw["spec"]["affinity"][side]
            raw["spec"]["affinity"][side] = {k: v[: len(v) // 2] for k, v in rules.items()}
    raw["spec"] |= spec
    return raw


EVERYTHING = tuple(
    tuple(name for name in LISTS if name not in (left_out, volumes_out))
    for left_out in ("names", "nodes")
    for volumes_out in ("volumes", "disks")
)
"""All lists at once, of two that exclude each other one or the other."""
PAIRS = [pair for pair in combinations(LISTS, 2) if not any(set(pair) == each for each in ALONE)]


def claims_of(tag: str) -> tuple[list[Json], list[Json]]:
    """The claims that `volumes` names, every third of them bound, and the volumes of these."""
    volumes, claims = [], []
    for i in range(LIMITS.volume_claims):
        name, bound = f"{tag}-{i}", i % 3 == 0
        annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        spec = {
            "storageClassName": "late",
            "volumeName": f"pv-{name}" if bound else "",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
        }
        claims.append(
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {**metadata, "annotations": annotations},
                "spec": spec,
            }
        )
        if bound:
            volumes.append(_bound_volume(name))
    return volumes, claims


def _bound_volume(name: str) -> Json:
    zones = [{"matchExpressions": [_wish(ZONE, "In", "zone-1", "zone-2")]}]
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}", "labels": {ZONE: "zone-1__zone-2"}},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "nodeAffinity": {"required": {"nodeSelectorTerms": zones}},
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
        },
        "status": {"phase": "Bound"},
    }
