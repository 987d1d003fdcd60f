"""The outlet of a simulation: binds at once, and does the work of a cluster's controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from scheduler.assembly import Core
from scheduler.dra.binding import BINDING_CONDITIONS_PENDING
from scheduler.dra.offline import after as claim_after
from scheduler.dra.offline import made_ready
from scheduler.dra.pod_claims import claim_keys
from scheduler.model.devices import ResourceClaim
from scheduler.model.meta import AnnotatedMeta
from scheduler.model.nodes import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.model.objects import Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status
from scheduler.model.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
    VolumePhase,
)
from scheduler.model.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    class_of,
    fully_bound,
    promised_to,
)
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, Verb, never_stale

HOSTNAME = "kubernetes.io/hostname"


PREEMPTED = "Preempted by pod "
"""How the message of a pod begins that was evicted."""


class StillClock:
    """Does not advance while pods are attempted, so that equal input has one outcome."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class OfflineOutlet:
    """An outlet that binds at once, records, and does the work of a cluster's controllers.

    Volumes are bound and provisioned at once, devices are ready at once, and evicted pods are
    deleted at once.
    """

    def __init__(self) -> None:
        self.core: Core | None = None
        """The scheduler that gets changes, as from a watch."""
        self.progress = 0
        """Grows with every pod that is bound or evicted."""
        self.evicted: dict[str, None] = {}
        self.bound: dict[str, str] = {}
        self.unseen: list[tuple[Pod, str]] = []
        """Pods that were bound, and their nodes, of which the watch has not told yet."""
        self.messages: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """Of pods that wait, by uid."""
        self.tried: dict[str, None] = {}
        self._claims = 0
        """How many requests there were about claims."""

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self.bound[pod.key] = node
        self.unseen.append((pod.pod, node))
        self.tried[pod.key] = None
        self.progress += 1
        return SUCCESS

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Keep the message of victims, with the preemptor's name; make devices ready.

        Other events have no effect.
        """
        if reason == BINDING_CONDITIONS_PENDING:
            self._make_ready(pod)
        if pod.key in self.evicted and note.startswith(PREEMPTED):
            uid, _, where = note.removeprefix(PREEMPTED).partition(" ")
            self.messages[pod.key] = f"{PREEMPTED}{self.names.get(uid, uid)} {where}"

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Do what the volume controllers would do; other patches have no effect."""
        objects = self._cluster.state.objects
        if kind == PersistentVolume.__name__:
            reference = patch["spec"]["claimRef"]
            volume = objects.confirmed(PersistentVolume, key)
            claim = objects.get(
                PersistentVolumeClaim, f"{reference['namespace']}/{reference['name']}"
            )
            if volume is not None and claim is not None:
                self._give(volume, claim)
        elif kind == PersistentVolumeClaim.__name__:
            claim = objects.confirmed(PersistentVolumeClaim, key)
            annotations = patch["metadata"].get("annotations", {})
            if claim is not None and SELECTED_NODE in annotations:
                self._give(self._made(claim, annotations[SELECTED_NODE]), claim, annotations)

    def _make_ready(self, pod: PodInfo) -> None:
        """Do what drivers would do with the devices that a pod waits for."""
        for key in claim_keys(pod):
            claim = self._cluster.state.objects.get(ResourceClaim, key)
            if claim is not None:
                change: Change[Any] = Change(claim, made_ready(claim))
                self._cluster.event_handlers.handler(ResourceClaim.__name__)([change])

    async def send(self, request: ObjectRequest) -> Any:
        """Do with a claim what an API server does; other objects stay as they are."""
        if request.kind != ResourceClaim.__name__:
            return None
        self._claims += 1
        known = self._cluster.state.objects.get(ResourceClaim, request.key)
        new = claim_after(known, request, self._claims)
        if request.verb is not Verb.GET:
            change: Change[Any] = Change(known, new)
            self._cluster.event_handlers.handler(request.kind)([change])
        return new

    def _give(
        self,
        volume: PersistentVolume,
        claim: PersistentVolumeClaim,
        annotations: Mapping[str, str] = {},
    ) -> None:
        """Bind a volume and a claim to each other."""
        wanted = claim.metadata
        reference = ObjectReference(
            "PersistentVolumeClaim", wanted.namespace, wanted.name, wanted.uid
        )
        self._tell(
            structs.replace(
                volume,
                metadata=_newer(volume.metadata),
                spec=structs.replace(volume.spec, claim_ref=reference),
                status=VolumePhase("Bound"),
            )
        )
        said = {**wanted.annotations, **annotations, BIND_COMPLETED: "yes"}
        self._tell(
            structs.replace(
                claim,
                metadata=structs.replace(_newer(wanted), annotations=said),
                spec=structs.replace(claim.spec, volume_name=volume.metadata.name),
                status=VolumePhase("Bound"),
            )
        )

    def _made(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolume:
        """A new volume for a claim, on the node that was chosen for its pod."""
        spec, found = claim.spec, self._cluster.state.node(node)
        host = found.metadata.labels.get(HOSTNAME) if found is not None else None
        expression = NodeSelectorRequirement(HOSTNAME, "In", (host,)) if host else None
        term = NodeSelectorTerm((expression,)) if expression else None
        return PersistentVolume(
            metadata=AnnotatedMeta(name=f"pvc-{claim.metadata.uid}"),
            spec=PersistentVolumeSpec(
                capacity=dict(spec.resources.requests),
                access_modes=spec.access_modes,
                storage_class_name=class_of(claim),
                volume_mode=spec.volume_mode,
                node_affinity=VolumeNodeAffinity(NodeSelector((term,))) if term else None,
            ),
        )

    def _tell(self, new: PersistentVolume | PersistentVolumeClaim) -> None:
        kind, key = type(new).__name__, new.metadata.key
        old = self._cluster.state.objects.confirmed(type(new), key)
        self._cluster.event_handlers.handler(kind)([Change(old, new)])

    @property
    def _cluster(self) -> Core:
        assert self.core is not None, "it belongs to a scheduler"
        return self.core

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        """The pod is gone at once."""
        placed = self._cluster.state.pod(pod.uid)
        self.evicted[pod.key] = None
        self.bound.pop(pod.key, None)
        self.progress += 1
        if placed is not None:
            self._cluster.event_handlers.handler("Pod")([Change(placed.pod, None)])

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write nothing; but bind the volumes that the pod waits for."""
        objects = self._cluster.state.objects
        for use in pod.volumes.claims if node else ():
            claim = objects.confirmed(PersistentVolumeClaim, use.key)
            if claim is None or fully_bound(claim):
                continue
            if claim.metadata.annotations.get(SELECTED_NODE) == node:
                self._give(self._made(claim, node), claim)
                continue
            for key in objects.all(PersistentVolume):
                volume = objects.confirmed(PersistentVolume, key)
                if volume is not None and promised_to(volume, claim):
                    self._give(volume, claim)
                    break

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.messages[pod.key] = message
        self.tried[pod.key] = None


def _newer(metadata: AnnotatedMeta) -> AnnotatedMeta:
    """The metadata of an object after a write."""
    return structs.replace(metadata, resource_version=f"{metadata.resource_version}+")
