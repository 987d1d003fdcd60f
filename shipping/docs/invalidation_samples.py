"""Samples of all events that matter to verdicts.

A sample is applied to a small cluster, and the log of changes shows which aspects it touched. So
the table of `invalidation` says what the program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.dra.ledger import ledger_of
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState

Json = dict[str, Any]

NODE, OTHER_NODE = "one", "two"
_ZONE = "topology.kubernetes.io/zone"
_CLAIM = "default/claim"
_DISKS: Mapping[str, Json] = {
    "CSI": {"csi": {"driver": "csi.example.com", "volumeHandle": "disk"}},
    "AWS EBS": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    "GCE PD": {"gcePersistentDisk": {"pdName": "disk"}},
    "Azure disk": {"azureDisk": {"diskURI": "disk"}},
}


class Touched(NamedTuple):
    """The aspects that an event touched: on some rows, or as a whole."""

    rows: frozenset[Aspect]
    whole: frozenset[Aspect]


class InvalidationSample(NamedTuple):
    """Something that happens to an object of a kind, in a cluster in which there is what it needs.

    ``before`` leads up to it and does not count.
    """

    kind: str
    what: str
    event: Callable[[ClusterState], None]
    before: Callable[[ClusterState], None] = lambda state: None

    def touched(self) -> Touched:
        """What it changes, found out by doing it."""
        state = ClusterState()
        for name in (NODE, OTHER_NODE):
            state.set_node(from_dict(_node(name), KINDS["Node"].type))
        self.before(state)
        state.attachments.counts("")  # the index of attachments is built
        start = state.changes.version
        self.event(state)
        since = {aspect: state.changes.since(aspect, start) for aspect in Aspect}
        return Touched(
            frozenset(aspect for aspect, rows in since.items() if rows),
            frozenset(aspect for aspect, rows in since.items() if rows is None),
        )


def _node(name: str = NODE, **more: Json) -> Json:
    labels = {"kubernetes.io/hostname": name, _ZONE: "a"}
    status = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    node: Json = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
    return {part: {**node[part], **more.get(part, {})} for part in node}


def _pod(**more: Json) -> PodInfo:
    """A pod on the first node."""
    pod: Json = {
        "metadata": {"name": "pod", "namespace": "default", "uid": "pod", "labels": {"app": "a"}},
        "spec": {"nodeName": NODE, "containers": [{"name": "main"}]},
        "status": {},
    }
    return PodInfo(from_dict({part: {**pod[part], **more.get(part, {})} for part in pod}, Pod))


def _waiting() -> PodInfo:
    return _pod(metadata={"uid": "waiting"}, spec={"nodeName": ""})


def _with_volume(**source: object) -> Json:
    return {"volumes": [{"name": "v", **source}]}


_USES_CLAIM = _pod(spec=_with_volume(persistentVolumeClaim={"claimName": "claim"}))
_KEEPS_AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": _ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}
_RESIZED = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}

Step = Callable[[ClusterState], None]


def _is_node(**more: Json) -> Step:
    return lambda state: state.set_node(from_dict(_node(NODE, **more), KINDS["Node"].type))


def _is_pod(pod: PodInfo) -> Step:
    return lambda state: state.set_pod(pod)


def _is(kind: str, name: str, namespace: str = "", **more: object) -> Step:
    """An object comes or changes."""
    raw = {"metadata": {"name": name, "namespace": namespace}, **more}
    new: Any = from_dict(raw, KINDS[kind].type)
    return lambda state: state.set_object(kind, new.metadata.key, new)


def _is_gone(kind: str, key: str) -> Step:
    return lambda state: state.set_object(kind, key, None)


def _all(*steps: Step) -> Step:
    def in_turn(state: ClusterState) -> None:
        for step in steps:
            step(state)

    return in_turn


def _claim(volume: str = "") -> Step:
    spec = {"volumeName": volume, "storageClassName": "class"}
    return _is("PersistentVolumeClaim", "claim", "default", spec=spec)


def _volume(source: str) -> Step:
    return _is("PersistentVolume", "volume", spec=_DISKS[source])


def _service(app: str, name: str = "service", **labels: str) -> Step:
    raw = {"metadata": {"name": name, "namespace": "default", "labels": labels}}
    new: Any = from_dict({**raw, "spec": {"selector": {"app": app}}}, KINDS["Service"].type)
    return lambda state: state.set_object("Service", f"default/{name}", new)


def _volumes() -> list[InvalidationSample]:
    samples = []
    for source in _DISKS:
        used = _all(_claim("volume"), _is_pod(_USES_CLAIM))
        there = _all(_volume(source), used)
        gone = _is_gone("PersistentVolume", "volume")
        samples += [
            InvalidationSample("PersistentVolume", f"added, {source}", _volume(source), used),
            InvalidationSample("PersistentVolume", f"deleted, {source}", gone, there),
        ]
    volume, gone = _volume("CSI"), _is_gone("PersistentVolumeClaim", _CLAIM)
    kind = "PersistentVolumeClaim"
    return [
        *samples,
        InvalidationSample(
            kind, "added, bound", _claim("volume"), _all(volume, _is_pod(_USES_CLAIM))
        ),
        InvalidationSample(
            kind, "deleted, bound", gone, _all(volume, _claim("volume"), _is_pod(_USES_CLAIM))
        ),
        InvalidationSample(kind, "added, not bound, used by no pod on a node", _claim()),
        InvalidationSample("CSINode", "added or changed", _is("CSINode", NODE)),
        InvalidationSample(
            "VolumeAttachment",
            "added or deleted",
            _is("VolumeAttachment", "attachment", spec={"nodeName": NODE}),
        ),
    ]


def _pods() -> list[InvalidationSample]:
    plain, labelled = _pod(), _pod(metadata={"labels": {"app": "b"}})
    port = {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}
    disk = _with_volume(gcePersistentDisk={"pdName": "disk"})

    def assumed(spec: Json | None = None) -> Step:
        pod = _pod(spec={"nodeName": "", **(spec or {})})

        def assume(state: ClusterState) -> None:
            state.assume(pod, NODE)

        return assume

    def gone(state: ClusterState) -> None:
        state.remove_pod("pod")

    def counted(state: ClusterState) -> None:
        """A counter of pods with a label exists."""
        term = _pod(spec={"affinity": _KEEPS_AWAY}).affinity.anti_required[0]
        state.index.counter(term.pods)

    return [
        InvalidationSample("Pod", "assumed or added", assumed()),
        InvalidationSample("Pod", "assumed or added, with a host port", assumed(port)),
        InvalidationSample("Pod", "assumed or added, with a special volume", assumed(disk)),
        InvalidationSample(
            "Pod",
            "assumed or added, with a claim",
            assumed(_with_volume(persistentVolumeClaim={"claimName": "claim"})),
        ),
        InvalidationSample(
            "Pod",
            "assumed or added, with an affinity term that no other pod has",
            assumed({"affinity": _KEEPS_AWAY}),
        ),
        InvalidationSample(
            "Pod", "requests changed", _is_pod(_pod(status=_RESIZED)), _is_pod(plain)
        ),
        InvalidationSample(
            "Pod", "labels changed", _is_pod(labelled), _all(counted, _is_pod(plain))
        ),
        InvalidationSample(
            "Pod", "labels changed that no selector names", _is_pod(labelled), _is_pod(plain)
        ),
        InvalidationSample(
            "Pod",
            "anything else changed",
            _is_pod(_pod(status={"phase": "Running"})),
            _is_pod(plain),
        ),
        InvalidationSample("Pod", "deleted or forgotten", gone, _is_pod(plain)),
        InvalidationSample(
            "Pod", "deleted or forgotten, with a special volume", gone, _is_pod(_pod(spec=disk))
        ),
        InvalidationSample(
            "Pod", "nominated to a node", lambda state: state.nominations.set(_waiting(), NODE)
        ),
    ]


def _nodes() -> list[InvalidationSample]:
    ready, pressed = {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}
    image = {"names": ["image:1"], "sizeBytes": 1}
    offered = {"allocatable": {"cpu": "4"}, "conditions": [ready]}
    labels = {"kubernetes.io/hostname": NODE, _ZONE: "a"}
    changes: Sequence[tuple[str, Step]] = (
        ("allocatable changed", _is_node(status={"allocatable": {"cpu": "8"}})),
        ("a label changed", _is_node(metadata={"labels": {**labels, "x": "y"}})),
        ("a zone label changed", _is_node(metadata={"labels": {**labels, _ZONE: "b"}})),
        ("taints changed", _is_node(spec={"taints": [{"key": "t", "effect": "NoSchedule"}]})),
        ("cordoned or uncordoned", _is_node(spec={"unschedulable": True})),
        ("a condition changed", _is_node(status={**offered, "conditions": [ready, pressed]})),
        ("images changed", _is_node(status={**offered, "images": [image]})),
        ("declared features changed", _is_node(status={**offered, "declaredFeatures": ["F"]})),
        ("anything else changed", _is_node(metadata={"resourceVersion": "2"})),
        ("added", lambda state: state.set_node(from_dict(_node("new"), KINDS["Node"].type))),
        ("deleted", lambda state: state.remove_node(NODE)),
        ("NUMA cells reserved or settled", _settle),
    )
    return [InvalidationSample("Node", what, step) for what, step in changes]


def _settle(state: ClusterState) -> None:
    """What is known of a node's cells is kept beside the columns, by those who ask for it."""
    row = state.row(NODE)
    assert row is not None
    state.changes.touch(row, (Aspect.TOPOLOGY,))


def _workloads() -> list[InvalidationSample]:
    selector = {"selector": {"matchLabels": {"app": "a"}}}
    team: Any = from_dict(
        {"metadata": {"name": "default", "labels": {"team": "x"}}}, KINDS["Namespace"].type
    )
    return [
        InvalidationSample("Service", "added or deleted", _service("a")),
        InvalidationSample("Service", "selector changed", _service("b"), _service("a")),
        InvalidationSample(
            "Service", "anything else changed", _service("a", new="label"), _service("a")
        ),
        *(
            InvalidationSample(kind, "added or changed", _is(kind, "owner", "default", spec=spec))
            for kind, spec in (
                ("ReplicationController", {"selector": {"app": "a"}}),
                ("ReplicaSet", selector),
                ("StatefulSet", selector),
            )
        ),
        InvalidationSample(
            "Namespace",
            "labels changed",
            lambda state: state.set_object("Namespace", "default", team),
        ),
    ]


def _slice(name: str, where: Json, *taints: Json) -> Step:
    spec: Json = {"driver": "gpu.example.com", "pool": {"name": name, "resourceSliceCount": 1}}
    devices = [{"name": "gpu-0", "taints": list(taints)}]
    return _is("ResourceSlice", name, spec={**spec, **where, "devices": devices})


def _device_claim(pool: str = "") -> Step:
    """A claim; with a pool, one that has got a device of it."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}} if pool else {}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    spec = {"devices": {"requests": requests}}
    return _is("ResourceClaim", "claim", "default", spec=spec, status=status)


def _judged(*steps: Step) -> Step:
    """Steps in a cluster whose devices somebody has asked for, so that rows are known."""

    def prepare(state: ClusterState) -> None:
        ledger = ledger_of(state)
        for step in steps:
            step(state)
        ledger.follow_nodes()
        claim: Any = from_dict({"metadata": {"name": "any"}}, KINDS["ResourceClaim"].type)
        ledger.index.judge([claim], state.rows().tolist())

    return prepare


def _devices() -> list[InvalidationSample]:
    local, shared = {"nodeName": NODE}, {"allNodes": True}
    taint = {"key": "broken", "effect": "NoSchedule"}
    slices, claims = "ResourceSlice", "ResourceClaim"
    known = _judged(_slice(NODE, local), _slice("fabric", shared), _device_claim())
    free = _device_claim()
    return [
        InvalidationSample(slices, "added or changed, of one node", _slice(NODE, local), _judged()),
        InvalidationSample(
            slices, "a device taint changed, of one node", _slice(NODE, local, taint), known
        ),
        InvalidationSample(slices, "added or changed, for all nodes", _slice("x", shared), known),
        InvalidationSample(claims, "added or changed, without devices", free, _judged()),
        InvalidationSample(claims, "allocated, a device of one node", _device_claim(NODE), known),
        InvalidationSample(
            claims, "allocated, a device of all nodes", _device_claim("fabric"), known
        ),
        InvalidationSample(
            claims,
            "deallocated, a device of one node",
            free,
            _judged(_slice(NODE, local), _device_claim(NODE)),
        ),
        InvalidationSample(
            "DeviceClass", "added or changed", _is("DeviceClass", "gpu", spec={}), _judged()
        ),
    ]


_SAMPLED = (*_volumes(), *_workloads(), *_devices(), *_pods(), *_nodes())


def _others() -> Iterator[InvalidationSample]:
    """Kinds without a sample of their own: an empty object is added."""
    sampled = {sample.kind for sample in _SAMPLED}
    for kind in KINDS.values():
        added = InvalidationSample(
            kind.name, "added or changed", _is(kind.name, "object", "default" * kind.namespaced)
        )
        if kind.name not in sampled and any(added.touched()):
            yield added


INVALIDATION_SAMPLES: Sequence[InvalidationSample] = (*_SAMPLED, *_others())
