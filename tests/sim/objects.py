"""The API objects that a plan's parts stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox import patching
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import uniform
from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import Json
from tests.dra.devices import DRIVER
from tests.sim.plan import AddClaim, AddGroup, AddVolume, NodePlan, PodPlan

ZONES = ("east", "north", "west")
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CELLS = "example.com/cells"
TAINT = {"key": "example.com/dedicated", "effect": "NoSchedule"}
FLAPPED = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
FOREIGN = "another-scheduler"
PRIORITIES = (10, 100, 1000)
LOCAL, REMOTE = "local", "remote"
PROVISIONER = "volumes.example.com"
_IMAGE = "example.com/app:1"
_GI = 1 << 30


def copied(body: Json) -> Json:
    """A body that the registry may complete in place."""
    made: Json = patching.copied(body)
    return made


def node(plan: NodePlan) -> Json:
    """A ready node; the first CPU of one with cells is the system's."""
    labels = {HOST: plan.name, **({ZONE: plan.zone} if plan.zone else {})}
    if plan.cells:
        body = kubelet(plan).machine.node(plan.name, {**labels, CELLS: "true"})
    else:
        amounts = {"cpu": str(plan.cpu), "memory": f"{plan.memory}Gi", "pods": str(plan.pods)}
        body = {"metadata": {"name": plan.name, "labels": labels}, "spec": {}}
        body["status"] = {"capacity": dict(amounts), "allocatable": dict(amounts)}
    body["spec"]["taints"] = [TAINT] if plan.tainted else []
    body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return body


def kubelet(plan: NodePlan) -> NumaKubelet:
    """The kubelet of a node with cells."""
    each = plan.memory * _GI // plan.cells
    machine = uniform(plan.cells, plan.cpu // plan.cells, each, max_pods=plan.pods)
    return NumaKubelet(plan.name, machine)


def pod(plan: PodPlan) -> Json:
    """A pod as its author writes it."""
    resources: Json = {}
    if plan.cpu:
        resources["cpu"] = f"{plan.cpu}m"
    if plan.memory:
        resources["memory"] = f"{plan.memory}Mi"
    container: Json = {"name": "main", "image": _IMAGE, "resources": {"requests": resources}}
    if plan.pinned:
        container["resources"]["limits"] = dict(resources)
    spec: Json = {
        "schedulerName": FOREIGN if plan.foreign else SCHEDULER_NAME,
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
    }
    labels = {"app": plan.app} if plan.app else {}
    if plan.group:
        labels[POD_GROUP_LABEL] = plan.group
    body: Json = {"metadata": {"name": plan.name, "namespace": plan.namespace, "labels": labels}}
    body["spec"] = spec
    _restrict(spec, plan)
    _equip(spec, plan)
    if plan.absurd:
        ABSURDITIES[plan.absurd](body)
    return body


def _restrict(spec: Json, plan: PodPlan) -> None:
    """Where it may go."""
    same = {"labelSelector": {"matchLabels": {"app": plan.app}}}
    if plan.priority:
        spec["priorityClassName"] = f"priority-{plan.priority}"
    if plan.zone:
        spec["nodeSelector"] = {ZONE: plan.zone}
    if plan.pinned:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), CELLS: "true"}
    if plan.tolerates:
        spec["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    if plan.spread:
        key = ZONE if plan.spread == "zone" else HOST
        hard = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**hard, **same}]
    if plan.apart:
        term = {"topologyKey": HOST, **same}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec.setdefault("affinity", {})["podAntiAffinity"] = rule
    if plan.near:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": plan.near}}}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec.setdefault("affinity", {})["podAffinity"] = rule


def _equip(spec: Json, plan: PodPlan) -> None:
    """What it needs besides CPU and memory, and how long it runs."""
    if plan.gated:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    if plan.claim:
        spec["resourceClaims"] = [{"name": "device", "resourceClaimName": plan.claim}]
    if plan.volume:
        source = {"persistentVolumeClaim": {"claimName": plan.volume}}
        spec["volumes"] = [{"name": "data", **source}]
    if plan.seconds:
        spec["restartPolicy"] = "Never"
        spec["containers"][0]["command"] = ["sleep", str(plan.seconds)]


def group(plan: AddGroup) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": {"minMember": plan.minimum},
    }


def claim(plan: AddClaim) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": plan.count}
    return {
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": {"devices": {"requests": [{"name": "device", "exactly": exactly}]}},
    }


def device_class() -> Json:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}


def device_slice(node_name: str, devices: int, generation: int = 1) -> Json:
    """The devices of a node."""
    pool = {"name": node_name, "generation": generation, "resourceSliceCount": 1}
    spec: Json = {"driver": DRIVER, "pool": pool, "nodeName": node_name}
    spec["devices"] = [{"name": f"gpu-{number}"} for number in range(devices)]
    return {"metadata": {"name": f"{node_name}-gpus"}, "spec": spec}


def priority_classes() -> list[Json]:
    return [{"metadata": {"name": f"priority-{value}"}, "value": value} for value in PRIORITIES]


def storage_classes() -> list[Json]:
    delayed = {"volumeBindingMode": "WaitForFirstConsumer"}
    return [
        {
            "metadata": {"name": LOCAL},
            "provisioner": "kubernetes.io/no-provisioner",
            **delayed,
        },
        {"metadata": {"name": REMOTE}, "provisioner": PROVISIONER, **delayed},
    ]


def volume_claim(plan: AddVolume) -> Json:
    return {
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": {
            "storageClassName": LOCAL if plan.node else REMOTE,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(name: str, node_name: str, storage_class: str, claim_ref: Json | None = None) -> Json:
    """A volume that is reached from one node."""
    within = {"key": HOST, "operator": "In", "values": [node_name]}
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [within]}]}},
    }
    if claim_ref is not None:
        spec["claimRef"] = claim_ref
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


# What hostile users write. The API server may refuse some of it.


def _main(body: Json) -> Json:
    container: Json = body["spec"]["containers"][0]
    return container


def _endless_requests(body: Json) -> None:
    _main(body)["resources"] = {"requests": {"cpu": "9e18", "memory": "8Ei"}}


def _negative_request(body: Json) -> None:
    _main(body)["resources"] = {"requests": {"cpu": "-1"}}


def _many_containers(body: Json) -> None:
    body["spec"]["containers"] = [
        {"name": f"c{number}", "image": _IMAGE, "resources": {"requests": {"cpu": "1m"}}}
        for number in range(300)
    ]


def _many_tolerations(body: Json) -> None:
    body["spec"]["tolerations"] = [
        {"key": f"k{number}", "operator": "Exists"} for number in range(2000)
    ]


def _bad_selector(body: Json) -> None:
    expression = {"key": "in valid/", "operator": "Gt", "values": ["x", "y"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    body["spec"]["affinity"] = {"nodeAffinity": rule}


def _unknown_claim(body: Json) -> None:
    body["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "never-made"}]


def _unknown_volume(body: Json) -> None:
    source: Any = {"persistentVolumeClaim": {"claimName": "never-made"}}
    body["spec"]["volumes"] = [{"name": "data", **source}]


def _long_affinity(body: Json) -> None:
    body["spec"]["affinity"] = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": f"example.com/key-{number}",
                    "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
                }
                for number in range(200)
            ]
        }
    }


def _no_room_for_labels(body: Json) -> None:
    body["metadata"]["labels"] = {f"key-{number}": "x" * 63 for number in range(500)}


ABSURDITIES: dict[str, Callable[[Json], None]] = {
    "endless-requests": _endless_requests,
    "negative-request": _negative_request,
    "many-containers": _many_containers,
    "many-tolerations": _many_tolerations,
    "bad-selector": _bad_selector,
    "unknown-claim": _unknown_claim,
    "unknown-volume": _unknown_volume,
    "long-affinity": _long_affinity,
    "many-labels": _no_room_for_labels,
}
