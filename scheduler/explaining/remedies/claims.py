"""Claims that are not there: name the one that is, or create it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.patches import Object, at, put
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.storage import PersistentVolumeClaim, StorageClass

CLAIM = "correct-claim"
CREATE = "create-claim"
SIZE = "1Gi"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
MOST_CLAIMS = 8
MOST_READ = 4096


def correct_claim(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Use the claim with the closest name in the pod's namespace."""
    prefix = f"{scene.info.pod.metadata.namespace}/"
    every = scene.state.objects.all(PersistentVolumeClaim)
    there = [key for key in every if key.startswith(prefix)]
    known = sorted(key.removeprefix(prefix) for key in there)[:MOST_READ]
    for index, name in _missing(scene)[:MOST_CLAIMS]:
        for close in close_to(name, known, 2, 0.6):
            path = ("spec", "volumes", index, "persistentVolumeClaim", "claimName")
            yield Step(
                CLAIM,
                f"use the claim {close} in place of {name}, which does not exist",
                cost(CLAIM),
                partial(put, path=path, new=close),
                parts=frozenset({(index, close)}),
            )


def create_claims(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Create all claims that are missing, of the default storage class or of the only one."""
    missing = dict.fromkeys(name for _, name in _missing(scene))
    of = _class(scene)
    if of is None or not 0 < len(missing) <= MOST_CLAIMS:
        return
    namespace = scene.info.pod.metadata.namespace
    many = "s" if len(missing) > 1 else ""
    yield Step(
        CREATE,
        f"create the claim{many} {', '.join(missing)}, {SIZE} of storage class {of} or as needed",
        cost(CREATE),
        objects=tuple(_claim(namespace, name, of) for name in missing),
        affects=(f"storage class {of}: a volume is made for each claim",),
        parts=frozenset(missing),
    )


def _missing(scene: Scene) -> list[tuple[int, str]]:
    """The volumes of the pod whose claims do not exist, and their claims."""
    namespace, objects = scene.info.pod.metadata.namespace, scene.state.objects
    return [
        (index, name)
        for index, volume in enumerate(at(scene.raw, "spec", "volumes") or [])
        if (name := at(volume, "persistentVolumeClaim", "claimName")) is not None
        and objects.get(PersistentVolumeClaim, f"{namespace}/{name}") is None
    ]


def _class(scene: Scene) -> str | None:
    """The storage class that new claims get."""
    classes = scene.state.objects.all(StorageClass)
    default = [key for key, each in classes.items() if _is_default(each)]
    return min(default or (classes if len(classes) == 1 else ()), default=None)


def _is_default(storage_class: StorageClass) -> bool:
    return storage_class.metadata.annotations.get(DEFAULT_CLASS) == "true"


def _claim(namespace: str, name: str, of: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "storageClassName": of,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": SIZE}},
        },
    }
