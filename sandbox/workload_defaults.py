"""Defaults of the kinds that make pods, of their pod templates, services and secrets."""

import ipaddress
from collections.abc import Callable, Iterable

from sandbox.store import Body

_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
_JOB = "batch.kubernetes.io/"
_A_QUARTER = {"maxUnavailable": "25%", "maxSurge": "25%"}

PodDefaults = Callable[[Body], None]


def complete(table: str, spec: Body, pod_spec: PodDefaults) -> Body:
    """The spec of a workload with its defaults; ``pod_spec`` completes the spec of a template."""
    match table:
        case "deployments.apps":
            spec = {
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                **spec,
                "strategy": _strategy(spec.get("strategy") or {}),
            }
        case "replicasets.apps" | "replicationcontrollers":
            spec = {"replicas": 1, **spec}
        case "statefulsets.apps":
            spec = {
                "podManagementPolicy": "OrderedReady",
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Retain",
                    "whenScaled": "Retain",
                },
                **spec,
            }
        case "daemonsets.apps":
            rolling = {"maxUnavailable": 1, "maxSurge": 0}
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
            spec = {"revisionHistoryLimit": 10, "updateStrategy": strategy, **spec}
        case "jobs.batch":
            spec = _job(spec)
        case "cronjobs.batch":
            spec = {
                "concurrencyPolicy": "Allow",
                "failedJobsHistoryLimit": 1,
                "successfulJobsHistoryLimit": 3,
                "suspend": False,
                **spec,
            }
    _complete_template(spec, pod_spec)
    return spec


def _strategy(given: Body) -> Body:
    if given.get("type", "RollingUpdate") != "RollingUpdate":
        return given
    rolling = {**_A_QUARTER, **(given.get("rollingUpdate") or {})}
    return {"type": "RollingUpdate", "rollingUpdate": rolling}


def _job(spec: Body) -> Body:
    spec = {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": False,
        **spec,
    }
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    return spec


def _complete_template(spec: Body, pod_spec: PodDefaults) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        inner = template.setdefault("spec", {})
        if isinstance(inner, dict):
            pod_spec(inner)


def select_own_pods(job: Body) -> None:
    """Give a new Job the selector of its own pods, unless it brings one."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = {"controller-uid": uid, "job-name": name}
    labels |= {_JOB + key: value for key, value in labels.items()}
    template = spec.setdefault("template", {})
    described = template.setdefault("metadata", {})
    described["labels"] = {**(described.get("labels") or {}), **labels}
    spec["selector"] = {"matchLabels": {f"{_JOB}controller-uid": uid}}


def allocate_address(spec: Body, services: Iterable[Body]) -> None:
    """Give a new Service an address, the first that no other one has."""
    if spec.get("clusterIP") or spec.get("type") == "ExternalName":
        return
    taken = {(each.get("spec") or {}).get("clusterIP") for each in services}
    free = (str(each) for each in _SERVICE_NETWORK.hosts())
    address = next((each for each in free if each not in taken), "None")
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")


def complete_ports(spec: Body) -> None:
    """The protocol and the target of a Service's ports."""
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
