"""The objects of Kubernetes' own scheduler_perf: its pods, nodes and volumes, said in our words."""

from collections.abc import Callable
from dataclasses import dataclass

from e2e.harness.objects import HOSTNAME, ZONE, Json

INIT, MEASURED, UNFIT, CHURN = "sched-0", "sched-1", "unfit", "churn"
"""Namespaces: pods that are there already, that are timed, that fit nowhere, that keep coming."""
NAMESPACES = (INIT, MEASURED, UNFIT, CHURN)

NODE_MILLI_CPU = 4_000
DRIVER = "ebs.csi.aws.com"
VOLUMES_PER_NODE = 39
DEVICE_CLASS = "test-class"
EXTENDED_RESOURCE = "example.com/gpu"
MAX_SKEW = 5

Rules = Callable[[Json], Json]
"""From the selector of a pod's own colour to the fields of its spec that constrain it."""


def _nothing(_: Json) -> Json:
    return {}


@dataclass(frozen=True)
class Template:
    """One kind of pod. Its colour is the label that its own constraint speaks of."""

    colour: str = ""
    milli_cpu: int = 100
    priority: int = 0
    rules: Rules = _nothing
    volume: bool = False
    """Whether it uses a claim of its own name."""
    device: bool = False
    """Whether it uses a claim for a device, of its own name."""
    extended: bool = False
    """Whether it asks for a device by an extended resource."""
    at_once: bool = False
    """Whether it leaves without a grace period when it is deleted."""

    def pod(
        self, namespace: str, name: str, scheduler: str, *, shade: int = 0, node: str = ""
    ) -> Json:
        """A pod, on a node if one is named; pods of different shades ignore each other."""
        labels = {"color": f"{self.colour}-{shade}"} if self.colour else {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {
                "schedulerName": scheduler,
                "containers": [self._container()],
                **self.rules({"matchLabels": labels}),
                **({"nodeName": node} if node else {}),
                **({"priority": self.priority} if self.priority else {}),
                **({"terminationGracePeriodSeconds": 0} if self.at_once else {}),
                **(_uses(name) if self.volume else {}),
                **(_claims(name) if self.device else {}),
            },
        }

    def _container(self) -> Json:
        amounts = {"cpu": f"{self.milli_cpu}m", "memory": "500Mi"}
        if self.extended:
            amounts[EXTENDED_RESOURCE] = "1"
        return {
            "name": "pause",
            "image": "registry.invalid/pause",
            "ports": [{"containerPort": 80}],
            "resources": {"requests": amounts, "limits": amounts},
        }


def _term(selector: Json, key: str) -> Json:
    return {"labelSelector": selector, "topologyKey": key, "namespaces": [MEASURED, INIT]}


def _required(kind: str, key: str) -> Rules:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda selector: {"affinity": {kind: {rule: [_term(selector, key)]}}}


def _preferred(kind: str, key: str) -> Rules:
    rule = "preferredDuringSchedulingIgnoredDuringExecution"

    def affinity(selector: Json) -> Json:
        weighted = {"weight": 1, "podAffinityTerm": _term(selector, key)}
        return {"affinity": {kind: {rule: [weighted]}}}

    return affinity


def _in_zones(*zones: str) -> Rules:
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda _: {"affinity": {"nodeAffinity": {rule: terms}}}


def _spread(selector: Json) -> Json:
    constraint = {
        "labelSelector": selector,
        "topologyKey": ZONE,
        "maxSkew": MAX_SKEW,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {"topologySpreadConstraints": [constraint]}


def _uses(claim: str) -> Json:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def _claims(claim: str) -> Json:
    return {"resourceClaims": [{"name": "device", "resourceClaimName": claim}]}


DEFAULT = Template()
AFFINITY = Template("blue", rules=_required("podAffinity", ZONE))
ANTI_AFFINITY = Template("green", rules=_required("podAntiAffinity", HOSTNAME))
PREFERRED_AFFINITY = Template("red", rules=_preferred("podAffinity", HOSTNAME))
PREFERRED_ANTI_AFFINITY = Template("yellow", rules=_preferred("podAntiAffinity", HOSTNAME))
NODE_AFFINITY = Template(rules=_in_zones("zone1", "zone2"))
SPREADING = Template("blue", rules=_spread)
WITH_VOLUME = Template(volume=True)
WITH_DEVICE = Template(device=True)
WITH_EXTENDED_RESOURCE = Template(extended=True)
LOW_PRIORITY = Template(milli_cpu=900, at_once=True)
HIGH_PRIORITY = Template(milli_cpu=3_000, priority=10)
HIGH_PRIORITY_LARGE = Template(milli_cpu=9_000, priority=10)
"""Fits on no node, and stands before all others in the queue."""


def node_name(number: int) -> str:
    """The name of a node by its number."""
    return f"node-{number:05}"


def node(number: int, zones: tuple[str, ...]) -> Json:
    """A ready node of 4 CPUs; the zones take turns."""
    name = node_name(number)
    zone = {ZONE: zones[number % len(zones)]} if zones else {}
    amounts = {"cpu": f"{NODE_MILLI_CPU}m", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **zone}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def csi_node(number: int) -> Json:
    """What the driver on a node says: how many volumes can be attached there."""
    name = node_name(number)
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": VOLUMES_PER_NODE}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def volume(namespace: str, claim: str) -> Json:
    """A volume of the driver that belongs to a claim already."""
    name = _volume_name(namespace, claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claim,
            },
        },
    }


def bound_claim(namespace: str, name: str) -> Json:
    """A claim that has got its volume, as the volume controller leaves it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": _volume_name(namespace, name),
            "storageClassName": "",
        },
    }


def _volume_name(namespace: str, claim: str) -> str:
    return f"{namespace}-{claim}"
