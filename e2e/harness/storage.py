"""Storage as tests need it: classes, volumes that are tied to a node, and claims."""

from e2e.harness.objects import Json

NO_PROVISIONER = "kubernetes.io/no-provisioner"


def storage_class(name: str, provisioner: str = NO_PROVISIONER, *, default: bool = False) -> Json:
    """A class whose claims wait for a pod; by default nothing provisions volumes for it."""
    is_default = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": is_default},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, node: str, class_name: str, size: str = "10Gi") -> Json:
    """A volume that can be used on one node only."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class_name,
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def claim(name: str, class_name: str, size: str = "10Gi") -> Json:
    """A claim for a volume of that class; also what a StatefulSet makes claims from."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }


def uses(claim_name: str) -> Json:
    """The part of a pod's spec that says it uses the claim."""
    reference = {"claimName": claim_name}
    return {"volumes": [{"name": "data", "persistentVolumeClaim": reference}]}
