"""The shapes of what the page shows, for the OpenAPI document. Amounts of CPU are in thousandths.

As in `answers`, a field may be absent only where it has a default here.
"""

from __future__ import annotations

from typing import Any

from scheduler.serve.answers import AnswerStruct, NodeTaint, Replica


class PodCounts(AnswerStruct, frozen=True):
    """Pods on nodes, of whatever scheduler, and pods that wait for us."""

    bound: int
    pending: int


class SampleSeries(AnswerStruct, frozen=True):
    """Columns of samples, the oldest first; at most 900."""

    time: list[float]
    """Seconds since the epoch."""
    bound: list[float]
    """Pods bound per second."""
    attempts: list[float]
    """Attempts per second, whatever their result."""
    p50: list[float | None]
    """Median duration of attempts in milliseconds; null where there were none."""
    p99: list[float | None]
    tiers: dict[str, list[int]]
    """Pods in each tier of the queue."""


class FailingReason(AnswerStruct, frozen=True):
    """A reason that keeps pods waiting."""

    plugin: str
    reason: str
    pods: int
    classes: int
    """How many different kinds of pods these are."""


class OverviewAnswer(AnswerStruct, frozen=True):
    """How the scheduler does."""

    now: float
    version: str
    leader: bool
    """Whether this replica schedules."""
    holder: str
    """The identity of the leader."""
    profiles: list[str]
    nodes: int
    pods: PodCounts
    tiers: dict[str, int]
    interval_seconds: float
    """Between two samples."""
    series: SampleSeries
    failing: list[FailingReason]
    """What most pods wait for; a pod may wait for several reasons."""
    loop_lag_ms: float
    """How late the scheduling loop ran its last timer."""
    replica: Replica


class NodePodShown(AnswerStruct, frozen=True):
    """A pod that holds resources of a node."""

    pod: str
    priority: int
    scheduler: str
    assumed: bool
    """Whether its binding is not yet seen on the watch."""
    deleting: bool
    requests: dict[str, int]


class CellResource(AnswerStruct, frozen=True):
    """One resource of one NUMA cell."""

    capacity: int
    allocatable: int
    reported: int
    """In use according to the NodeResourceTopology of the node."""
    reserved: int
    """In use as the scheduler counts: unconfirmed pods count in each cell that may hold them."""
    reserved_at_least: int
    """In use in any case, whichever cells the unconfirmed pods have."""


class NumaCell(AnswerStruct, frozen=True):
    """One NUMA cell."""

    name: str
    resources: dict[str, CellResource]


class NumaState(AnswerStruct, frozen=True):
    """The NUMA cells of a node."""

    policy: str
    """Of the kubelet's Topology Manager."""
    scope: str
    state: str
    """unconfirmed, confirmed, not-enforced (see numa.md), or published: used as it is."""
    unsettled: list[str]
    """Pods that the node's object does not count yet."""
    released: list[str]
    """Pods that are gone and that it still counts."""
    cells: list[NumaCell]


class NodeDevice(AnswerStruct, frozen=True):
    """A device that a slice of the node lists."""

    driver: str
    pool: str
    device: str
    reported: list[str]
    """Claims whose status has it allocated."""
    reserved: list[str]
    """Claims for which the scheduler counts it, also before the allocation is written."""
    excluded: bool
    """Whether no claim has it and none can, since others have used up its shared counters."""
    taints: list[str]


class NodeAnswer(AnswerStruct, frozen=True):
    """One node in full."""

    name: str
    unschedulable: bool
    taints: list[NodeTaint]
    allocatable: dict[str, int]
    requested: dict[str, int]
    scored: list[int]
    pods: int
    pod_limit: int
    labels: dict[str, str]
    conditions: dict[str, str]
    pods_on_node: list[NodePodShown]
    """At most 500, the greatest priority first."""
    numa: NumaState | None
    devices: list[NodeDevice]
    replica: Replica


class PodAnswer(AnswerStruct, frozen=True):
    """What is kept of a pod."""

    pod: str
    owner: str
    """``Kind/name`` of the object that has its template; empty if none made it."""
    manifest: dict[str, Any]
    """A Pod with the fields that a scheduler reads, without the node that it is on."""
    replica: Replica


class PluginHits(AnswerStruct, frozen=True):
    """How often one plugin's answers were kept."""

    plugin: str
    point: str
    hits: int
    """Answers that were looked up and kept."""
    misses: int
    """Answers that had to be computed."""
    evaluations: int
    """Calls that computed them."""
    needed: int
    """About how many it would have taken without the cache: one for each pod and node."""


class ClassPlugin(AnswerStruct, frozen=True):
    """How the results of one plugin for a class are computed."""

    name: str
    mode: str
    """kept, recomputed (for each pod, from counters) or fresh (it does not say what it reads)."""
    shared_by: int = 0
    """How many classes share the cached results."""
    known: int = 0
    """For how many nodes a result is cached."""


class PodClassShown(AnswerStruct, frozen=True):
    """A class of equal pods."""

    hash: str
    profile: str
    priority: int
    pods: int
    """How many were looked at, each time counted."""
    feasible: int | None
    """Nodes that fit, as far as that is kept."""
    bytes: int
    plugins: dict[str, list[ClassPlugin]]
    """By extension point."""
    silent: dict[str, list[str]]
    """Plugins that have nothing to say about such pods."""


class ClassesAnswer(AnswerStruct, frozen=True):
    """Classes of equal pods and hit rates; at most 200 classes, those of most pods first."""

    enabled: bool
    kept: int
    known: int
    columns: int
    bytes: int
    budget: int
    evictions: int
    hits: int
    misses: int
    plugins: list[PluginHits]
    changes: dict[str, int]
    """How often each aspect of the cluster has changed."""
    classes: list[PodClassShown]
    replica: Replica


class GangShown(AnswerStruct, frozen=True):
    """A gang."""

    name: str
    phase: str
    """As the status of its PodGroup says it; empty if that does not exist."""
    min_member: int | None
    existing: int
    placed: int
    waiting_on_permit: int
    members: dict[str, int]
    """How many are waiting, scheduled, running, succeeded, failed, leaving."""
    message: str
    """Why it is not placed; empty if it is."""


class BatchShown(AnswerStruct, frozen=True):
    """How one priority band of a backlog was placed."""

    priority: int
    pods: int
    model: str
    result: str
    """solved, uncontended, greedy, nowhere or failed; see flow.md."""
    members: int
    classes: int
    nodes: int
    arcs: int
    rounds: int
    placed: int
    placed_one_by_one: int
    pending: int
    refused: int
    pose_seconds: float
    solve_seconds: float
    solver_cpu_seconds: float
    compare_seconds: float
    verify_seconds: float
    take_seconds: float
    seconds_ago: float


class GroupsAnswer(AnswerStruct, frozen=True):
    """Gangs, those first that are not placed, and the last batches, newest first."""

    count: int
    enabled: bool
    """Whether some profile has gangs."""
    groups: list[GangShown]
    batching: bool
    """Whether backlogs are placed at once."""
    batches: list[BatchShown]
    replica: Replica
