"""Pods with stable names: made in order, removed and replaced in the reverse order."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from sandbox.controllers.ownership import Ownership
from sandbox.controllers.recorder import ControllerEvents
from sandbox.controllers.templates import (
    PodMaker,
    Selecting,
    digest,
    has_ended,
    is_active,
    is_available,
    is_ready,
    shape,
    until_available,
)
from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version
from scheduler.model.meta import Struct

_BURST = 20
"""Pods that one sync makes."""
_HASH = "controller-revision-hash"


class _StatefulSetPartition(Struct, frozen=True):
    partition: int = 0


class _StatefulSetStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: _StatefulSetPartition = _StatefulSetPartition()


class _StatefulSetOrdinals(Struct, frozen=True):
    start: int = 0


class _Claim(Struct, frozen=True):
    metadata: dict[str, Any]


class _StatefulSetSpec(Selecting, frozen=True):
    replicas: int = 1
    pod_management_policy: str = "OrderedReady"
    update_strategy: _StatefulSetStrategy = _StatefulSetStrategy()
    ordinals: _StatefulSetOrdinals = _StatefulSetOrdinals()
    volume_claim_templates: tuple[_Claim, ...] = ()


class StatefulSets:
    """The controller of StatefulSets."""

    concerned_by: tuple[str, ...] = ()
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._pods = PodMaker(registry, ownership)
        self._claims = registry.builtin("persistentvolumeclaims")
        self._recorder = ControllerEvents(registry, "statefulset-controller")

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("statefulsets", "apps")

    def sync(self, owner: Version) -> float | None:
        spec: _StatefulSetSpec = shape(owner, _StatefulSetSpec)
        update = f"{owner.key[1]}-{digest(owner.body['spec'].get('template'))}"
        pods = {pod.key[1]: pod for pod in self._pods.of(owner)}
        more = False
        try:
            more = self._step(owner, spec, update, pods)
        finally:
            again = self._report(owner, spec, update)
        return 0.0 if more else again

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """Changes of other tables concern none of them."""
        return ()

    def forget(self, uid: str) -> None:
        """Nothing is kept of a StatefulSet."""

    def _step(
        self, owner: Version, spec: _StatefulSetSpec, update: str, pods: dict[str, Version]
    ) -> bool:
        """Make what is missing, else remove what is too much, else replace what is outdated.

        Returns whether there is more to make at once.
        """
        ordered = spec.pod_management_policy != "Parallel"
        start, now = spec.ordinals.start, self._registry.clock()
        wanted = [f"{owner.key[1]}-{i}" for i in range(start, start + max(0, spec.replicas))]
        made = 0
        for name in wanted:
            pod = pods.get(name)
            if pod is None:
                self._make(owner, name, update)
                made += 1
                if ordered or made >= _BURST:
                    return not ordered
            elif has_ended(pod):
                self._pods.delete(pod)
            if ordered and (pod is None or not is_available(pod, spec.min_ready_seconds, now)):
                return False
        surplus = sorted((pods[n] for n in pods if n not in wanted), key=_ordinal, reverse=True)
        for pod in surplus[: 1 if ordered else _BURST]:
            self._pods.delete(pod)
        if not surplus and not made:
            self._replace(spec, update, [pods[name] for name in wanted])
        return False

    def _replace(self, spec: _StatefulSetSpec, update: str, pods: list[Version]) -> None:
        """Delete the last pod of an earlier template, once all others serve."""
        if spec.update_strategy.type != "RollingUpdate":
            return
        now, partition = self._registry.clock(), spec.update_strategy.rolling_update.partition
        for pod in reversed(pods):
            if _ordinal(pod) >= partition and _hash(pod) != update:
                self._pods.delete(pod)
                return
            if not is_active(pod) or not is_available(pod, spec.min_ready_seconds, now):
                return

    def _make(self, owner: Version, name: str, update: str) -> None:
        template: Body = owner.body["spec"]["template"].get("spec") or {}
        labels = {
            _HASH: update,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": name.rsplit("-", 1)[1],
        }
        claims = self._claim(owner, name)
        kept = [each for each in template.get("volumes") or () if each.get("name") not in claims]
        volumes = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
        spec = {**template, "hostname": name}
        if claims:
            spec["volumes"] = [*kept, *volumes]
        try:
            self._pods.make(owner.body, name=name, labels=labels, spec=spec)
        except ApiFailure as fault:
            words = f"create Pod {name} in StatefulSet {owner.key[1]} failed error: {fault}"
            self._recorder.warn(owner.body, "FailedCreate", words)
            raise
        words = f"create Pod {name} in StatefulSet {owner.key[1]} successful"
        self._recorder.normal(owner.body, "SuccessfulCreate", words)

    def _claim(self, owner: Version, pod: str) -> dict[str, str]:
        """Create the pod's claims unless they are there; volume → claim. They outlive the set."""
        claims = {}
        for template in owner.body["spec"].get("volumeClaimTemplates") or ():
            metadata = template["metadata"]
            name = claims[metadata["name"]] = f"{metadata['name']}-{pod}"
            if self._registry.table(self._claims).get((owner.key[0], name)) is None:
                labels = metadata.get("labels") or {}
                body = {
                    "metadata": {"name": name, "namespace": owner.key[0], "labels": dict(labels)},
                    "spec": copy.deepcopy(template.get("spec") or {}),
                }
                self._registry.create(self._claims, owner.key[0], body)
        return claims

    def _report(self, owner: Version, spec: _StatefulSetSpec, update: str) -> float | None:
        now = self._registry.clock()
        active = [pod for pod in self._pods.of(owner) if is_active(pod)]
        ready = [pod for pod in active if is_ready(pod)]
        available = sum(is_available(pod, spec.min_ready_seconds, now) for pod in ready)
        updated = sum(_hash(pod) == update for pod in active)
        before = (owner.body.get("status") or {}).get("currentRevision") or update
        done = updated == len(active) == spec.replicas == len(ready)
        current = update if done else before
        status = {
            "observedGeneration": owner.body["metadata"].get("generation"),
            "replicas": len(active),
            "readyReplicas": len(ready),
            "availableReplicas": available,
            "currentReplicas": sum(_hash(pod) == current for pod in active),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
        }
        self._registry.patch(self.resource, owner.key, MERGE, {"status": status}, "status")
        return until_available(ready, spec.min_ready_seconds, now)


def _ordinal(pod: Version) -> int:
    digits = pod.key[1].rsplit("-", 1)[-1]
    return int(digits) if digits.isdecimal() else 0


def _hash(pod: Version) -> str:
    return str((pod.body["metadata"].get("labels") or {}).get(_HASH, ""))
