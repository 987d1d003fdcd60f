"""Claims and storage classes that are not there: name the one that is, or create it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice

from scheduler.explaining.remedies.costs import cost, repeated
from scheduler.explaining.remedies.patches import Object, at, put
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.own_claims import TEMPLATE, is_default
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.model.volumes import DELAYED, NO_PROVISIONER, class_of, fully_bound

CLAIM = "correct-claim"
CLASS = "correct-storage-class"
CREATE = "create-claim"
CREATE_CLASS = "create-storage-class"
SIZE = "1Gi"
MOST_CLAIMS = 8
MOST_CLASSES = 3
"""So many storage classes are tried for a new claim, and so many provisioners for a new class."""
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
    """Create all claims that are missing, of the default storage class or, without one, of each."""
    missing = dict.fromkeys(name for _, name in _missing(scene))
    if not 0 < len(missing) <= MOST_CLAIMS:
        return
    namespace = scene.info.pod.metadata.namespace
    names_of = f"claim{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    for of in _classes(scene):
        yield Step(
            CREATE,
            f"create the {names_of}, {SIZE} of storage class {of} or as needed",
            cost(CREATE),
            objects=tuple(_claim(namespace, name, of) for name in missing),
            affects=(f"storage class {of}: a volume is made for each claim",),
            parts=frozenset(missing),
        )


def correct_class(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Have claims ask for the storage class with the closest name; they have to be made anew."""
    missing = _without_class(scene)
    known = sorted(scene.state.objects.all(StorageClass))[:MOST_READ]
    if not 0 < len(missing) <= MOST_CLAIMS:
        return
    templates = _templates(scene, missing)
    classes = dict.fromkeys(missing.values())
    for meant in zip(*(close_to(name, known, 2, 0.6) for name in classes), strict=False):
        new = dict(zip(classes, meant, strict=True))
        claims = {key.partition("/")[2]: of for key, of in missing.items()}
        yield Step(
            CLASS,
            " and ".join(
                f"use the storage class {new[of]} in place of {of}, which does not exist,"
                f" in claim {claim}"
                for claim, of in claims.items()
            ),
            repeated(CLASS, len(missing)),
            partial(_with_classes, templates=templates, new=new) if templates else None,
            changed=tuple(
                put(raw, ("spec", "storageClassName"), new[of])
                for key, of in missing.items()
                if (raw := scene.other(PersistentVolumeClaim.__name__, key)) is not None
            ),
            affects=tuple(
                f"PersistentVolumeClaim {key.partition('/')[2]}: {_to_do(scene, key, templates)}"
                for key in missing
            ),
            parts=frozenset((key, new[of]) for key, of in missing.items()),
        )


def _templates(scene: Scene, claims: Collection[str]) -> dict[str, tuple[int, str]]:
    """Those of some claims that are made from a template of the pod: its volume, and the class."""
    namespace, name = scene.info.pod.metadata.namespace, scene.info.pod.metadata.name
    found = {}
    for index, volume in enumerate(at(scene.raw, "spec", "volumes") or []):
        key = f"{namespace}/{name}-{at(volume, 'name')}"
        of = at(volume, "ephemeral", TEMPLATE, "spec", "storageClassName")
        if key in claims and of is not None:
            found[key] = (index, of)
    return found


def _with_classes(
    raw: Object, templates: Mapping[str, tuple[int, str]], new: Mapping[str, str]
) -> Object:
    """The pod with other classes in its templates."""
    for index, of in templates.values():
        path = ("spec", "volumes", index, "ephemeral", TEMPLATE, "spec", "storageClassName")
        raw = put(raw, path, new.get(of, of))
    return raw


def _to_do(scene: Scene, key: str, templates: Collection[str]) -> str:
    if key in templates:
        return "it is made anew with the pod"
    if scene.state.objects.get(PersistentVolumeClaim, key) is None:
        return "change the template that it will be made from"
    return "its spec cannot be changed, so create it anew"


def create_classes(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Create all storage classes that are missing: like one there is, or for volumes there are."""
    missing = _without_class(scene)
    classes = dict.fromkeys(missing.values())
    if not 0 < len(classes) <= MOST_CLAIMS:
        return
    others = _others_of(scene, frozenset(classes)) - len(missing)
    more = f"{others} more {'claims ask' if others > 1 else 'claim asks'} for the new class"
    affects = (f"{more}: volumes are made for all",) if others else ()
    names_of = f"storage class{'es' if len(classes) > 1 else ''} {', '.join(classes)}"
    for words, raw, to_know in islice(_makers(scene, frozenset(classes)), MOST_CLASSES):
        yield Step(
            CREATE_CLASS,
            f"create the {names_of} {words}",
            cost(CREATE_CLASS),
            objects=tuple({**raw, "metadata": {"name": name}} for name in classes),
            affects=(*to_know, *affects),
            parts=frozenset(classes),
        )


def _makers(scene: Scene, missing: frozenset[str]) -> Iterator[tuple[str, Object, tuple[str, ...]]]:
    """What a new class may be: in words, as an object without a name, and what to know about it."""
    new = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    objects = scene.state.objects
    volumes = islice(objects.all(PersistentVolume).values(), MOST_READ)
    if missing <= {volume.spec.storage_class_name for volume in volumes}:
        raw = {**new, "provisioner": NO_PROVISIONER, "volumeBindingMode": DELAYED}
        yield "without a provisioner, for the volumes that there are", raw, ()
    known = sorted(
        objects.all(StorageClass).values(), key=lambda of: (not is_default(of), of.metadata.name)
    )
    seen = {"", NO_PROVISIONER}
    for of in known[:MOST_READ]:
        if of.provisioner in seen:
            continue
        seen.add(of.provisioner)
        name, originals = of.metadata.name, scene.world.originals
        like = originals.other(StorageClass.__name__, of)
        raw = {**new, **{field: like[field] for field in like if field != "metadata"}}
        told = f"StorageClass {name}: its parameters, if it has any, belong into the new one"
        yield (
            f"like {name}, with the provisioner {of.provisioner} and {DELAYED}",
            {**raw, "volumeBindingMode": DELAYED},
            () if originals.has(StorageClass.__name__, name) else (told,),
        )


def _without_class(scene: Scene) -> dict[str, str]:
    """The pod's claims that are not bound and ask for a class that does not exist, and which."""
    objects = scene.state.objects
    found = {}
    for use in scene.info.volumes.claims:
        claim = scene.claim(use.key)
        if claim is None or fully_bound(claim) or claim.spec.volume_name:
            continue
        if (name := class_of(claim)) and objects.get(StorageClass, name) is None:
            found[use.key] = name
    return found


def _others_of(scene: Scene, classes: frozenset[str]) -> int:
    """How many claims that are not bound ask for one of some classes."""
    every = islice(scene.state.objects.all(PersistentVolumeClaim).values(), MOST_READ)
    return sum(class_of(claim) in classes and not fully_bound(claim) for claim in every)


def _missing(scene: Scene) -> list[tuple[int, str]]:
    """The volumes of the pod whose claims do not exist, and their claims."""
    namespace = scene.info.pod.metadata.namespace
    return [
        (index, name)
        for index, volume in enumerate(at(scene.raw, "spec", "volumes") or [])
        if (name := at(volume, "persistentVolumeClaim", "claimName")) is not None
        and scene.claim(f"{namespace}/{name}") is None
    ]


def _classes(scene: Scene) -> list[str]:
    """The storage classes that new claims may get: the default one, or the first by name.

    Of a class that binds immediately the scheduler cannot know what will be bound.
    """
    classes = scene.state.objects.all(StorageClass)
    late = sorted(key for key, each in classes.items() if each.volume_binding_mode == DELAYED)
    default = [key for key in late if is_default(classes[key])]
    return default[:1] or late[:MOST_CLASSES]


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
