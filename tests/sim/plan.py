"""A history before it happens: the cluster, and a list of dated actions, as plain data.

A plan is drawn from a seed (`drawing`), performed by the world (`world`), written as JSON and
shrunk (`shrinking`). Whatever an action says is an attempt: one that names a pod that is gone does
nothing, so that any action may be left out of a plan without making the others wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Plain data; what has its default is left out of the JSON."""


class NodePlan(_Part, frozen=True):
    """A node: whole CPUs and GiB."""

    name: str
    cpu: int = 4
    memory: int = 16
    pods: int = 110
    zone: str = ""
    shared: bool = False
    """The other scheduler uses it as well."""
    tainted: bool = False
    cells: int = 0
    """NUMA cells, among which the CPUs are divided; 0 if the node has no NRT."""
    devices: int = 0
    """Devices in its ResourceSlice."""


class PodPlan(_Part, frozen=True):
    """A pod: thousandths of a CPU and MiB."""

    name: str
    namespace: str = "default"
    foreign: bool = False
    """For the other scheduler."""
    cpu: int = 0
    memory: int = 0
    priority: int = 0
    app: str = ""
    zone: str = ""
    """The zone it has to go to."""
    tolerates: bool = False
    spread: Literal["", "zone", "host"] = ""
    apart: bool = False
    """No two pods of its app on a node."""
    near: str = ""
    """The app in whose zone it has to be."""
    group: str = ""
    claim: str = ""
    """Its ResourceClaim."""
    volume: str = ""
    """Its PersistentVolumeClaim."""
    gated: bool = False
    pinned: bool = False
    """Guaranteed, with whole CPUs of its own; goes to nodes with cells."""
    seconds: int = 0
    """Ends by itself so long after its start; 0 runs on."""
    absurd: str = ""
    """A name from `objects.ABSURDITIES`."""


class Action(_Part, frozen=True, tag_field="do", tag=True):
    """Something that somebody does."""


# Users


class AddPod(Action, frozen=True):
    pod: PodPlan


class DeletePod(Action, frozen=True):
    name: str
    namespace: str = "default"


class RecreatePod(Action, frozen=True):
    """Delete at once whatever has its name, and make this one."""

    pod: PodPlan


class RelabelPod(Action, frozen=True):
    name: str
    app: str
    namespace: str = "default"


class ResizePod(Action, frozen=True):
    name: str
    cpu: int
    namespace: str = "default"


class UngatePod(Action, frozen=True):
    name: str
    namespace: str = "default"


class AddGroup(Action, frozen=True):
    name: str
    minimum: int
    namespace: str = "default"


class DeleteGroup(Action, frozen=True):
    name: str
    namespace: str = "default"


class AddClaim(Action, frozen=True):
    name: str
    count: int = 1
    namespace: str = "default"


class DeleteClaim(Action, frozen=True):
    name: str
    namespace: str = "default"


class AddVolume(Action, frozen=True):
    """A claim to a volume; with ``local``, there are as many volumes, on nodes, as claims."""

    name: str
    node: str = ""
    """Where a volume for it is; empty if one is provisioned where the pod goes."""
    namespace: str = "default"


class DeleteNamespace(Action, frozen=True):
    name: str


class AddNamespace(Action, frozen=True):
    name: str


# Nodes and what runs on them


class AddNode(Action, frozen=True):
    """A node joins; one of that name is replaced."""

    node: NodePlan


class RemoveNode(Action, frozen=True):
    name: str


class ResizeNode(Action, frozen=True):
    name: str
    cpu: int


class CordonNode(Action, frozen=True):
    name: str
    on: bool = True


class TaintNode(Action, frozen=True):
    name: str
    on: bool = True


class FlapNode(Action, frozen=True):
    """Not ready for a while, with the taint that the node controller sets."""

    name: str
    seconds: float


class PauseKubelets(Action, frozen=True):
    """No kubelet sees or does anything."""

    seconds: float


class FailPod(Action, frozen=True):
    """A kubelet says that the pod has failed."""

    name: str
    namespace: str = "default"


class PauseTopologies(Action, frozen=True):
    """No NRT is published."""

    seconds: float


class DropTopology(Action, frozen=True):
    node: str


class ContradictTopology(Action, frozen=True):
    """An NRT that promises more than the machine has, until the agent's next turn."""

    node: str


class DropSlice(Action, frozen=True):
    """The devices of a node are gone for a while."""

    node: str
    seconds: float


class ShrinkSlice(Action, frozen=True):
    """A new generation of the pool has fewer devices."""

    node: str
    devices: int


class ContradictSlice(Action, frozen=True):
    """A second slice says that the pool of the node has other devices, some with the same names."""

    node: str
    seconds: float


class PauseForeign(Action, frozen=True):
    """The other scheduler stops, then binds all that has come."""

    seconds: float


class SetWebhook(Action, frozen=True):
    """How a webhook behaves from now on."""

    mode: Literal["well", "hang", "lie", "flip", "stream", "error", "cut"]


class SetPlugin(Action, frozen=True):
    """At which extension point a plugin raises from now on; empty: at none."""

    point: Literal["", "filter", "score", "reserve", "permit", "preBind", "postBind"]


class SetSolver(Action, frozen=True):
    """How the process that solves batches behaves from now on."""

    mode: Literal["well", "hang", "die", "fail"]


# The API server


class FailRequests(Action, frozen=True):
    method: str
    path: str
    status: int
    times: int = 1
    retry_after: int = 0
    processed: bool = False
    """They take effect, and are answered so nevertheless."""


class DropAnswers(Action, frozen=True):
    """The connection is reset, after the request has been processed or before."""

    method: str
    path: str
    times: int = 1
    processed: bool = True


class DelayRequests(Action, frozen=True):
    method: str
    path: str
    seconds: float
    times: int = 1


class CutWatches(Action, frozen=True):
    path: str = ""


class EndWatches(Action, frozen=True):
    path: str = ""


class SilenceWatches(Action, frozen=True):
    seconds: float


class ExpireWatches(Action, frozen=True):
    """Open watches are told that their resourceVersion is too old, and end."""

    path: str = ""


class DelayWatches(Action, frozen=True):
    """For a while, watches look for changes only every so often: the watch cache is behind."""

    path: str
    late: float
    seconds: float


class RepeatEvents(Action, frozen=True):
    """What watches send next comes twice, so many times."""

    path: str
    times: int


class LoseBookmarks(Action, frozen=True):
    """No watch gets bookmarks until the faults are over."""


class StopEtcd(Action, frozen=True):
    """The API server runs and fails every request; watches stay open, and nothing comes."""

    seconds: float
    status: int = 500


class Compact(Action, frozen=True):
    """All earlier resourceVersions are too old, and all watches end."""


class StopServer(Action, frozen=True):
    seconds: float


# Replicas and the network between them and the API server

LEADER = "leader"
"""In place of the name of a replica: whichever leads at that moment."""


class KillReplica(Action, frozen=True):
    """``callbacks`` is when: at so many steps of the event loop from now."""

    replica: str
    seconds: float
    """Until it is started again."""
    callbacks: int = 0
    silent: bool = False
    """Its connections stay open, and nothing comes any more."""


class StopReplica(Action, frozen=True):
    replica: str
    seconds: float


class PauseReplica(Action, frozen=True):
    replica: str
    seconds: float


class StallThread(Action, frozen=True):
    """One of its two threads does not run: a slow cycle, a long collection, a busy machine."""

    replica: str
    thread: Literal["scheduling", "heartbeat"]
    seconds: float


class StepClock(Action, frozen=True):
    replica: str
    seconds: float


class DriftClock(Action, frozen=True):
    replica: str
    rate: float


class Partition(Action, frozen=True):
    replica: str
    seconds: float
    one_way: bool = False


class CutConnection(Action, frozen=True):
    replica: str
    after: int
    direction: Literal["to", "from", "both"] = "both"
    times: int = 1


class SlowNetwork(Action, frozen=True):
    replica: str
    delay: float
    seconds: float


class ThrottleNetwork(Action, frozen=True):
    replica: str
    bytes_per_second: int
    seconds: float


class RefuseConnections(Action, frozen=True):
    replica: str
    seconds: float


class HalfOpen(Action, frozen=True):
    replica: str


UserAction = (
    AddPod
    | DeletePod
    | RecreatePod
    | RelabelPod
    | ResizePod
    | UngatePod
    | AddGroup
    | DeleteGroup
    | AddClaim
    | DeleteClaim
    | AddVolume
    | DeleteNamespace
    | AddNamespace
)
GroundAction = (
    AddNode
    | RemoveNode
    | ResizeNode
    | CordonNode
    | TaintNode
    | FlapNode
    | PauseKubelets
    | FailPod
    | PauseTopologies
    | DropTopology
    | ContradictTopology
    | DropSlice
    | ShrinkSlice
    | ContradictSlice
    | PauseForeign
)
FaultAction = (
    SetWebhook
    | SetPlugin
    | SetSolver
    | FailRequests
    | DropAnswers
    | DelayRequests
    | CutWatches
    | EndWatches
    | SilenceWatches
    | ExpireWatches
    | DelayWatches
    | RepeatEvents
    | LoseBookmarks
    | StopEtcd
    | Compact
    | StopServer
    | KillReplica
    | StopReplica
    | PauseReplica
    | StallThread
    | StepClock
    | DriftClock
    | Partition
    | CutConnection
    | SlowNetwork
    | ThrottleNetwork
    | RefuseConnections
    | HalfOpen
)
AnyAction = UserAction | GroundAction | FaultAction


class At(_Part, frozen=True):
    """An action and when: virtual seconds from the start."""

    seconds: float
    action: AnyAction


class Plan(_Part, frozen=True):
    """A whole history. Faults are over at ``seconds``; then ``quiet`` passes, and all is judged."""

    seed: int
    seconds: float
    quiet: float
    replicas: tuple[str, ...] = ("a", "b")
    webhook: bool = False
    """The replicas ask a webhook about each pod."""
    plugin: bool = False
    """The replicas have a plugin of their own, which may raise."""
    batch: bool = False
    """The replicas place backlogs at once."""
    nodes: tuple[NodePlan, ...] = ()
    actions: tuple[At, ...] = ()


def encode(plan: Plan) -> bytes:
    """JSON to keep and to read: one node or action a line."""
    head = msgspec.to_builtins(msgspec.structs.replace(plan, nodes=(), actions=()))
    lines = [f'"{name}":{_json(value)}' for name, value in head.items()]
    for name, parts in (("nodes", plan.nodes), ("actions", plan.actions)):
        if parts:
            lines.append(f'"{name}":[\n' + ",\n".join(map(_json, parts)) + "\n]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def decode(text: bytes) -> Plan:
    """The plan that ``encode`` wrote; raises if a field is wrong, and names it."""
    return msgspec.json.decode(text, type=Plan)


def load(path: Path) -> Plan:
    """A plan from a file."""
    return decode(path.read_bytes())
