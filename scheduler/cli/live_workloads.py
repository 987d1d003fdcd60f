"""The pods of a workload in a cluster, read with the user's kubeconfig.

A workload is explained by one of its pods that waits, and by how many more like it fit together;
without pods, by its template.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.cli.addresses import NoAnswer, Refused
from scheduler.cli.clusters import Cluster, NotThere
from scheduler.cli.exits import ERROR, UNREACHABLE, fail
from scheduler.cli.output import counted
from scheduler.cli.targets import Target
from scheduler.model.workloads import POD_GROUP_LABEL

Json = dict[str, Any]

PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "PodGroup": "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups",
}
PODS = "/api/v1/namespaces/{}/pods"


@dataclass(frozen=True)
class WorkloadQuestion:
    """What to ask the scheduler about a workload."""

    pod: str
    """``namespace/name`` of a pod that exists; empty: ask about the manifest."""
    manifest: Json | None
    """A pod like those that its controller would make, perhaps in a List with its claims."""
    count: int | None
    """How many like it are still without a node; None: only this one."""
    summary: str
    """How the workload stands."""


def question_about(cluster: Cluster, target: Target) -> WorkloadQuestion:
    """Choose the pod to ask about; ends the command if there is nothing to ask about."""
    try:
        workload = cluster.read(f"{PATHS[target.kind].format(target.namespace)}/{target.name}")
        pods = [pod for pod in _pods(cluster, target, workload) if _lives(pod)]
    except NotThere:
        fail(f"no {target} in {cluster.server}", ERROR)
    except Refused as fault:
        fail(str(fault).partition("\n")[0], ERROR)
    except NoAnswer as fault:
        fail(f"{fault}\nA workload's pods are found with your kubeconfig.", UNREACHABLE)
    return _question(target, workload, pods)


def _question(target: Target, workload: Json, pods: list[Json]) -> WorkloadQuestion:
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    wanted = _wanted(target.kind, workload, len(pods))
    summary = f"{target}: {len(placed)} of {counted(max(wanted, len(pods)), 'pod')} have nodes"
    if waiting:
        # Members of a gang may differ, and a daemon's pods are for one node each.
        alone = target.kind in ("PodGroup", "DaemonSet")
        count = None if alone else max(len(waiting), wanted - len(placed))
        return WorkloadQuestion(_key(waiting[0]), None, count, summary)
    if placed:
        return WorkloadQuestion(_key(placed[-1]), None, None, summary)
    template = workload.get("spec", {}).get("template")
    if template is None:
        fail(f"{target} has no pods", ERROR)
    if target.kind == "Job" and workload["spec"].get("suspend"):
        summary = f"{summary}; it is suspended, and makes pods when it is resumed"
        wanted = _resumed(workload)
    manifest = _from_template(target, template)
    if target.kind == "StatefulSet":
        manifest = _with_claims(workload) or manifest
    return WorkloadQuestion("", manifest, max(1, wanted), summary)


def _with_claims(stateful_set: Json) -> Json | None:
    """The first pod of a StatefulSet, with the claims that are made for it."""
    from scheduler.cli.explain_command import with_claims_of
    from scheduler.cli.workloads import expand
    from scheduler.model.objects import without_nulls

    lone: Any = without_nulls({"apiVersion": "apps/v1", "kind": "StatefulSet", **stateful_set})
    made = expand([{**lone, "spec": {**lone["spec"], "replicas": 1}}])
    pods = [body for body in made if body["kind"] == "Pod"]
    return with_claims_of(pods[0], made) if pods else None


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _wanted(kind: str, workload: Json, existing: int) -> int:
    """How many pods the workload is to have."""
    spec, status = workload.get("spec", {}), workload.get("status", {})
    if kind == "PodGroup":
        return max(existing, int(spec.get("minMember", 0)))
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled", existing))
    if kind != "Job":
        return int(spec.get("replicas", 1))
    return existing if spec.get("suspend") else _resumed(workload)


def _resumed(job: Json) -> int:
    """How many pods a Job is to have at once, unless it is suspended."""
    spec, succeeded = job.get("spec", {}), int(job.get("status", {}).get("succeeded", 0))
    parallel, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    return parallel if completions is None else min(parallel, completions - succeeded)


def _lives(pod: Json) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and pod["metadata"].get("deletionTimestamp") is None


def _pods(cluster: Cluster, target: Target, workload: Json) -> list[Json]:
    """All pods of a workload, as its controller sees them."""
    path = PODS.format(target.namespace)
    if target.kind == "PodGroup":
        return _items(cluster, path, f"{POD_GROUP_LABEL}={target.name}")
    selector = written(workload.get("spec", {}).get("selector") or {})
    owners = {workload["metadata"].get("uid")}
    if target.kind == "Deployment":
        sets = _items(cluster, PATHS["ReplicaSet"].format(target.namespace), selector)
        owners = {each["metadata"]["uid"] for each in sets if _controllers(each) & owners}
    return [pod for pod in _items(cluster, path, selector) if _controllers(pod) & owners]


def _items(cluster: Cluster, path: str, selector: str) -> list[Json]:
    items: list[Json] = cluster.read(path, labelSelector=selector).get("items") or []
    return items


def _controllers(body: Json) -> set[str]:
    owners: Iterable[Json] = body["metadata"].get("ownerReferences") or ()
    return {owner["uid"] for owner in owners if owner.get("controller")}


def written(selector: Mapping[str, Any]) -> str:
    """A label selector as a query has it."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or ():
        key, values = rule["key"], ",".join(rule.get("values") or ())
        match rule["operator"]:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
    return ",".join(parts)


def _from_template(target: Target, template: Json) -> Json:
    metadata = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key in ("labels", "annotations")
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{target.name}-0", "namespace": target.namespace, **metadata},
        "spec": template.get("spec", {}),
    }
