"""Pods of all kinds that wait for a node: every plugin has something to say about some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.config.defaults import SCHEDULER_NAME
from tests.builders import PodBuilder, constraint, pod_term, requirement, term
from tests.plugins.storage import a_pod

ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
NAMESPACES = ("default", "other")
PACKED = "equipoise-packed"
PROFILES = (SCHEDULER_NAME, PACKED)

Template = Callable[[PodBuilder], PodBuilder]

APP_A = {"matchLabels": {"app": "a"}}
TEAM_X = {"matchLabels": {"team": "x"}}
UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Bogus"}]}
"""As a newer Kubernetes may have it."""


def _volume(**source: object) -> Template:
    return lambda pod: pod.spec(volumes=[{"name": "v", **source}])


def _owned(kind: str, version: str = "apps/v1") -> Template:
    owner = {"apiVersion": version, "kind": kind, "name": "r", "uid": f"uid-{kind}"}
    return lambda pod: pod.meta(ownerReferences=[{**owner, "controller": True}])


def _claims(*names: str) -> Template:
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}}
        for i, name in enumerate(names)
    ]
    return lambda pod: pod.spec(volumes=volumes)


def _exactly(cpu: str) -> Mapping[str, Mapping[str, str]]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return {"requests": amounts, "limits": amounts}


TEMPLATES: Mapping[str, Template] = {
    "nothing": lambda pod: pod,
    "cpu": lambda pod: pod.cpu(1).memory("1Gi"),
    "labelled": lambda pod: pod.cpu(1).label(app="a"),
    "important": lambda pod: pod.cpu(3).priority(10).label(app="b"),
    "polite": lambda pod: pod.cpu(3).priority(10).spec(preemptionPolicy="Never"),
    "gpu": lambda pod: pod.request("example.com/gpu", 1),
    "selective": lambda pod: pod.node_selector(**{ZONE: "a"}),
    "choosy": lambda pod: pod.preferred(7, term(requirement(RACK, "In", "1"))).cpu("500m"),
    "named": lambda pod: pod.required(term(fields=(requirement("metadata.name", "In", "n1"),))),
    "tolerant": lambda pod: pod.toleration("red", "Exists").toleration(
        "node.kubernetes.io/unschedulable", "Exists"
    ),
    "port": lambda pod: pod.host_port(80),
    "hungry": lambda pod: pod.host_port(80).cpu(64),
    "pictured": lambda pod: pod.image("img:1").container({}, "img:2"),
    "featured": lambda pod: pod.spec(hostNetwork=True, hostUsers=False),
    "disk": _volume(gcePersistentDisk={"pdName": "disk", "readOnly": True}),
    "inline": _volume(awsElasticBlockStore={"volumeID": "vol-1"}),
    "broken disk": _volume(awsElasticBlockStore={"volumeID": "aws://nonsense"}),
    "claim": _claims("c0"),
    "claims": _claims("c1", "c2"),
    "own claim": _volume(ephemeral={}),
    "near": lambda pod: pod.near(pod_term(ZONE, {"app": "a"})).label(app="a"),
    "near far": lambda pod: pod.near(pod_term(RACK, {"app": "a"}, namespaceSelector=TEAM_X)),
    "company": lambda pod: pod.near(pod_term(ZONE, {"app": "b"})),
    "apart": lambda pod: pod.apart(pod_term(HOST, {"app": "a"})).label(app="a"),
    "friendly": lambda pod: pod.rather_near(5, pod_term(ZONE, {"app": "a"})),
    "shy": lambda pod: pod.rather_apart(5, pod_term(RACK, {"app": "b"})).label(app="a"),
    "spread": lambda pod: pod.spread(constraint(ZONE, labelSelector=APP_A)).label(app="a"),
    "fair": lambda pod: pod.spread(
        constraint(HOST, hard=False, labelSelector=APP_A, nodeTaintsPolicy="Honor")
    ).label(app="a"),
    "fair to zones": lambda pod: pod.spread(
        constraint(ZONE, hard=True, labelSelector=APP_A, nodeTaintsPolicy="Honor", minDomains=2)
    ),
    "replica": lambda pod: _owned("ReplicaSet")(pod).label(app="a").cpu(1),
    "edited replica": lambda pod: _owned("ReplicaSet")(pod).label(app="b").cpu(1),
    "resized replica": lambda pod: _owned("ReplicaSet")(pod).label(app="a").cpu(2),
    "stateful": lambda pod: _owned("StatefulSet")(pod).label(app="b"),
    "controlled": lambda pod: _owned("ReplicationController", "v1")(pod).label(app="b"),
    "pinned": lambda pod: pod.spec(containers=[{"name": "main", "resources": _exactly("2")}]),
    "unreadable": lambda pod: pod.memory("lots"),
    "unreadable terms": lambda pod: pod.apart(pod_term(HOST, labelSelector=UNREADABLE)),
    "devices": lambda pod: pod.spec(resourceClaims=[{"name": "d", "resourceClaimName": "x"}]),
}


def waiting(template: str, name: str, profile: str = SCHEDULER_NAME) -> PodBuilder:
    """A pod made from a template."""
    return TEMPLATES[template](a_pod(name)).scheduler(profile)
