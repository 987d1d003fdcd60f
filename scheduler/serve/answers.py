"""The shapes of the answers of the serving API, for its OpenAPI document.

The sources return plain values; a test compares what a running scheduler answers with these shapes.
A field may be absent only where it has a default here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.explaining.pending_pods import PendingGroup
from scheduler.explaining.pod_progress import PodProgress
from scheduler.observe.decisions import Decision
from scheduler.observe.verdict_history import Verdict
from scheduler.queueing.view import QueueEntry


class AnswerStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the shapes: camelCase on the wire."""


class Replica(AnswerStruct, frozen=True):
    """The replica and the leader: only the leader has a queue that moves, and decisions."""

    identity: str = ""
    leading: bool = True
    """Whether this replica schedules."""
    leader: str = ""
    """The identity of the leader as last seen from here; empty if there is none."""


class QueueAnswer(AnswerStruct, frozen=True):
    """Pending pods: how many are in each tier, and the first of them or of their groups."""

    counts: dict[str, int]
    pods: list[QueueEntry]
    replica: Replica
    groups: list[PendingGroup] = []


class WaitingAnswer(AnswerStruct, frozen=True):
    """Pods that hold a node and wait for permission, the oldest first."""

    count: int
    pods: list[QueueEntry]
    replica: Replica


class NodeTaint(AnswerStruct, frozen=True):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class NodeRow(AnswerStruct, frozen=True):
    """Allocatable and requested resources of a node, and its taints. CPU is in thousandths."""

    name: str
    unschedulable: bool
    taints: list[NodeTaint]
    allocatable: dict[str, int]
    requested: dict[str, int]
    scored: list[int]
    """Requests as scores count them: CPU and memory, with defaults for pods that request none."""
    pods: int
    pod_limit: int


class NodeMapColumns(AnswerStruct, frozen=True):
    """Nodes by name as columns of equal length."""

    name: list[str]
    zone: list[str]
    """topology.kubernetes.io/zone; empty if it has none."""
    pods: list[int]
    pod_limit: list[int]
    capacity: dict[str, list[int]]
    """What is allocatable of the resource that was asked for."""
    requested: dict[str, list[int]]
    unschedulable: list[bool]
    taints: list[int]
    """How many taints each node has."""
    cells: list[list[list[int]] | None] | None
    """Of each NUMA cell of each node: allocatable, reported as taken by the node, reserved by us.
    Null where a node does not publish them, or not for this resource."""
    devices: list[list[int] | None] | None
    """Of each device of each node, if ``device:DRIVER`` was asked for: the sum of 1 (reserved by
    us) and 2 (reported by a claim). Null where a node has none; the first 64 of a node."""


class NodesAnswer(AnswerStruct, frozen=True):
    """Nodes by name: a list, or with view=map columns."""

    count: int
    nodes: list[NodeRow] | NodeMapColumns
    replica: Replica
    resources: list[str] = []
    """With view=map: the resources that some node offers."""


class DecisionsAnswer(AnswerStruct, frozen=True):
    """The latest decisions, newest first."""

    decisions: list[Decision]
    replica: Replica


class NodeRejection(AnswerStruct, frozen=True):
    """Why one plugin rejects a node."""

    plugin: str
    code: str
    """Unschedulable, UnschedulableAndUnresolvable or Error."""
    reasons: list[str]
    """In kube-scheduler's words."""
    facts: list[dict[str, Any]]
    """The numbers behind them; each has type and message."""


class NodeVerdict(AnswerStruct, frozen=True):
    """The first rejection of a node, and all of them; none if it fits."""

    fit: bool
    plugin: str
    """The first that rejects it."""
    code: str
    reasons: list[str]
    all: list[NodeRejection]
    """Every rejection, in the order of the profile."""


class NodeScore(AnswerStruct, frozen=True):
    """The total of a node that fits, and each plugin's weighted part."""

    total: int
    plugins: dict[str, int]


class PreemptionPreview(AnswerStruct, frozen=True):
    """The pods that the pod would evict, and where; or, in the message, why none."""

    node: str | None
    victims: list[str]
    """namespace/name of each."""
    violations: int
    """How many victims are beyond a PodDisruptionBudget."""
    message: str


class ComparedPart(AnswerStruct, frozen=True):
    """One plugin's weighted score of both nodes."""

    plugin: str
    node: int
    runner_up: int
    difference: int


class NodeComparison(AnswerStruct, frozen=True):
    """The node that would be chosen against the next best."""

    node: str
    runner_up: str | None
    ties: int
    """Nodes with the same score as the chosen one."""
    margin: int
    """By how much it leads."""
    parts: list[ComparedPart]
    message: str


class GroupMember(AnswerStruct, frozen=True):
    """The state of a member of a pod group."""

    pod: str
    state: str
    node: str | None


class GroupState(AnswerStruct, frozen=True):
    """The state of a pod group."""

    name: str
    phase: str
    min_member: int | None
    existing: int
    missing: int | None
    placed: int
    waiting: int
    members: list[GroupMember]
    fault: str


class BatchSaid(AnswerStruct, frozen=True):
    """How backlogs are placed."""

    cost_model: str
    min_pending: int
    chose: bool


class FittingReplicas(AnswerStruct, frozen=True):
    """How many of some equal pods fit together."""

    asked: int
    fit: int


class Remedy(AnswerStruct, frozen=True):
    """A change that would let the pod run."""

    summary: str
    """What to do, as a sentence."""
    opens: list[str]
    """The nodes on which the pod then fits."""
    changes: list[dict[str, Any]]
    """Merge patches, deletions and additions, to be applied in order."""
    affects: list[str]
    """The other pods and objects that it affects."""
    replicas: FittingReplicas | None = None
    """With count: how many such pods then fit together; null if that takes too long to say."""


class Replicas(AnswerStruct, frozen=True):
    """How many equal pods fit together."""

    asked: int
    fit: int
    nodes: dict[str, int]
    """How many of them on each node."""
    message: str


class Explanation(AnswerStruct, frozen=True):
    """Why a pod is on its node, or pending."""

    pod: str
    """namespace/name."""
    node: str | None
    """The node on which it would be placed; null if none fits or it is not attempted."""
    would_go_to: str | None
    """For a pod that is not attempted now: the node on which it would be placed otherwise."""
    bound_to: str | None
    """The node that it is on."""
    counts_itself: str | None
    """The plugin that rejects the pod's own node because it counts the pod itself."""
    nominated: str | None
    """The node that preemption has nominated it to."""
    fit: list[str]
    """All nodes that fit."""
    nodes: dict[str, NodeVerdict]
    """The verdict of each node."""
    scores: dict[str, NodeScore]
    """The score of each node that fits."""
    message: str
    """Why no node fits, in kube-scheduler's words."""
    standing: PodProgress
    """The scheduling state of the pod."""
    preemption: PreemptionPreview | None
    """What preemption would do; null if it was not evaluated."""
    comparison: NodeComparison | None
    """Which plugins decided between the best node and the next; null if no node fits."""
    history: list[Verdict]
    """The results of its attempts, the oldest first."""
    batch: BatchSaid | None
    """How backlogs are placed; null: one by one."""
    facts: list[dict[str, Any]]
    """Facts about the whole cluster, the most relevant first; each has type, message and nodes."""
    remedies: list[Remedy]
    """The smallest changes that would let it run, best first."""
    replicas: Replicas | None
    """With count: how many such pods fit together."""
    replica: Replica
    group: GroupState | None = None
    """The state of its pod group."""


class PermitDecided(AnswerStruct, frozen=True):
    """What was decided about a pod that waits for permission."""

    pod: str
    uid: str
    node: str
    decision: str
    plugins: list[str]
    still_waiting_for: list[str]
    replica: Replica


class ServedVersion(AnswerStruct, frozen=True):
    """What runs."""

    version: str


class Failure(AnswerStruct, frozen=True):
    """An error, as a text for people."""

    code: int
    message: str


class ErrorAnswer(AnswerStruct, frozen=True):
    """Every response other than 200."""

    error: Failure
