"""What the real API server adds to an object on its way in, as far as a scheduler can see it.

Bodies here are fresh from the request and still private, so they are completed in place.
"""

from collections.abc import Callable, Iterable
from typing import Any

from sandbox import workload_defaults
from sandbox.devices import rules as device_rules
from sandbox.errors import forbidden
from sandbox.resources import Resource
from sandbox.store import Body
from scheduler.model.quantity import QuantityError, parse

_NO_EXECUTE_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

_WORKLOADS = frozenset(
    {
        "cronjobs.batch",
        "daemonsets.apps",
        "deployments.apps",
        "jobs.batch",
        "replicasets.apps",
        "replicationcontrollers",
        "statefulsets.apps",
    }
)

List = Callable[[str], Iterable[Body]]
"""Reads the current bodies of a table by name."""


def complete_new(resource: Resource, body: Body, now: str, objects: List) -> None:
    """Fill in a body about to be created: kind defaults, admission defaults, the first status."""
    if resource.has_status and not resource.keeps_status_on_create:
        body.pop("status", None)
    complete(resource, body, now)
    match resource.table:
        case "pods":
            _admit_pod(body, now, objects)
        case "namespaces":
            labels = body["metadata"].setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = body["metadata"].get("name", "")
            body["spec"] = {"finalizers": ["kubernetes"]}
            body["status"] = {"phase": "Active"}
        case "persistentvolumes":
            body["status"] = {"phase": "Pending"}
        case "persistentvolumeclaims":
            body["status"] = {"phase": "Pending"}
            _default_storage_class(body.setdefault("spec", {}), objects)
        case "jobs.batch":
            workload_defaults.select_own_pods(body)
        case "services":
            workload_defaults.allocate_address(body["spec"], objects("services"))
        case "nodes":
            status = body.setdefault("status", {})
            if "allocatable" not in status and "capacity" in status:
                status["allocatable"] = dict(status["capacity"])


def complete(resource: Resource, body: Body, now: str) -> None:
    """Fill in the defaults of a kind that hold on every write."""
    spec = body.get("spec")
    match resource.table:
        case "pods":
            if isinstance(spec, dict):
                _complete_pod(spec)
        case "persistentvolumes":
            body["spec"] = {
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem",
                **(spec or {}),
            }
        case "persistentvolumeclaims":
            body["spec"] = {"volumeMode": "Filesystem", **(spec or {})}
        case "services":
            body["spec"] = {"type": "ClusterIP", "sessionAffinity": "None", **(spec or {})}
            workload_defaults.complete_ports(body["spec"])
        case "secrets":
            body.setdefault("type", "Opaque")
        case "storageclasses.storage.k8s.io":
            body.setdefault("reclaimPolicy", "Delete")
            body.setdefault("volumeBindingMode", "Immediate")
        case "priorityclasses.scheduling.k8s.io":
            body.setdefault("preemptionPolicy", "PreemptLowerPriority")
        case table if table in device_rules.KINDS:
            device_rules.complete(resource, body, now)
        case table if table in _WORKLOADS:
            body["spec"] = workload_defaults.complete(table, spec or {}, _complete_pod_spec)


def qos_class(spec: Body) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    resources = [container.get("resources") or {} for container in _containers(spec)]
    requests = [_amounts(part.get("requests")) for part in resources]
    limits = [_amounts(part.get("limits")) for part in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    guaranteed = all(
        set(limit) == {"cpu", "memory"} and request == limit
        for request, limit in zip(requests, limits, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(listed: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    if not isinstance(listed, dict):
        return found
    for name, text in listed.items():
        if name in {"cpu", "memory"}:
            try:
                found[name] = parse(text).nanos
            except QuantityError:
                # Reached only when validation is off: a malformed amount counts as present.
                found[name] = 1
    return {name: amount for name, amount in found.items() if amount > 0}


def _containers(spec: Body) -> list[Body]:
    listed = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container for container in listed if isinstance(container, dict)]


def _complete_pod_spec(spec: Body) -> None:
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
    ):
        if spec.get(name) in (None, ""):
            spec[name] = value
    for container in _containers(spec):
        _complete_container(container, bool(spec.get("hostNetwork")))


def _complete_pod(spec: Body) -> None:
    _complete_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _request_limits(container.get("resources") or {})
    spec["tolerations"] = _with_default_tolerations(spec.get("tolerations") or [])


def _complete_container(container: Body, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image") or "")))
    if container.get("resources") is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port.get("containerPort"))


def _request_limits(resources: Body) -> None:
    """What has a limit is requested as well: of pods, not of templates."""
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pull_policy(image: str) -> str:
    """The newest image is always looked for, a certain one is not."""
    tag = image.rpartition("/")[2].partition(":")[2] or ("" if "@" in image else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _with_default_tolerations(tolerations: list[Body]) -> list[Body]:
    def tolerated(key: str) -> bool:
        return any(
            toleration.get("key") in (key, "", None)
            and toleration.get("effect") in ("NoExecute", "", None)
            for toleration in tolerations
        )

    added = [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _TOLERATION_SECONDS,
        }
        for key in _NO_EXECUTE_KEYS
        if not tolerated(key)
    ]
    return [*tolerations, *added]


def _admit_pod(body: Body, now: str, objects: List) -> None:
    spec = body.setdefault("spec", {})
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    _resolve_priority(body, objects("priorityclasses.scheduling.k8s.io"))
    _merge_label_keys(body)
    body["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        body["status"]["conditions"] = [{**_GATED, "lastTransitionTime": now}]


def _resolve_priority(pod: Body, classes: Iterable[Body]) -> None:
    spec = pod["spec"]
    wanted = spec.get("priorityClassName")
    found = next((each for each in classes if _is_wanted(each, wanted)), None)
    if wanted and found is None:
        why = f"no PriorityClass with name {wanted} was found"
        raise forbidden("pods", pod["metadata"].get("name", ""), why)
    value, policy = 0, "PreemptLowerPriority"
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    given = spec.get("priority")
    if given is not None and given != value:
        why = (
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden("pods", pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _is_wanted(priority_class: Body, wanted: str | None) -> bool:
    if wanted:
        return bool(priority_class["metadata"]["name"] == wanted)
    return bool(priority_class.get("globalDefault"))


def _merge_label_keys(pod: Body) -> None:
    """Turn `matchLabelKeys` of affinity terms and spread constraints into selector expressions."""
    labels = pod["metadata"].get("labels") or {}
    for term in _selecting_terms(pod["spec"]):
        selector = term.get("labelSelector")
        if not isinstance(selector, dict):
            continue
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in term.get(field) or ():
                if key in labels:
                    selector.setdefault("matchExpressions", []).append(
                        {"key": key, "operator": operator, "values": [labels[key]]}
                    )


def _selecting_terms(spec: Body) -> Iterable[Body]:
    yield from spec.get("topologySpreadConstraints") or ()
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _default_storage_class(spec: Body, objects: List) -> None:
    if spec.get("storageClassName") is not None:
        return
    for storage_class in objects("storageclasses.storage.k8s.io"):
        annotations = storage_class["metadata"].get("annotations") or {}
        if annotations.get(_DEFAULT_CLASS) == "true":
            spec["storageClassName"] = storage_class["metadata"]["name"]
