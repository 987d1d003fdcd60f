"""Rolls a Deployment out by ReplicaSets, one for each template, as kube-controller-manager does."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from sandbox.controllers import conditions
from sandbox.controllers.ownership import Ownership, reference_to
from sandbox.controllers.recorder import ControllerEvents
from sandbox.controllers.templates import Number, PodMaker, Selecting, digest, shape, share
from sandbox.patching import MERGE
from sandbox.registry import Registry, timestamp
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version
from scheduler.model.meta import Struct

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_CHANGE_CAUSE = "kubernetes.io/change-cause"


class _DeploymentRollingUpdate(Struct, frozen=True):
    max_surge: Number = "25%"
    max_unavailable: Number = "25%"


class _DeploymentStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: _DeploymentRollingUpdate = _DeploymentRollingUpdate()


class _RolledOutSpec(Selecting, frozen=True):
    replicas: int = 1
    strategy: _DeploymentStrategy = _DeploymentStrategy()
    paused: bool = False
    progress_deadline_seconds: int = 600


class Deployments:
    """The controller of Deployments."""

    concerned_by: tuple[str, ...] = ()
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._ownership = ownership
        self._pods = PodMaker(registry, ownership)
        self._sets = registry.builtin("replicasets", "apps")
        self._recorder = ControllerEvents(registry, "deployment-controller")

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("deployments", "apps")

    def sync(self, owner: Version) -> float | None:
        spec: _RolledOutSpec = shape(owner, _RolledOutSpec)
        sets = self._replica_sets(owner)
        name = digest(owner.body["spec"].get("template"))
        new = next((each for each in sets if _labels(each).get(_HASH) == name), None)
        old = [each for each in sets if each is not new]
        if new is None and not spec.paused:
            if spec.strategy.type == "Recreate" and self._retire(owner, old):
                return self._report(owner, spec, None, old)
            new = self._make(owner, spec, name, old)
        elif new is not None:
            new = self._renumber(owner, new, old)
        if new is not None:
            new, old = self._roll(owner, spec, new, old)
        self._clean_up(spec, old)
        return self._report(owner, spec, new, old)

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """Changes of other tables concern none of them."""
        return ()

    def forget(self, uid: str) -> None:
        """Nothing is kept of a Deployment."""

    def _replica_sets(self, owner: Version) -> list[Version]:
        uid = owner.body["metadata"]["uid"]
        found = self._ownership.controlled(uid, self._sets.table)
        return sorted(found, key=lambda each: each.body["metadata"]["creationTimestamp"])

    # ReplicaSets

    def _make(self, owner: Version, spec: _RolledOutSpec, name: str, old: list[Version]) -> Version:
        template = copy.deepcopy(owner.body["spec"]["template"])
        metadata = template.setdefault("metadata", {})
        labels = {**(metadata.get("labels") or {}), _HASH: name}
        metadata["labels"] = labels
        selector = copy.deepcopy(owner.body["spec"].get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: name}
        count = self._allowed(spec, old, 0)
        body = {
            "metadata": {
                "name": f"{owner.key[1]}-{name}",
                "namespace": owner.key[0],
                "labels": labels,
                "annotations": self._annotations(owner, _latest(old) + 1),
                "ownerReferences": [reference_to(owner.body)],
            },
            "spec": {
                "replicas": count,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }
        made = self._registry.create(self._sets, owner.key[0], body)
        self._note_revision(owner, made)
        self._tell(owner, made, 0, count)
        return made

    def _annotations(self, owner: Version, revision: int) -> dict[str, str]:
        given = owner.body["metadata"].get("annotations") or {}
        cause = {_CHANGE_CAUSE: given[_CHANGE_CAUSE]} if _CHANGE_CAUSE in given else {}
        return {_REVISION: str(revision), **cause}

    def _renumber(self, owner: Version, new: Version, old: list[Version]) -> Version:
        """A ReplicaSet that an undo brings back becomes the latest revision."""
        if _revision(new) <= _latest(old):
            annotations = self._annotations(owner, _latest(old) + 1)
            patch = {"metadata": {"annotations": annotations}}
            new = self._registry.patch(self._sets, new.key, MERGE, patch)
        self._note_revision(owner, new)
        return new

    def _note_revision(self, owner: Version, new: Version) -> None:
        revision = (new.body["metadata"].get("annotations") or {}).get(_REVISION)
        patch = {"metadata": {"annotations": {_REVISION: revision}}}
        self._registry.patch(self.resource, owner.key, MERGE, patch)

    # The rollout

    def _roll(
        self, owner: Version, spec: _RolledOutSpec, new: Version, old: list[Version]
    ) -> tuple[Version, list[Version]]:
        """One step: let the new ReplicaSet grow as far as allowed, or old ones shrink."""
        wanted = self._allowed(spec, old, _replicas(new))
        if wanted != _replicas(new):
            return self._scale(owner, new, wanted), old
        surplus = self._surplus(spec, new, old)
        counts = [_replicas(each) for each in old]
        # Pods that do not serve go first, of any old ReplicaSet; they are not missed.
        spares = [_replicas(each) - _status(each, "availableReplicas") for each in old]
        for limits in (spares, list(counts)):
            for i, limit in enumerate(limits):
                less = max(0, min(surplus, limit, counts[i]))
                counts[i] -= less
                surplus -= less
        shrunk = [
            self._scale(owner, each, count) if count != _replicas(each) else each
            for each, count in zip(old, counts, strict=True)
        ]
        return new, shrunk

    def _allowed(self, spec: _RolledOutSpec, old: list[Version], now: int) -> int:
        """How many replicas the new ReplicaSet may have by now."""
        if spec.strategy.type == "Recreate":
            return spec.replicas
        room = spec.replicas + _surge(spec) - sum(map(_replicas, old)) - now
        return min(spec.replicas, now + max(0, room)) if now < spec.replicas else spec.replicas

    def _surplus(self, spec: _RolledOutSpec, new: Version, old: list[Version]) -> int:
        """How many pods of old ReplicaSets are not needed for the fewest that have to serve."""
        total = _replicas(new) + sum(map(_replicas, old))
        unavailable = _replicas(new) - _status(new, "availableReplicas")
        return max(0, total - (spec.replicas - _unavailable(spec)) - max(0, unavailable))

    def _retire(self, owner: Version, old: list[Version]) -> bool:
        """Recreate: no old pod may be left; returns whether one is."""
        for each in old:
            if _replicas(each):
                self._scale(owner, each, 0)
        return any(self._pods.of(each) for each in old)

    def _scale(self, owner: Version, which: Version, count: int) -> Version:
        before = _replicas(which)
        patch = {"spec": {"replicas": count}}
        scaled = self._registry.patch(self._sets, which.key, MERGE, patch)
        self._tell(owner, which, before, count)
        return scaled

    def _tell(self, owner: Version, which: Version, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        message = f"Scaled {way} replica set {which.key[1]} from {before} to {after}"
        self._recorder.normal(owner.body, "ScalingReplicaSet", message)

    def _clean_up(self, spec: _RolledOutSpec, old: list[Version]) -> None:
        idle = [each for each in old if not _replicas(each) and not _status(each, "replicas")]
        idle.sort(key=_revision)
        for each in idle[: max(0, len(idle) - max(0, spec.revision_history_limit))]:
            self._registry.delete(self._sets, each.key, {"propagationPolicy": "Background"})

    # The status

    def _report(
        self, owner: Version, spec: _RolledOutSpec, new: Version | None, old: list[Version]
    ) -> float | None:
        sets = [*old, *([new] if new is not None else [])]
        available = _total(sets, "availableReplicas")
        status: Body = {
            "observedGeneration": owner.body["metadata"].get("generation"),
            "replicas": _total(sets, "replicas"),
            "updatedReplicas": _status(new, "replicas") if new is not None else 0,
            "readyReplicas": _total(sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(_replicas, sets)) - available) or None,
        }
        before = owner.body.get("status") or {}
        progress, again = self._progress(owner, spec, new, status)
        status["conditions"] = conditions.updated(
            before.get("conditions") or (),
            _availability(available >= spec.replicas - _unavailable(spec)),
            progress,
            now=timestamp(self._registry.clock()),
        )
        self._registry.patch(self.resource, owner.key, MERGE, {"status": status}, "status")
        return again

    def _progress(
        self, owner: Version, spec: _RolledOutSpec, new: Version | None, status: Body
    ) -> tuple[Body, float | None]:
        """Whether it comes along, and in how many seconds it will have taken too long."""
        if new is None:
            words = "Deployment is paused" if spec.paused else "Old pods are being deleted"
            return _progressing("Unknown", "DeploymentPaused", words), None
        name = new.key[1]
        counts = ("updatedReplicas", "replicas", "availableReplicas")
        if all(status[count] == spec.replicas for count in counts):
            done = f'ReplicaSet "{name}" has successfully progressed.'
            return _progressing("True", "NewReplicaSetAvailable", done), None
        before = owner.body.get("status") or {}
        known = conditions.find(owner.body, "Progressing") or {}
        moved = any((before.get(count) or 0) != status[count] for count in counts)
        since = conditions.moment(known.get("lastUpdateTime"))
        going = _progressing("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        deadline = float(spec.progress_deadline_seconds)
        if moved or since is None or known.get("reason") == "NewReplicaSetAvailable":
            return {**going, "lastUpdateTime": timestamp(self._registry.clock())}, deadline
        left = deadline - (self._registry.clock() - since).total_seconds()
        if left > 0 and known.get("reason") != "ProgressDeadlineExceeded":
            return going, left
        late = f'ReplicaSet "{name}" has timed out progressing.'
        return _progressing("False", "ProgressDeadlineExceeded", late), None


def _availability(enough: bool) -> Body:
    words = "has minimum availability" if enough else "does not have minimum availability"
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    status = "True" if enough else "False"
    message = f"Deployment {words}."
    return {"type": "Available", "status": status, "reason": reason, "message": message}


def _progressing(status: str, reason: str, message: str) -> Body:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def _surge(spec: _RolledOutSpec) -> int:
    return share(spec.strategy.rolling_update.max_surge, spec.replicas, up=True)


def _unavailable(spec: _RolledOutSpec) -> int:
    """How many pods may be missing; at least one if no surge is allowed either."""
    if spec.strategy.type == "Recreate":
        return 0
    rolling = spec.strategy.rolling_update
    missing = share(rolling.max_unavailable, spec.replicas, up=False)
    return min(spec.replicas, missing or (0 if _surge(spec) else 1))


def _replicas(which: Version) -> int:
    return int((which.body.get("spec") or {}).get("replicas") or 0)


def _status(which: Version, field: str) -> int:
    return int((which.body.get("status") or {}).get(field) or 0)


def _total(sets: list[Version], field: str) -> int:
    return sum(_status(each, field) for each in sets)


def _labels(which: Version) -> dict[str, Any]:
    return which.body["metadata"].get("labels") or {}


def _revision(which: Version) -> int:
    text = (which.body["metadata"].get("annotations") or {}).get(_REVISION, "")
    return int(text) if str(text).isdecimal() else 0


def _latest(sets: list[Version]) -> int:
    return max(map(_revision, sets), default=0)
