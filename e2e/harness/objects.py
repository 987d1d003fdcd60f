"""Kubernetes objects as tests need them: plain dicts, with only what the API server insists on."""

from typing import Any

Json = dict[str, Any]

SCHEDULER_NAME = "equipoise"


def node(name: str, cpu: str = "4", memory: str = "32Gi", pods: str = "110") -> Json:
    """A node for kwok to run, with the given allocatable amounts."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, cpu: str = "100m", memory: str = "64Mi", **spec: Any) -> Json:
    """A pod for the scheduler under test; ``spec`` adds fields or replaces them."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": _pod_spec(cpu, memory) | spec,
    }


def deployment(name: str, replicas: int, cpu: str = "100m", memory: str = "64Mi") -> Json:
    """A Deployment whose pods are for the scheduler under test."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(cpu, memory)},
        },
    }


def is_bound(pod: Json) -> bool:
    """Whether some scheduler has given the pod a node."""
    return bool(pod["spec"].get("nodeName"))


def condition(obj: Json, kind: str) -> Json:
    """The status condition of that type, empty if there is none."""
    conditions: list[Json] = obj.get("status", {}).get("conditions", [])
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
