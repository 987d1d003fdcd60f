"""A pod for each node that a DaemonSet matches; the scheduler binds it, as in a real cluster."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.controllers.ownership import Ownership
from sandbox.controllers.recorder import ControllerEvents
from sandbox.controllers.templates import (
    Number,
    PodMaker,
    Selecting,
    digest,
    has_ended,
    is_active,
    is_available,
    is_ready,
    shape,
    share,
    until_available,
)
from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key, Version
from scheduler.model.meta import Struct
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, named_node
from scheduler.model.tolerations import Cover

_BURST = 20
"""Pods that one sync makes or deletes."""
_HASH = "controller-revision-hash"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class _DaemonSetRollingUpdate(Struct, frozen=True):
    max_unavailable: Number = 1


class _DaemonSetStrategy(Struct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: _DaemonSetRollingUpdate = _DaemonSetRollingUpdate()


class _DaemonSetSpec(Selecting, frozen=True):
    update_strategy: _DaemonSetStrategy = _DaemonSetStrategy()


class DaemonSets:
    """The controller of DaemonSets."""

    concerned_by: tuple[str, ...] = ("nodes",)
    finalizes = False

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._pods = PodMaker(registry, ownership)
        self._nodes = registry.table(registry.builtin("nodes"))
        self._recorder = ControllerEvents(registry, "daemonset-controller")

    @property
    def resource(self) -> Resource:
        return self._registry.builtin("daemonsets", "apps")

    def sync(self, owner: Version) -> float | None:
        spec: _DaemonSetSpec = shape(owner, _DaemonSetSpec)
        name = digest(owner.body["spec"].get("template"))
        wanted = self._wanted(owner)
        manned: dict[str, list[Version]] = {}
        for pod in self._pods.of(owner):
            if has_ended(pod):
                self._pods.delete(pod)  # as upstream: a daemon that ended is replaced
            elif is_active(pod):
                manned.setdefault(_node_of(pod), []).append(pod)
        surplus = [pod for node, pods in manned.items() for pod in pods[node in wanted :]]
        missing = [node for node in wanted if node not in manned]
        for pod in surplus[:_BURST]:
            self._pods.delete(pod)
        try:
            for node in missing[:_BURST]:
                self._make(owner, node, name)
        finally:
            current = {node: pods[0] for node, pods in manned.items() if node in wanted}
            again = self._report(owner, spec, len(wanted), current, len(manned) - len(current))
        if not missing and not surplus:
            self._replace(spec, current, name)
        return 0.0 if max(len(missing), len(surplus)) > _BURST else again

    def concerned(self, table: str, changed: Body) -> Iterable[Key]:
        """All of them."""
        return self._registry.table(self.resource).current

    def forget(self, uid: str) -> None:
        """Nothing is kept of a DaemonSet."""

    def _wanted(self, owner: Version) -> dict[str, None]:
        """The nodes that the template matches and whose taints it tolerates, by name."""
        template = owner.body["spec"].get("template") or {}
        pod = {"metadata": {"name": owner.key[1]}, "spec": template.get("spec") or {}}
        info = PodInfo(from_dict(pod, Pod))
        extra = from_dict({"spec": {"tolerations": _tolerations(pod["spec"])}}, Pod)
        cover = Cover((*info.pod.spec.tolerations, *extra.spec.tolerations))
        named = info.pod.spec.node_name
        found: dict[str, None] = {}
        for version in self._nodes.list_at():
            node = from_dict(version.body, Node)
            if cover.repelled(node.spec.taints) or named not in ("", version.key[1]):
                continue
            if info.node_matcher.matches(node):
                found[version.key[1]] = None
        return found

    def _make(self, owner: Version, node: str, name: str) -> None:
        template: Body = owner.body["spec"]["template"].get("spec") or {}
        affinity = template.get("affinity") or {}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        rules = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}
        spec = {
            **template,
            "affinity": {**affinity, "nodeAffinity": rules},
            "tolerations": [*(template.get("tolerations") or ()), *_tolerations(template)],
        }
        try:
            made = self._pods.make(owner.body, labels={_HASH: name}, spec=spec)
        except ApiFailure as fault:
            self._recorder.warn(owner.body, "FailedCreate", f"Error creating: {fault}")
            raise
        self._recorder.normal(owner.body, "SuccessfulCreate", f"Created pod: {made.key[1]}")

    def _replace(self, spec: _DaemonSetSpec, current: dict[str, Version], name: str) -> None:
        """Delete pods of an earlier template, as many as may be unavailable at once."""
        if spec.update_strategy.type != "RollingUpdate":
            return
        old = [pod for pod in current.values() if not _is_of(pod, name)]
        now = self._registry.clock()
        serving = [p for p in current.values() if is_available(p, spec.min_ready_seconds, now)]
        most = spec.update_strategy.rolling_update.max_unavailable
        room = max(1, share(most, len(current), up=True)) - (len(current) - len(serving))
        idle = [pod for pod in old if pod not in serving]
        for pod in [*idle, *[pod for pod in old if pod in serving][: max(0, room)]]:
            self._pods.delete(pod)

    def _report(
        self,
        owner: Version,
        spec: _DaemonSetSpec,
        wanted: int,
        current: dict[str, Version],
        astray: int,
    ) -> float | None:
        now = self._registry.clock()
        name = digest(owner.body["spec"].get("template"))
        ready = [pod for pod in current.values() if is_ready(pod)]
        available = sum(is_available(pod, spec.min_ready_seconds, now) for pod in ready)
        status = {
            "currentNumberScheduled": len(current),
            "desiredNumberScheduled": wanted,
            "numberMisscheduled": astray,
            "numberReady": len(ready),
            "numberAvailable": available or None,
            "numberUnavailable": (wanted - available) or None,
            "updatedNumberScheduled": sum(_is_of(pod, name) for pod in current.values()) or None,
            "observedGeneration": owner.body["metadata"].get("generation"),
        }
        self._registry.patch(self.resource, owner.key, MERGE, {"status": status}, "status")
        return until_available(ready, spec.min_ready_seconds, now)


def _tolerations(spec: Body) -> list[Body]:
    """What a daemon tolerates besides what its template says."""
    more = (("network-unavailable", "NoSchedule"),) if spec.get("hostNetwork") else ()
    return [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
        for key, effect in (*_TOLERATED, *more)
    ]


def _node_of(pod: Version) -> str:
    return str(pod.body["spec"].get("nodeName") or named_node(from_dict(pod.body, Pod)))


def _is_of(pod: Version, name: str) -> bool:
    return bool((pod.body["metadata"].get("labels") or {}).get(_HASH) == name)
