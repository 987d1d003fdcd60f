"""Everything the watch may deliver, as API JSON made from a few small numbers.

An object is a kind, a name and its *traits*: numbers by name, all 0 at first. An event changes one
trait, so that it touches as little as possible, and random events meet each other often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.builders import Json, make_node, make_pod, pod_term
from tests.equivalence.templates import NAMESPACES, RACK, ZONE
from tests.plugins.storage import (
    BOUND,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_room,
    a_volume,
    an_attachment,
    csi,
    local,
)

Traits = Mapping[str, int]

NODES = tuple(f"n{i}" for i in range(5))
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
EBS_DRIVER = "ebs.csi.aws.com"
CSI_DRIVER = "csi.example.com"
CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
OTHERS = "somebody-else"
ELSEWHERE = ("x4", "x5")
"""Pods of the other namespace."""


def node(name: str, traits: Traits) -> Json:
    """A node: 4 CPUs, room for a few pods."""
    made = (
        make_node(name)
        .cpu((4, 1, 8)[traits["cpu"]])
        .memory("8Gi")
        .pods((110, 1, 3)[traits["pods"]])
    )
    made.offer("example.com/gpu", traits["gpu"])
    made.label(**{"kubernetes.io/hostname": name})
    if traits["zone"]:
        made.label(**{ZONE: "ab"[traits["zone"] - 1]})
    if traits["beta"]:
        made.label(**{BETA_ZONE: "ab"[traits["beta"] - 1]})
    if traits["rack"]:
        made.label(**{RACK: "12"[traits["rack"] - 1]})
    if traits["taint"]:
        made.taint("red", effect=("NoSchedule", "PreferNoSchedule")[traits["taint"] - 1])
    if traits["cordon"]:
        made.cordoned()
    if traits["image"]:
        made.image(f"img:{traits['image']}", size=(300, 900)[traits["image"] - 1] * 2**20)
    if traits["feature"]:
        made.status(declaredFeatures=["UserNamespacesHostNetworkSupport"])
    made.status(
        conditions=[
            {"type": type_, "status": ("False" if type_ == "Ready" else "True")}
            for type_ in CONDITIONS
            if traits[type_]
        ]
    )
    return made.obj()


def pod(name: str, traits: Traits) -> Json:
    """A pod of others, on a node from the start."""
    made = make_pod(name, NAMESPACES[name in ELSEWHERE]).scheduler(OTHERS)
    made.on(NODES[traits["node"]]).cpu((0, 1, 3)[traits["cpu"]])
    made.priority((0, 5, 50)[traits["priority"]])
    made.label(app=("none", "a", "b")[traits["app"]])
    if traits["port"]:
        made.host_port(80, ip=("", "10.0.0.1")[traits["port"] - 1])
    volumes: list[Json] = []
    if traits["disk"]:
        disk = {"pdName": "disk", "readOnly": traits["disk"] == 1}
        volumes.append({"name": "disk", "gcePersistentDisk": disk})
    if traits["claim"]:
        claim = {"claimName": f"c{traits['claim'] - 1}"}
        volumes.append({"name": "claim", "persistentVolumeClaim": claim})
    made.spec(volumes=volumes)
    if traits["apart"]:
        made.apart(pod_term((ZONE, RACK)[traits["apart"] - 1], {"app": "a"}))
    if traits["near"]:
        selector = (
            {"namespaceSelector": {"matchLabels": {"team": "x"}}} if traits["near"] > 1 else {}
        )
        made.rather_near(10, pod_term(ZONE, {"app": "a"}, **selector))
    if traits["leaving"]:
        made.deleting()
    if traits["resized"]:
        given = {"requests": {"cpu": str(traits["resized"])}}
        made.status(containerStatuses=[{"name": "main", "resources": given}])
    if traits["finished"]:
        made.phase("Succeeded")
    return made.obj()


def service(name: str, traits: Traits) -> Json:
    selector = ({}, {"app": "a"}, {"app": "b"})[traits["selector"]]
    return _named("Service", name, spec={"selector": selector}, labels={"n": str(traits["other"])})


def controller(name: str, traits: Traits) -> Json:
    """Replication controllers select by plain labels."""
    selector = ({}, {"app": "a"}, {"app": "b"})[traits["selector"]]
    return _named("ReplicationController", name, spec={"selector": selector})


def replica_set(name: str, traits: Traits) -> Json:
    return _named("ReplicaSet", name, spec={"selector": _set_selector(traits)})


def stateful_set(name: str, traits: Traits) -> Json:
    return _named("StatefulSet", name, spec={"selector": _set_selector(traits)})


def _set_selector(traits: Traits) -> Json:
    return {"matchLabels": ({}, {"app": "a"}, {"app": "b"})[traits["selector"]]}


def namespace(name: str, traits: Traits) -> Json:
    labels = ({}, {"team": "x"}, {"team": "y"})[traits["team"]]
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def volume(name: str, traits: Traits) -> Json:
    sources: list[Json] = [
        csi(f"h-{name}"),
        {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
        local("n0"),
    ]
    labels = ({}, {ZONE: "a"}, {BETA_ZONE: "a__b"})[traits["zone"]]
    spec = {**sources[traits["source"]]}
    if traits["claimed"]:
        claim = f"c{traits['claimed'] - 1}"
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": f"uid-{claim}"}
    return a_volume(
        name,
        ("late", "now", "")[traits["class"]],
        labels=labels,
        size=("10Gi", "1Gi", "5Gi")[traits["size"]],
        spec=spec,
    )


def claim(name: str, traits: Traits) -> Json:
    bound = traits["volume"]
    metadata: Json = {}
    annotations: Json = dict(BOUND) if bound else {}
    if traits["selected"]:
        annotations["volume.kubernetes.io/selected-node"] = NODES[traits["selected"]]
    if traits["leaving"]:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return a_claim(
        name,
        ("late", "now", None)[traits["class"]],
        f"v{bound - 1}" if bound else "",
        modes=(["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadOnlyMany"])[traits["mode"]],
        annotations=annotations,
        metadata=metadata,
    )


def storage_class(name: str, traits: Traits) -> Json:
    modes = ("WaitForFirstConsumer", "Immediate", None)
    made = a_class(
        name,
        (CSI_DRIVER, EBS_DRIVER, "kubernetes.io/no-provisioner")[traits["provisioner"]],
    )
    made["volumeBindingMode"] = modes[traits["mode"] if name == "late" else 1]
    if traits["topology"]:
        expression = {"key": ZONE, "values": ["ab"[traits["topology"] - 1]]}
        made["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    return made


def csi_node(name: str, traits: Traits) -> Json:
    limits: dict[str, int | None] = {}
    if traits["limit"]:
        limits |= {CSI_DRIVER: traits["limit"] - 1, EBS_DRIVER: traits["limit"] - 1}
    return a_csi_node(name, limits, migrated="kubernetes.io/aws-ebs" if traits["migrated"] else "")


def driver(name: str, traits: Traits) -> Json:
    return a_driver(name, capacity=bool(traits["capacity"]))


def room(name: str, traits: Traits) -> Json:
    zone = {"matchLabels": {ZONE: "ab"[traits["zone"] % 2]}}
    return a_room(name, "late", ("1Gi", "100Gi", None)[traits["size"]], nodeTopology=zone)


def attachment(name: str, traits: Traits) -> Json:
    return an_attachment(name, NODES[traits["node"]], f"v{traits['volume']}")


def budget(name: str, traits: Traits) -> Json:
    made = _named("PodDisruptionBudget", name, spec={"selector": {"matchLabels": {"app": "a"}}})
    made["status"] = {"disruptionsAllowed": traits["allowed"]}
    return made


def topology(name: str, traits: Traits) -> Json:
    """Two NUMA cells of 4 CPUs, of which some are available."""
    policy = ("single-numa-node", "none", "restricted")[traits["policy"]]
    resources = [
        {"name": "cpu", "capacity": "4", "allocatable": "4", "available": ("4", "1", "0")[left]}
        for left in (traits["first"], traits["second"])
    ]
    return {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": [
            {"name": f"node-{i}", "type": "Node", "resources": [each]}
            for i, each in enumerate(resources)
        ],
    }


def device_slice(name: str, traits: Traits) -> Json:
    """Devices of a node, or of all nodes; one may be tainted or another model."""
    devices: list[Json] = [
        {"name": "d0", "attributes": {"model": {"string": ("a", "b", "c")[traits["model"]]}}},
        {"name": "d1", "attributes": {"model": {"string": "a"}}},
    ]
    if traits["taint"]:
        devices[1]["taints"] = [
            {"key": "broken", "effect": ("NoSchedule", "None")[traits["taint"] - 1]}
        ]
    where: Json = {"nodeName": name} if name in NODES else {"allNodes": True}
    if traits["zone"]:
        zone = {"key": ZONE, "operator": "In", "values": [("a", "b")[traits["zone"] - 1]]}
        where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + (traits["missing"] == 1)}
    spec = {"driver": "gpu.example.com", "pool": pool, "devices": devices, **where}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device_claim(name: str, traits: Traits) -> Json:
    """A claim that waits for devices, or holds one of the first node or of all nodes."""
    exactly: Json = {"deviceClassName": "gpu", "count": 1 + (traits["count"] == 1)}
    if traits["count"] == 2:
        exactly["allocationMode"] = "All"
        del exactly["count"]
    made = _named(
        "ResourceClaim", name, {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    )
    made["metadata"]["uid"] = f"uid-{name}"
    if traits["held"]:
        pool = (NODES[0], "fabric")[traits["held"] - 1]
        result = {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": "d0"}
        allocation: Json = {"devices": {"results": [result]}}
        if traits["held"] == 1:
            only = {"key": "metadata.name", "operator": "In", "values": [NODES[0]]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [only]}]}
        made["status"] = {"allocation": allocation}
        if traits["used"]:
            consumer = {"resource": "pods", "name": "x0", "uid": "somebody"}
            made["status"]["reservedFor"] = [consumer]
    if traits["leaving"]:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def device_class(name: str, traits: Traits) -> Json:
    """A class of devices, by model; it may serve an extended resource."""
    model = ("a", "b", "c")[traits["model"]]
    expression = f'device.attributes["gpu.example.com"].model == "{model}"'
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]} if traits["model"] else {}
    if traits["serves"]:
        spec["extendedResourceName"] = "example.com/gpu"
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _named(kind: str, name: str, spec: Json, labels: Json | None = None) -> Json:
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    return {"kind": kind, "metadata": metadata, "spec": spec}


class Kind:
    """How objects of a kind are made: their names, and their traits (all from 0 to 2)."""

    def __init__(
        self, make: Callable[[str, Traits], Json], names: tuple[str, ...], traits: str
    ) -> None:
        self.make = make
        self.names = names
        self.traits = tuple(traits.split())

    def build(self, name: str, traits: Traits) -> Json:
        """An object with some traits; those that are not given are 0."""
        return self.make(name, {trait: traits.get(trait, 0) for trait in self.traits})


KINDS: Mapping[str, Kind] = {
    "Node": Kind(
        node,
        NODES,
        "cpu pods gpu zone beta rack taint cordon image feature " + " ".join(CONDITIONS),
    ),
    "Pod": Kind(
        pod,
        tuple(f"x{i}" for i in range(6)),
        "node cpu priority app port disk claim apart near leaving resized finished",
    ),
    "Service": Kind(service, ("s0", "s1"), "selector other"),
    "ReplicationController": Kind(controller, ("r",), "selector"),
    "ReplicaSet": Kind(replica_set, ("r",), "selector"),
    "StatefulSet": Kind(stateful_set, ("r",), "selector"),
    "Namespace": Kind(namespace, NAMESPACES, "team"),
    "PersistentVolume": Kind(volume, ("v0", "v1", "v2"), "source zone claimed class size"),
    "PersistentVolumeClaim": Kind(claim, ("c0", "c1", "c2"), "class volume mode leaving selected"),
    "StorageClass": Kind(storage_class, ("late", "now"), "provisioner mode topology"),
    "CSINode": Kind(csi_node, NODES, "limit migrated"),
    "CSIDriver": Kind(driver, (CSI_DRIVER,), "capacity"),
    "CSIStorageCapacity": Kind(room, ("k0", "k1"), "zone size"),
    "VolumeAttachment": Kind(attachment, ("t0", "t1"), "node volume"),
    "PodDisruptionBudget": Kind(budget, ("b",), "allowed"),
    "NodeResourceTopology": Kind(topology, NODES, "policy first second"),
    "ResourceSlice": Kind(device_slice, (*NODES, "fabric"), "model taint zone missing"),
    "ResourceClaim": Kind(device_claim, ("x", "y"), "count held used leaving"),
    "DeviceClass": Kind(device_class, ("gpu",), "model serves"),
}
