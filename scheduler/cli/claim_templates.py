"""Claims that controllers would make from templates for pods.

A pod names a ResourceClaimTemplate, and the scheduler looks for the claim that was made from it; or
it has the template of a PersistentVolumeClaim itself, in an ephemeral volume. In files there is no
controller: each waiting pod gets claims of its own here, and its status says which devices' they
are. When a pod goes, the claims that were made for it go with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from scheduler.cli.workloads import Body, generated_names, identity
from scheduler.model.devices import ResourceClaim
from scheduler.model.storage import PersistentVolumeClaim

KIND = "ResourceClaimTemplate"
TEMPLATE = "volumeClaimTemplate"
_CLAIM = ResourceClaim.__name__
_VOLUME_CLAIM = PersistentVolumeClaim.__name__
_VERSION = "resource.k8s.io/v1"


def with_claims(objects: Iterable[Body]) -> list[Body]:
    """The objects with the claims that waiting pods lack, each before its pod."""
    objects = list(objects)
    if not any(body["kind"] == KIND or any(ephemeral_volumes(body)) for body in objects):
        return objects
    maker = _TemplateClaims(objects)
    return [
        each
        for body in objects
        for each in (maker.made_for(body) if body["kind"] == "Pod" else (body,))
    ]


def entries_of_templates(pod: Body) -> Iterator[tuple[str, str]]:
    """The entries of a pod that name templates, each with its template."""
    for entry in pod.get("spec", {}).get("resourceClaims", ()):
        if template := entry.get("resourceClaimTemplateName"):
            yield entry.get("name", ""), template


def ephemeral_volumes(pod: Body) -> Iterator[tuple[str, Body]]:
    """The volumes of a pod that have a template of a claim, each with it; of others none."""
    for volume in pod.get("spec", {}).get("volumes", ()) if pod["kind"] == "Pod" else ():
        if template := volume.get("ephemeral", {}).get(TEMPLATE):
            yield volume.get("name", ""), template


def has_templates(pod: Body) -> bool:
    """Whether claims of any kind are made from templates for a pod."""
    return any(entries_of_templates(pod)) or any(ephemeral_volumes(pod))


def missing_templates(objects: Iterable[Body]) -> list[str]:
    """The templates that waiting pods name and that are not there, as ``namespace/name``."""
    there: set[tuple[str, str]] = set()
    wanted: set[tuple[str, str]] = set()
    for body in objects:
        namespace, name = identity(body)[1:]
        if body["kind"] == KIND:
            there.add((namespace, name))
        elif body["kind"] == "Pod" and _waits(body):
            made = _made_already(body)
            lacking = (each for entry, each in entries_of_templates(body) if entry not in made)
            wanted.update((namespace, template) for template in lacking)
    return ["/".join(each) for each in sorted(wanted - there)]


class _TemplateClaims:
    """Makes the claims of pods, under names that no other claim has."""

    def __init__(self, objects: Iterable[Body]) -> None:
        self._templates: dict[tuple[str, str], Body] = {}
        self._taken: set[tuple[str, str]] = set()
        self._volume_claims: set[tuple[str, str]] = set()
        for body in objects:
            if body["kind"] == KIND:
                self._templates[identity(body)[1:]] = body
            elif body["kind"] == _CLAIM:
                self._taken.add(identity(body)[1:])
            elif body["kind"] == _VOLUME_CLAIM:
                self._volume_claims.add(identity(body)[1:])

    def made_for(self, pod: Body) -> Iterator[Body]:
        """The pod, after the claims that it lacks; its status names them."""
        if _waits(pod):
            yield from self._for_volumes(pod)
        statuses = []
        made = _made_already(pod)
        for entry, template in entries_of_templates(pod) if _waits(pod) else ():
            found = self._templates.get((identity(pod)[1], template))
            if found is not None and entry not in made:
                claim = self._claim(pod, entry, found)
                statuses.append({"name": entry, "resourceClaimName": claim["metadata"]["name"]})
                yield claim
        if statuses:
            status = pod.get("status", {})
            known = [*status.get("resourceClaimStatuses", ()), *statuses]
            pod = {**pod, "status": {**status, "resourceClaimStatuses": known}}
        yield pod

    def _for_volumes(self, pod: Body) -> Iterator[Body]:
        _, namespace, pod_name = identity(pod)
        for volume, template in ephemeral_volumes(pod):
            name = f"{pod_name}-{volume}"
            if (namespace, name) not in self._volume_claims:
                given = template.get("metadata", {})
                kept = {k: given[k] for k in ("labels", "annotations") if k in given}
                named = {"name": name, "namespace": namespace, "ownerReferences": [_owner(pod)]}
                yield {
                    "apiVersion": "v1",
                    "kind": _VOLUME_CLAIM,
                    "metadata": {**kept, **named},
                    "spec": template.get("spec", {}),
                }

    def _claim(self, pod: Body, entry: str, template: Body) -> Body:
        _, namespace, pod_name = identity(pod)
        names = generated_names(f"{pod_name}-{entry}", identity(pod), [])
        name = next(each for each in names if (namespace, each) not in self._taken)
        self._taken.add((namespace, name))
        content = template.get("spec", {})
        given = {k: v for k, v in content.get("metadata", {}).items() if k == "labels"}
        return {
            "apiVersion": template.get("apiVersion") or _VERSION,
            "kind": _CLAIM,
            "metadata": {
                **given,
                "name": name,
                "namespace": namespace,
                "ownerReferences": [_owner(pod)],
            },
            "spec": content.get("spec", {}),
        }


def _owner(pod: Body) -> Body:
    _, namespace, name = identity(pod)
    uid = pod["metadata"].get("uid") or f"{namespace}/{name}"
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}


def without_claims_of(objects: Iterable[Body], gone: Collection[str]) -> list[Body]:
    """The objects as they are when pods (``namespace/name``) are gone: their devices are free.

    Claims that were made for them go; others are reserved for them no longer.
    """

    def left(body: Body) -> Body | None:
        if body["kind"] not in (_CLAIM, _VOLUME_CLAIM):
            return body
        namespace = identity(body)[1]
        for owner in body["metadata"].get("ownerReferences", ()):
            if owner.get("kind") == "Pod" and f"{namespace}/{owner.get('name')}" in gone:
                return None
        consumers = body.get("status", {}).get("reservedFor", ())
        kept = [e for e in consumers if f"{namespace}/{e.get('name')}" not in gone]
        if len(kept) == len(consumers):
            return body
        return {**body, "status": {**body["status"], "reservedFor": kept}}

    return [kept for body in objects if (kept := left(body)) is not None] if gone else [*objects]


def _made_already(pod: Body) -> set[str]:
    statuses = pod.get("status", {}).get("resourceClaimStatuses", ())
    return {each.get("name", "") for each in statuses}


def _waits(pod: Body) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not pod.get("spec", {}).get("nodeName")
