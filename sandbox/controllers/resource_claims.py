"""Claims of pods: made from templates, given back when their pods have ended.

```
 pod with a template ──► claim, owned by the pod ──► its name in the pod's status
 pod ended, or gone ───► it leaves reservedFor ──► nobody left: allocation and finalizer go
 claim of an ended pod ► deleted
```
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.controllers.ownership import Ownership, controller_of
from sandbox.controllers.recorder import ControllerEvents
from sandbox.devices.names import CLAIMS, TEMPLATES, an_object, objects
from sandbox.errors import ApiFailure, not_found
from sandbox.patching import STRATEGIC
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version

FINALIZER = "resource.kubernetes.io/delete-protection"
MADE_FOR = "resource.kubernetes.io/pod-claim-name"

_GROUP = "resource.k8s.io"
_LONGEST_STEM = 57
_MOST_CONSUMERS = 256


def claim_names(pod: Body) -> dict[str, str | None]:
    """The claim behind each entry of a pod; None if it needs none, absent if it is not made yet."""
    status = an_object(pod.get("status"))
    made = {
        each.get("name"): each.get("resourceClaimName")
        for each in objects(status.get("resourceClaimStatuses"))
    }
    found: dict[str, str | None] = {}
    for entry in objects(pod["spec"].get("resourceClaims")):
        name = str(entry.get("name"))
        if entry.get("resourceClaimName"):
            found[name] = str(entry["resourceClaimName"])
        elif name in made:
            found[name] = made[name]
    return found


def _all_claims(pod: Body) -> Iterator[str]:
    """Every claim that a pod has, that of its extended resources included."""
    yield from (name for name in claim_names(pod).values() if name)
    special = an_object(an_object(pod.get("status")).get("extendedResourceClaimStatus"))
    if special.get("resourceClaimName"):
        yield str(special["resourceClaimName"])


def _is_done(pod: Body) -> bool:
    """Whether a pod will never run: it has ended, or was deleted before it had a node."""
    if an_object(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")


class ClaimMaker:
    """The part that follows pods: makes their claims from templates."""

    concerned_by: tuple[str, ...] = (TEMPLATES,)
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._ownership = ownership
        self._recorder = ControllerEvents(registry, "resource-claim-controller")
        self._claims = registry.builtin("resourceclaims", _GROUP)
        self._templates = registry.builtin("resourceclaimtemplates", _GROUP)

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("pods")

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """Pods that name the template."""
        namespace, name = changed["metadata"].get("namespace", ""), changed["metadata"]["name"]
        for key, pod in self._registry.table(self.resource).current.items():
            entries = objects(pod.body["spec"].get("resourceClaims"))
            named = (each.get("resourceClaimTemplateName") for each in entries)
            if key[0] == namespace and name in named:
                yield key

    def forget(self, uid: str) -> None:
        """Nothing is kept of a pod."""

    def sync(self, owner: Version) -> float | None:
        entries = objects(owner.body["spec"].get("resourceClaims"))
        if not entries or _is_done(owner.body):
            return None
        named, made = claim_names(owner.body), []
        for entry in entries:
            name = str(entry.get("name"))
            if name in named and (named[name] is None or self._is_there(owner.key, named[name])):
                continue
            template = entry.get("resourceClaimTemplateName")
            if template:
                made.append({"name": name, "resourceClaimName": self._make(owner, name, template)})
        if made:
            patch = {"status": {"resourceClaimStatuses": made}}
            self._registry.patch(self.resource, owner.key, STRATEGIC, patch, "status")
        elif owner.body["spec"].get("nodeName"):
            self._reserve(owner)
        return None

    def _is_there(self, pod: Key, name: str | None) -> bool:
        return self._registry.table(self._claims).get((pod[0], str(name))) is not None

    def _make(self, owner: Version, entry: str, template: str) -> str:
        """The claim for an entry: one that was made before, or a new one."""
        for claim in self._ownership.controlled(owner.body["metadata"]["uid"], CLAIMS):
            if (claim.body["metadata"].get("annotations") or {}).get(MADE_FOR) == entry:
                return claim.key[1]
        try:
            return self._create(owner, entry, template)
        except ApiFailure as fault:
            text = f"PodResourceClaim {entry}: {fault}"
            self._recorder.warn(owner.body, "FailedResourceClaimCreation", text)
            raise

    def _create(self, owner: Version, entry: str, template: str) -> str:
        found = self._registry.table(self._templates).get((owner.key[0], template))
        if found is None:
            raise not_found("resourceclaimtemplates", template, _GROUP)
        wanted = copy.deepcopy(an_object(found.body.get("spec")))
        metadata = an_object(wanted.get("metadata"))
        pod = owner.body["metadata"]
        stem = f"{pod['name']}-{entry}-"
        if len(stem) > _LONGEST_STEM:
            kept = len(pod["name"]) * _LONGEST_STEM // len(stem)
            stem = f"{pod['name'][:kept]}-{entry[: len(entry) * _LONGEST_STEM // len(stem)]}"
        body = {
            "metadata": {
                "generateName": stem,
                "annotations": {**(metadata.get("annotations") or {}), MADE_FOR: entry},
                "labels": metadata.get("labels") or {},
                "ownerReferences": [_controlled_by(pod)],
            },
            "spec": wanted.get("spec") or {},
        }
        return self._registry.create(self._claims, owner.key[0], body).key[1]

    def _reserve(self, owner: Version) -> None:
        """Reserve what others allocated for a pod that they bound."""
        for name in claim_names(owner.body).values():
            claim = self._registry.table(self._claims).get((owner.key[0], name or ""))
            status = an_object(claim.body.get("status")) if claim is not None else {}
            consumers = objects(status.get("reservedFor"))
            uid = owner.body["metadata"]["uid"]
            reserved = any(each.get("uid") == uid for each in consumers)
            if claim is None or not status.get("allocation") or reserved:
                continue
            if len(consumers) < _MOST_CONSUMERS:
                user = {"resource": "pods", "name": owner.key[1], "uid": uid}
                status = {**status, "reservedFor": [*consumers, user]}
                self._registry.update(
                    self._claims, claim.key, {**claim.body, "status": status}, "status"
                )


class ClaimReturns:
    """The part that follows claims: gives them back."""

    concerned_by: tuple[str, ...] = ("pods",)
    finalizes = True

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pods = registry.builtin("pods")

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("resourceclaims", _GROUP)

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """The claims of the pod."""
        namespace = changed["metadata"].get("namespace", "")
        return [(namespace, name) for name in _all_claims(changed)]

    def forget(self, uid: str) -> None:
        """Nothing is kept of a claim."""

    def sync(self, owner: Version) -> float | None:
        claim = owner
        status = an_object(claim.body.get("status"))
        consumers = objects(status.get("reservedFor"))
        left = [each for each in consumers if self._needs(claim.key[0], each)]
        leaving = "deletionTimestamp" in claim.body["metadata"]
        if len(left) < len(consumers) or (leaving and not left and status.get("allocation")):
            claim = self._release(claim, left)
        if not left and (len(consumers) > 0 or leaving):
            self._unprotect(claim)
        if not left and not leaving:
            self._delete_unneeded(owner.key)
        return None

    def _needs(self, namespace: str, consumer: Body) -> bool:
        if consumer.get("resource") != "pods" or consumer.get("apiGroup"):
            return True
        found = self._registry.table(self._pods).get((namespace, str(consumer.get("name"))))
        if found is None or found.body["metadata"]["uid"] != consumer.get("uid"):
            return False
        return not _is_done(found.body)

    def _release(self, claim: Version, left: list[Body]) -> Version:
        """Take consumers away; with the last one, and only then, the devices go back."""
        status = {**an_object(claim.body.get("status")), "reservedFor": left}
        if not left and FINALIZER in (claim.body["metadata"].get("finalizers") or ()):
            status.pop("allocation", None)
        body = {**claim.body, "status": status}
        return self._registry.update(self.resource, claim.key, body, "status")

    def _unprotect(self, claim: Version) -> None:
        metadata = claim.body["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER in finalizers and not an_object(claim.body.get("status")).get("allocation"):
            kept = [each for each in finalizers if each != FINALIZER]
            body = {**claim.body, "metadata": {**metadata, "finalizers": kept}}
            self._registry.update(self.resource, claim.key, body)

    def _delete_unneeded(self, key: Key) -> None:
        """A claim that was made for a pod is not kept longer than the pod may run."""
        claim = self._registry.table(self.resource).get(key)
        pod = controller_of(claim.body) if claim is not None else None
        if pod is None or (pod.get("apiVersion"), pod.get("kind")) != ("v1", "Pod"):
            return
        found = self._registry.table(self._pods).get((key[0], str(pod.get("name"))))
        # The garbage collector deletes what belongs to a pod that is gone.
        if found is not None and (
            found.body["metadata"]["uid"] != pod.get("uid") or _is_done(found.body)
        ):
            self._registry.delete(self.resource, key)


def _controlled_by(pod: Body) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["name"],
        "uid": pod["uid"],
        "controller": True,
    }
