"""Claims that belong to one pod: made from its own templates, or from those of its StatefulSet.

In a cluster controllers make them with the pod. Whoever asks about a pod that does not exist, or
about copies of one, supposes them as they would be made now: not bound yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import structs

from scheduler.model.meta import AnnotatedMeta, OwnerReference
from scheduler.model.objects import from_dict
from scheduler.model.pods import ClaimVolume, Pod, Volume
from scheduler.model.storage import PersistentVolumeClaim, StorageClass, VolumePhase
from scheduler.model.volumes import BETA_CLASS

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
TEMPLATE = "volumeClaimTemplate"

FindClaim = Callable[[str], PersistentVolumeClaim | None]
"""The claim of a key (``namespace/name``)."""


def from_stateful_set(pod: Pod, volume: Volume) -> bool:
    """Whether a volume is a claim that a StatefulSet makes for this pod: it is named after both."""
    owner, claim = pod.metadata.controller, volume.persistent_volume_claim
    return (
        owner is not None
        and owner.kind == "StatefulSet"
        and claim is not None
        and claim.claim_name == f"{volume.name}-{pod.metadata.name}"
    )


def has_own_claims(pod: Pod) -> bool:
    """Whether another pod like this one would have other claims."""
    return any(
        volume.ephemeral is not None or from_stateful_set(pod, volume)
        for volume in pod.spec.volumes
    )


def ephemeral_claims(pod: Pod, uid: str) -> Iterator[PersistentVolumeClaim]:
    """The claims that the ephemeral volume controller makes for a pod of this uid."""
    for volume in pod.spec.volumes:
        if (claim := _from_template(volume)) is not None:
            yield _made(claim, pod, f"{pod.metadata.name}-{volume.name}", pod.metadata.name, uid)


def _from_template(volume: Volume) -> PersistentVolumeClaim | None:
    template = volume.ephemeral and volume.ephemeral.volume_claim_template
    if template is None:
        return None
    try:
        return from_dict(msgspec.to_builtins(template), PersistentVolumeClaim)
    except msgspec.ValidationError:
        return None  # as little as the API server would take it


def claims_of_copy(
    pod: Pod, name: str, uid: str, find: FindClaim
) -> tuple[tuple[Volume, ...], list[PersistentVolumeClaim]]:
    """The volumes of a copy of a pod, and the claims that it would have for itself."""
    volumes, claims = [], []
    for volume in pod.spec.volumes:
        used = volume
        if volume.ephemeral is not None:
            known = find(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
            claim = known or _from_template(volume)
            if claim is not None:
                claims.append(_made(claim, pod, f"{name}-{volume.name}", name, uid))
        elif from_stateful_set(pod, volume):
            assert volume.persistent_volume_claim is not None, "it is one of a StatefulSet"
            known = find(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
            new = f"{volume.name}-{name}"
            used = structs.replace(volume, persistent_volume_claim=ClaimVolume(new))
            if known is not None:
                claims.append(_made(known, pod, new))
        volumes.append(used)
    return tuple(volumes), claims


def _made(
    like: PersistentVolumeClaim, pod: Pod, name: str, owner: str = "", uid: str = ""
) -> PersistentVolumeClaim:
    """A claim like another that has just been made, for a pod or for none."""
    named = like.metadata.annotations.get(BETA_CLASS)
    metadata = AnnotatedMeta(
        name=name,
        namespace=pod.metadata.namespace,
        labels=like.metadata.labels,
        annotations={} if named is None else {BETA_CLASS: named},
        owner_references=(OwnerReference("Pod", owner, uid, True, "v1"),) if owner else (),
    )
    spec = structs.replace(like.spec, volume_name="")
    return PersistentVolumeClaim(metadata, spec, VolumePhase("Pending"))


def with_default_class(
    claim: PersistentVolumeClaim, classes: Mapping[str, StorageClass]
) -> PersistentVolumeClaim:
    """The claim as the API server stores it: of the default class if it names none."""
    if claim.spec.storage_class_name is not None or BETA_CLASS in claim.metadata.annotations:
        return claim
    marked = [each for each in classes.values() if is_default(each)]
    if not marked:
        return claim
    marked.sort(key=lambda each: each.metadata.name)
    newest = max(marked, key=lambda each: each.metadata.creation_timestamp or "")
    spec = structs.replace(claim.spec, storage_class_name=newest.metadata.name)
    return structs.replace(claim, spec=spec)


def is_default(storage_class: StorageClass) -> bool:
    """Whether claims that name no class get this one."""
    return storage_class.metadata.annotations.get(DEFAULT_CLASS) == "true"
