"""Pods that nobody created: each asks what another part of what is kept says about all nodes.

A pod that is drawn seldom asks about the very thing that has changed. These are the same for all
inputs, so that what is kept about them grows old, and each rests on few plugins.
"""

from __future__ import annotations

from functools import cache

from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.fuzz import words
from tests.fuzz.drawing import Json

_ZONE, _HOST = words.KEYS[:2]
_WEB = {"matchLabels": {"app": "web"}}


def _spread(key: str, action: str) -> Json:
    constraint = {"topologyKey": key, "maxSkew": 1, "labelSelector": _WEB}
    return {"topologySpreadConstraints": [{**constraint, "whenUnsatisfiable": action}]}


def _near_zone_a() -> Json:
    """A required and a preferred term about labels of nodes."""
    zone = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["a"]}]}
    cores = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["5"]}]}
    required = {"nodeSelectorTerms": [zone]}
    preferred = [{"weight": 50, "preference": cores}]
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return {"affinity": {"nodeAffinity": rules}}


def _pods(where: str) -> Json:
    term = {"topologyKey": _ZONE, "labelSelector": _WEB}
    return {"affinity": {where: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


_ALL = {"tolerations": [{"operator": "Exists"}]}
_SPECS: tuple[Json, ...] = (
    {},
    {"tolerations": [{"key": "disk", "value": "a"}]},
    {"nodeSelector": {"disk": "a"}, **_ALL},
    {**_near_zone_a(), **_ALL},
    {**_spread(_ZONE, "DoNotSchedule"), **_ALL},
    {**_spread(_HOST, "ScheduleAnyway"), **_ALL},
    {**_pods("podAntiAffinity"), **_ALL},
    {**_pods("podAffinity"), **_ALL},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}], **_ALL},
    {"resourceClaims": [{"name": "k0", "resourceClaimName": "c0"}], **_ALL},
)


@cache
def probes(scheduler_name: str) -> tuple[Pod, ...]:
    """All of them."""
    return tuple(_pod(number, spec, scheduler_name) for number, spec in enumerate(_SPECS))


def _pod(number: int, spec: Json, scheduler_name: str) -> Pod:
    requests = {"cpu": "2", "memory": "1Gi", **({"example.com/gpu": "1"} if number == 0 else {})}
    container: Json = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    if number == 1:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if "resourceClaims" in spec:
        container["resources"]["claims"] = [{"name": "k0"}]
    name = f"probe-{number}"
    metadata = {
        "name": name,
        "namespace": words.NAMESPACES[0],
        "uid": name,
        "labels": {"app": "web"} if number % 2 else {},
    }
    body = {"schedulerName": scheduler_name, "containers": [container], **spec}
    return from_dict({"metadata": metadata, "spec": body}, Pod)
