"""Storage objects for tests, as API JSON, and pods that use them."""

from __future__ import annotations

from typing import Any

from scheduler.model.objects import KINDS, from_dict
from scheduler.state.cache import ClusterState
from tests.builders import Json, PodBuilder, requirement, term

GI = 2**30
LATE = "WaitForFirstConsumer"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


class VolumePod(PodBuilder):
    """A pod with volumes."""

    def volume(self, **source: Json) -> VolumePod:
        """One more volume, with one source."""
        volumes = self._spec.setdefault("volumes", [])
        volumes.append({"name": f"v{len(volumes)}", **source})
        return self

    def claim(self, *names: str) -> VolumePod:
        for name in names:
            self.volume(persistentVolumeClaim={"claimName": name})
        return self

    def ephemeral(self) -> VolumePod:
        return self.volume(ephemeral={})


def a_pod(name: str = "p", namespace: str = "default") -> VolumePod:
    """A pod without volumes, yet."""
    return VolumePod(name, namespace)


def a_claim(name: str, class_name: str | None = "late", volume: str = "", **more: Any) -> Json:
    """A claim of 5 Gi; with a volume, its binding is complete."""
    annotations = BOUND if volume else {}
    spec: Json = {
        "storageClassName": class_name,
        "volumeName": volume,
        "accessModes": more.get("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": more.get("size", "5Gi")}},
        **more.get("spec", {}),
    }
    metadata = {
        "name": name,
        "namespace": more.get("namespace", "default"),
        "uid": f"uid-{name}",
        "resourceVersion": more.get("version", "1"),
        "annotations": more.get("annotations", annotations),
        **more.get("metadata", {}),
    }
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": more.get("status", {}),
    }


def a_volume(name: str, class_name: str = "late", **more: Any) -> Json:
    """A free volume of 10 Gi that can be used everywhere."""
    return {
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "resourceVersion": more.get("version", "1"),
            "labels": more.get("labels", {}),
            **more.get("metadata", {}),
        },
        "spec": {
            "storageClassName": class_name,
            "capacity": {"storage": more.get("size", "10Gi")},
            "accessModes": more.get("modes", ["ReadWriteOnce"]),
            **more.get("spec", {}),
        },
        "status": {"phase": more.get("phase", "Available")},
    }


def a_class(name: str, provisioner: str = "csi.example.com", mode: str = LATE, **more: Any) -> Json:
    metadata = {"name": name}
    return {
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def local(node: str) -> Json:
    """The node affinity of a volume on a node."""
    return within("kubernetes.io/hostname", node)


def within(key: str, *values: str) -> Json:
    """The node affinity of a volume that is where a label has these values."""
    terms = [term(requirement(key, "In", *values))]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def csi(handle: str, driver: str = "csi.example.com") -> Json:
    """The source of a volume that a CSI driver serves."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def a_csi_node(name: str, limits: dict[str, int | None], migrated: str = "") -> Json:
    drivers = [
        {"name": driver, "allocatable": None if count is None else {"count": count}}
        for driver, count in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": drivers},
    }


def a_driver(name: str = "csi.example.com", capacity: bool = True) -> Json:
    return {"kind": "CSIDriver", "metadata": {"name": name}, "spec": {"storageCapacity": capacity}}


def an_attachment(name: str, node: str, volume: str, attacher: str = "csi.example.com") -> Json:
    source = {"persistentVolumeName": volume}
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    return {"kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}


def a_room(name: str, class_name: str, capacity: str | None, **more: Any) -> Json:
    """A CSIStorageCapacity."""
    return {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": class_name,
        "capacity": capacity,
        **more,
    }


def struct(raw: Json) -> Any:
    """The object as the scheduler decodes it."""
    return from_dict(raw, KINDS[raw["kind"]].type)


def put(state: ClusterState, *objects: Json) -> None:
    """The watch reports objects as they are now."""
    for raw in objects:
        new = struct(raw)
        state.set_object(raw["kind"], new.metadata.key, new)


def lose(state: ClusterState, raw: Json) -> None:
    """The watch reports that an object is gone."""
    state.set_object(raw["kind"], struct(raw).metadata.key, None)
