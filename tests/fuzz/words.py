"""Words that drawn objects are made of: few enough that objects refer to each other."""

from __future__ import annotations

from typing import Any

NODES = ("n0", "n1", "n2", "n3")
NAMESPACES = ("default", "team")
KEYS = ("zone", "kubernetes.io/hostname", "app", "disk", "cores")
VALUES = ("a", "b", "1", "12", "", "n0", "n1", "web")
RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi")
QUANTITIES = (
    "0", "1", "2", "4", "100m", "250m", "1500m", "1Gi", "512Mi", "16Gi", "110", "1k", "1.5",
    "0.5Gi", "1e3", "2E2", "100n", "1u", "8", "64",
)  # fmt: skip
CLAIMS = ("c0", "c1", "c2")
VOLUMES = ("v0", "v1", "v2")
CLASSES = ("fast", "slow", "late")
DRIVERS = ("gpu.example.com", "nic.example.com")
DEVICE_CLASSES = ("gpu", "nic")
ATTRIBUTES = ("model", "gpu.example.com/model", "numa", "fw")
EXPRESSIONS = (
    "true", "false", "device.driver == 'gpu.example.com'",
    "device.attributes['gpu.example.com'].model == 'a'",
    "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))",
    "device.attributes['gpu.example.com'].numa < 2", "device.allowMultipleAllocations",
    "1 / 0 == 1", "device.driver", "size(device.attributes) > 0",
)  # fmt: skip
TIMES = ("2026-01-01T00:00:00Z", "2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z")
POD_GROUPS = ("g0", "g1")

NAMES: dict[str, tuple[str, ...]] = {
    "Pod": ("p0", "p1", "p2", "p3"),
    "Node": NODES,
    "CSINode": NODES,
    "NodeResourceTopology": NODES,
    "PersistentVolume": VOLUMES,
    "PersistentVolumeClaim": CLAIMS,
    "StorageClass": CLASSES,
    "CSIDriver": DRIVERS,
    "Namespace": NAMESPACES,
    "PodGroup": POD_GROUPS,
    "ResourceClaim": CLAIMS,
    "DeviceClass": DEVICE_CLASSES,
}
"""Names of objects by kind, the same that others refer to."""
OTHER_NAMES = ("x0", "x1")

FIELDS: dict[str, tuple[Any, ...]] = {
    "nodeName": (*NODES, ""),
    "nominatedNodeName": (*NODES, ""),
    "schedulerName": ("equipoise", "equipoise", "equipoise", "default-scheduler"),
    "topologyKey": KEYS,
    "key": KEYS,
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
    "values": VALUES,
    "value": VALUES,
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    "claimName": CLAIMS,
    "volumeName": (*VOLUMES, ""),
    "storageClassName": CLASSES,
    "persistentVolumeName": VOLUMES,
    "driver": DRIVERS,
    "attacher": DRIVERS,
    "provisioner": (*DRIVERS, "kubernetes.io/no-provisioner"),
    "deviceClassName": DEVICE_CLASSES,
    "resourceClaimName": CLAIMS,
    "expression": EXPRESSIONS,
    "matchAttribute": ("gpu.example.com/model", "gpu.example.com/numa"),
    "distinctAttribute": ("gpu.example.com/model", "gpu.example.com/numa"),
    "allocationMode": ("ExactCount", "All", ""),
    "phase": ("Pending", "Running", "Bound", "Available", "Succeeded", "Failed"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "nodeAffinityPolicy": ("Honor", "Ignore"),
    "nodeTaintsPolicy": ("Honor", "Ignore"),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "accessModes": ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    "volumeMode": ("Filesystem", "Block"),
    "protocol": ("TCP", "UDP", "SCTP"),
    "hostIP": ("", "0.0.0.0", "10.0.0.1", "::"),
    "hostPort": (0, 80, 443),
    "containerPort": (80, 443),
    "priority": (0, 1, 100, -5, 2_000_000_000),
    "restartPolicy": ("Always", "Never", "OnFailure", ""),
    "namespaces": NAMESPACES,
    "namespace": NAMESPACES,
    "matchLabelKeys": KEYS,
    "mismatchLabelKeys": KEYS,
    "topologyKeys": KEYS,
    "image": ("app:1", "app:2", "other"),
    "names": ("app:1", "app:2", "docker.io/library/app:1"),
    "topologyPolicies": ("SingleNUMANodePodLevel", "RestrictedContainerLevel", "None"),
    "parent": ("node-0", ""),
    "declaredFeatures": ("Feature", "Other"),
    "extendedResourceName": ("example.com/gpu",),
    "requests": ("r0", "r1"),
    "request": ("r0", "r1"),
    "counterSet": ("s0", "s1"),
    "device": ("d0", "d1"),
    "pool": ("n0", "n1"),
    "maxSkew": (1, 2),
    "minDomains": (1, 3),
    "weight": (1, 50, 100),
    "minMember": (1, 2, 3),
    "count": (1, 2, 0),
    "generation": (1, 2),
    "resourceSliceCount": (1, 2),
    "disruptionsAllowed": (0, 1, 2),
    "sizeBytes": (10_000_000, 1),
    "volumeID": ("vol-1", "aws://zone/vol-1", "aws:///vol-2", "aws://[", "d1"),
    "diskURI": ("/disk/1", "d2"),
    "kind": ("Managed", "PersistentVolumeClaim"),
}
"""What a field may hold, by its name."""

NAMED: dict[str, tuple[str, ...]] = {
    "resources": RESOURCES,
    "devices": ("d0", "d1", "d2"),
    "drivers": DRIVERS,
    "claimRef": CLAIMS,
    "zones": ("node-0", "node-1"),
    "costs": ("node-0", "node-1"),
    "attributes": ("topologyManagerPolicy", "topologyManagerScope", "nodeTopologyPodsFingerprint"),
    "resourceClaims": ("k0", "k1"),
    "resourceClaimStatuses": ("k0", "k1"),
    "schedulingGates": ("gate",),
    "sharedCounters": ("s0", "s1"),
    "pool": NODES,
    "consumers": ("p0", "p1"),
    "reservedFor": ("p0", "p1"),
    "ownerReferences": ("owner",),
    "": ("r0", "r1"),
}
"""What ``name`` holds, by the field that it is in."""

TYPED: dict[str, tuple[str, ...]] = {
    "zones": ("Node", "Node", "Core"),
    "conditions": ("Ready", "MemoryPressure", "PodScheduled", "PodResizePending"),
}
"""What ``type`` holds, by the field that it is in."""

ATTRIBUTE_VALUES = (
    "single-numa-node", "restricted", "best-effort", "none", "pod", "container",
    "pfp0v001fe53c4dbd2c5f4a0",
)  # fmt: skip

MAP_KEYS: dict[str, tuple[str, ...]] = {
    "labels": (*KEYS, "scheduling.x-k8s.io/pod-group"),
    "annotations": ("pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node", "z"),
    "matchLabels": KEYS,
    "nodeSelector": KEYS,
    "selector": KEYS,
    "requests": RESOURCES,
    "limits": RESOURCES,
    "allocatable": RESOURCES,
    "capacity": RESOURCES,
    "overhead": ("cpu", "memory"),
    "minResources": RESOURCES,
    "allocatedResources": RESOURCES,
    "consumedCapacity": ("memory",),
    "attributes": ATTRIBUTES,
    "counters": ("memory", "slots"),
    "disruptedPods": ("p0", "p1"),
}
"""Keys of maps, by the name of the map."""
