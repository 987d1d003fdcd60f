"""Objects that fit together: nodes with room, and pods that some of them take.

What is drawn from a schema alone is valid and nearly always unschedulable. Behind the filters lies
most of the code: reservations, bindings, gangs, devices, volumes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from scheduler.model.meta import Kind
from scheduler.model.objects import KINDS
from tests.fuzz import words
from tests.fuzz.drawing import Json, api_version, draw_object, kinds

GPU = words.DRIVERS[0]


def draw_fitting(rng: Random, name: str = "") -> tuple[Kind, Json]:
    """An object that works with the others that are drawn here, of any kind or of this one."""
    name = name or rng.choice(_OFTEN)
    kind = KINDS[name]
    body = FITTING[name](rng)
    metadata = body.setdefault("metadata", {})
    metadata.setdefault("name", rng.choice(words.NAMES.get(name, words.OTHER_NAMES)))
    if kind.namespaced:
        metadata["namespace"] = words.NAMESPACES[0] if rng.random() < 0.9 else words.NAMESPACES[1]
    metadata["uid"] = f"u0-{metadata.get('namespace', '')}-{metadata['name']}"
    metadata["resourceVersion"] = str(rng.randrange(1, 10**6))
    if rng.random() < 0.15:
        _add_drawn_field(rng, kind, body)
    return kind, {**body, "apiVersion": api_version(kind), "kind": name}


def draw_any(rng: Random) -> tuple[Kind, Json]:
    """An object that fits, or any."""
    if rng.random() < 0.7:
        return draw_fitting(rng)
    kind = rng.choice(kinds())
    return kind, draw_object(rng, kind)


def _add_drawn_field(rng: Random, kind: Kind, body: Json) -> None:
    """One more field, from the schema."""
    other = draw_object(rng, kind)
    for part in ("spec", "status", "metadata"):
        there = other.get(part)
        if isinstance(there, dict) and isinstance(body.get(part), dict) and there:
            field = rng.choice(list(there))
            if field not in {"name", "namespace", "uid", "nodeName", "containers"}:
                body[part].setdefault(field, there[field])


def _node(rng: Random) -> Json:
    name = rng.choice(words.NODES)
    labels = {
        "zone": rng.choice(("a", "b")),
        "kubernetes.io/hostname": name,
        "disk": rng.choice(("a", "b")),
        "cores": rng.choice(("1", "12")),
        "topology.kubernetes.io/zone": rng.choice(("a", "b")),
    }
    offered = {"cpu": rng.choice(("1", "8", "8", "64")), "memory": "32Gi", "pods": "110"}
    if rng.random() < 0.5:
        offered["example.com/gpu"] = rng.choice(("1", "4"))
    spec: Json = {}
    if rng.random() < 0.25:
        effect = rng.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        spec["taints"] = [{"key": "disk", "value": rng.choice("ab"), "effect": effect}]
    if rng.random() < 0.08:
        spec["unschedulable"] = True
    ready = [{"type": "Ready", "status": "True"}]
    if rng.random() < 0.15:
        ready.append({"type": "MemoryPressure", "status": "True"})
    images = [{"names": ["app:1"], "sizeBytes": 50_000_000}] if rng.random() < 0.3 else []
    status = {"allocatable": offered, "conditions": ready, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _topology(rng: Random) -> Json:
    def zone(number: int) -> Json:
        each = {"capacity": "4", "allocatable": "4", "available": rng.choice(("4", "1", "0"))}
        memory = {"capacity": "16Gi", "allocatable": "16Gi", "available": "16Gi"}
        resources = [{"name": "cpu", **each}, {"name": "memory", **memory}]
        return {"name": f"node-{number}", "type": "Node", "resources": resources}

    policy = rng.choice(("single-numa-node", "restricted", "best-effort", "none"))
    attributes = [
        {"name": "topologyManagerPolicy", "value": policy},
        {"name": "topologyManagerScope", "value": rng.choice(("pod", "container"))},
    ]
    return {"metadata": {}, "zones": [zone(0), zone(1)], "attributes": attributes}


def _selector(rng: Random) -> Json:
    return {"matchLabels": {"app": rng.choice(("a", "web"))}}


def _affinity(rng: Random) -> Json:
    term = {"topologyKey": rng.choice(words.KEYS[:2]), "labelSelector": _selector(rng)}
    if rng.random() < 0.3:
        term["namespaceSelector"] = {}
    where = rng.choice(("podAffinity", "podAntiAffinity"))
    if rng.random() < 0.5:
        return {where: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": 10, "podAffinityTerm": term}
    return {where: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def _pod(rng: Random) -> Json:
    requests = {"cpu": rng.choice(("100m", "1", "2")), "memory": rng.choice(("1Gi", "64Mi"))}
    container: Json = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spec: Json = {"schedulerName": "equipoise", "containers": [container]}
    labels = {"app": rng.choice(("a", "web"))}
    for chance, add in _FEATURES:
        if rng.random() < chance:
            add(rng, spec, labels)
    if rng.random() < 0.25:
        spec["nodeName"] = rng.choice(words.NODES)
    status: Json = {}
    if rng.random() < 0.1:
        status["phase"] = rng.choice(("Running", "Succeeded", "Failed"))
    if rng.random() < 0.08:
        status["nominatedNodeName"] = rng.choice(words.NODES)
    metadata: Json = {"labels": labels}
    if rng.random() < 0.04:
        metadata["deletionTimestamp"] = words.TIMES[0]
    return {"metadata": metadata, "spec": spec, "status": status}


def _with_claim(rng: Random, spec: Json, labels: Json) -> None:
    source = {"persistentVolumeClaim": {"claimName": rng.choice(words.CLAIMS)}}
    spec["volumes"] = [{"name": "v", **source}]


def _with_devices(rng: Random, spec: Json, labels: Json) -> None:
    claims = [{"name": "k0", "resourceClaimName": rng.choice(words.CLAIMS)}]
    spec["resourceClaims"] = claims
    spec["containers"][0]["resources"]["claims"] = [{"name": "k0"}]


def _with_gpu(rng: Random, spec: Json, labels: Json) -> None:
    spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"


def _with_spread(rng: Random, spec: Json, labels: Json) -> None:
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": rng.choice(words.KEYS[:2]),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": _selector(rng),
        }
    ]


def _with_sidecars(rng: Random, spec: Json, labels: Json) -> None:
    requests = {"cpu": rng.choice(("1", "3"))}
    policy = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
    spec["initContainers"] = [{"name": "i", "resources": {"requests": requests}, **policy}]


_FEATURES: tuple[tuple[float, Callable[[Random, Json, Json], None]], ...] = (
    (0.15, _with_claim),
    (0.2, _with_devices),
    (0.1, _with_gpu),
    (0.15, _with_spread),
    (0.1, _with_sidecars),
    (0.2, lambda rng, spec, labels: spec.update(affinity=_affinity(rng))),
    (0.1, lambda rng, spec, labels: spec.update(nodeSelector={"zone": rng.choice("ab")})),
    (0.1, lambda rng, spec, labels: spec.update(tolerations=[{"operator": "Exists"}])),
    (0.1, lambda rng, spec, labels: spec.update(tolerations=[{"key": "disk", "value": "a"}])),
    (0.15, lambda rng, spec, labels: spec.update(priority=rng.choice((0, 10, 100)))),
    (0.05, lambda rng, spec, labels: spec.update(schedulingGates=[{"name": "gate"}])),
    (
        0.15,
        lambda rng, spec, labels: labels.update(
            {"scheduling.x-k8s.io/pod-group": rng.choice(words.POD_GROUPS)}
        ),
    ),
    (
        0.1,
        lambda rng, spec, labels: spec["containers"][0].update(
            ports=[{"containerPort": 80, "hostPort": 80}]
        ),
    ),
)


def _volume(rng: Random) -> Json:
    spec: Json = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": rng.choice(words.CLASSES),
    }
    if rng.random() < 0.5:
        spec["claimRef"] = {"namespace": words.NAMESPACES[0], "name": rng.choice(words.CLAIMS)}
    if rng.random() < 0.5:
        spec["csi"] = {"driver": GPU, "volumeHandle": rng.choice(("h0", "h1"))}
    elif rng.random() < 0.3:
        spec["awsElasticBlockStore"] = {"volumeID": rng.choice(words.FIELDS["volumeID"])}
    if rng.random() < 0.4:
        match = {"key": "zone", "operator": "In", "values": [rng.choice("ab")]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}}
    labels = {"topology.kubernetes.io/zone": rng.choice("ab")} if rng.random() < 0.3 else {}
    status = {"phase": rng.choice(("Available", "Bound"))}
    return {"metadata": {"labels": labels}, "spec": spec, "status": status}


def _claim(rng: Random) -> Json:
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": rng.choice(words.CLASSES),
        "resources": {"requests": {"storage": "5Gi"}},
    }
    bound = rng.random() < 0.5
    if bound:
        spec["volumeName"] = rng.choice(words.VOLUMES)
    done = {"pv.kubernetes.io/bind-completed": "yes"} if bound and rng.random() < 0.8 else {}
    status = {"phase": "Bound" if bound else "Pending"}
    return {"metadata": {"annotations": done}, "spec": spec, "status": status}


def _slice(rng: Random) -> Json:
    node = rng.choice(words.NODES)
    generation, parts = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
    pool = {"name": node, "generation": generation, "resourceSliceCount": parts}

    def device(number: int) -> Json:
        attributes = {"model": {"string": rng.choice("ab")}, "numa": {"int": rng.randrange(3)}}
        capacity = {"memory": {"value": rng.choice(("1Gi", "80Gi"))}}
        found: Json = {"name": f"d{number}", "attributes": attributes, "capacity": capacity}
        if rng.random() < 0.2:
            counters = {"memory": {"value": "10Gi"}}
            found["consumesCounters"] = [{"counterSet": "s0", "counters": counters}]
        if rng.random() < 0.1:
            found["taints"] = [{"key": "x", "effect": "NoSchedule"}]
        if rng.random() < 0.1:
            found["allowMultipleAllocations"] = True
        return found

    spec: Json = {"driver": rng.choice(words.DRIVERS), "pool": pool, "nodeName": node}
    spec["devices"] = [device(number) for number in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        del spec["devices"]
        spec["sharedCounters"] = [{"name": "s0", "counters": {"memory": {"value": "40Gi"}}}]
    return {"spec": spec}


def _device_class(rng: Random) -> Json:
    expression = rng.choice(words.EXPRESSIONS[:4])
    spec: Json = {"selectors": [{"cel": {"expression": expression}}] if rng.random() < 0.7 else []}
    if rng.random() < 0.3:
        spec["extendedResourceName"] = "example.com/gpu"
    return {"spec": spec}


def _device_claim(rng: Random) -> Json:
    exactly: Json = {"deviceClassName": rng.choice(words.DEVICE_CLASSES)}
    exactly |= {"allocationMode": rng.choice(("ExactCount", "All")), "count": rng.choice((1, 2))}
    if rng.random() < 0.3:
        exactly["selectors"] = [{"cel": {"expression": rng.choice(words.EXPRESSIONS)}}]
    devices: Json = {"requests": [{"name": "r0", "exactly": exactly}]}
    if rng.random() < 0.2:
        devices["constraints"] = [{"matchAttribute": f"{GPU}/model"}]
    status: Json = {}
    if rng.random() < 0.4:
        node = rng.choice(words.NODES)
        result = {"request": "r0", "driver": GPU, "pool": node, "device": rng.choice(("d0", "d1"))}
        status["allocation"] = {"devices": {"results": [result]}}
        status["reservedFor"] = [
            {"resource": "pods", "name": name, "uid": f"u0-{words.NAMESPACES[0]}-{name}"}
            for name in rng.sample(words.NAMES["Pod"], rng.randint(0, 2))
        ]
    return {"spec": {"devices": devices}, "status": status}


FITTING: dict[str, Callable[[Random], Json]] = {
    "Pod": _pod,
    "Node": _node,
    "NodeResourceTopology": _topology,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "StorageClass": lambda rng: {
        "provisioner": rng.choice((GPU, "kubernetes.io/no-provisioner")),
        "volumeBindingMode": rng.choice(("Immediate", "WaitForFirstConsumer")),
    },
    "CSINode": lambda rng: {
        "spec": {"drivers": [{"name": GPU, "nodeID": "i", "allocatable": {"count": 1}}]}
    },
    "ResourceSlice": _slice,
    "DeviceClass": _device_class,
    "ResourceClaim": _device_claim,
    "PodGroup": lambda rng: {"spec": {"minMember": rng.choice((1, 2, 2, 3))}},
    "Service": lambda rng: {"spec": {"selector": {"app": rng.choice(("a", "web"))}}},
    "PodDisruptionBudget": lambda rng: {
        "spec": {"selector": _selector(rng)},
        "status": {"disruptionsAllowed": rng.choice((0, 1))},
    },
    "Namespace": lambda rng: {"metadata": {"labels": {"app": rng.choice(("a", "web"))}}},
}
_OFTEN = (*FITTING, *["Node"] * 8, *["Pod"] * 16, *["ResourceSlice", "ResourceClaim"] * 2)
