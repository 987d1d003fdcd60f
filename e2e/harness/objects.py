"""Kubernetes objects as tests need them: plain dicts, with only what the API server insists on."""

from typing import Any

Json = dict[str, Any]

SCHEDULER_NAME = "equipoise"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(
    name: str,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    zone: str = "",
    **more: str,
) -> Json:
    """A node for kwok to run, with the given allocatable amounts and ``more`` labels; in a zone, if
    one is given."""
    labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {}) | more
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(
    name: str,
    cpu: str = "100m",
    memory: str = "64Mi",
    *,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod for the scheduler under test; ``spec`` adds fields or replaces them."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": _pod_spec(cpu, memory) | spec,
    }


def deployment(
    name: str, replicas: int, cpu: str = "100m", memory: str = "64Mi", **spec: Any
) -> Json:
    """A Deployment whose pods are for the scheduler under test and have the label ``app=name``."""
    return controller("Deployment", name, template(name, cpu, memory, **spec), replicas=replicas)


def controller(kind: str, name: str, pods: Json, **spec: Any) -> Json:
    """A controller of the group ``apps`` for pods that have the label ``app=name``."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods} | spec,
    }


def template(app: str, cpu: str = "100m", memory: str = "64Mi", **spec: Any) -> Json:
    """A pod template with the label ``app``; ``spec`` adds fields or replaces them."""
    return {"metadata": {"labels": {"app": app}}, "spec": _pod_spec(cpu, memory) | spec}


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    """A class of pods of that priority, which may preempt others unless ``policy`` is Never."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def is_bound(pod: Json) -> bool:
    """Whether some scheduler has given the pod a node."""
    return bool(pod["spec"].get("nodeName"))


def is_running(pod: Json) -> bool:
    """Whether the pod has a node and runs there."""
    return is_bound(pod) and bool(pod["status"]["phase"] == "Running")


def is_rejected(pod: Json) -> bool:
    """Whether the scheduler has said that no node will do for the pod."""
    return bool(condition(pod, "PodScheduled").get("reason") == "Unschedulable")


def node_of(pod: Json) -> str:
    """The node of a bound pod."""
    return str(pod["spec"]["nodeName"])


def condition(obj: Json, kind: str) -> Json:
    """The status condition of that type, empty if there is none."""
    conditions: list[Json] = obj.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_ready_node(node: Json) -> bool:
    """Whether a pod without tolerations may be placed on the node."""
    return condition(node, "Ready").get("status") == "True" and not node["spec"].get("taints")


def _pod_spec(cpu: str, memory: str) -> Json:
    return {
        "schedulerName": SCHEDULER_NAME,
        "containers": [
            {
                "name": "main",
                "image": "registry.invalid/pause",
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }
        ],
    }
