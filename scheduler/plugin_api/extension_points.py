"""The contract between the scheduler and its plugins: one protocol per extension point.

A plugin is any object with a ``name`` that implements some of these protocols. Methods that are
not of an extension point, such as ``filter_one``, are optional: each has a protocol of its own.
Guarantees that are no methods are traits (``traits.py``). What a plugin implements and declares is
looked up once, when it is registered, and a name that looks like a misspelt one is refused then.

The scheduling cycle is synchronous and runs on the event loop: up to and including ``permit``
nothing may block or wait. The binding points (``pre_bind``, ``bind``) are coroutines, in one
binding task per pod.

In the order of a pod's scheduling::

    pre_enqueue   may the pod enter the active queue?               before every move to it
    queue sort    which pod is next?                                the same for all profiles
    pre_filter    look at the pod, prepare; reject it as a whole    once per attempt
    filter        which nodes fit?                                  once per attempt, all nodes
    after_filter  look at the nodes that fit; end the attempt       once per attempt, even if none
    post_filter   make the pod fit, such as by preemption           if no node fits
    pre_score     prepare for scoring; skip it                      once per attempt
    score         how good is each node?                            once per attempt, feasible nodes
    normalize     bring raw scores into 0..100                      once per attempt, feasible nodes
    post_score    veto the node: the next best is tried             the best node
    reserve       count the pod in the plugin's own state           the chosen node
    permit        allow, reject, or wait                            the chosen node
    pre_bind      make the node ready (volumes, devices)            binding task
    bind          bind the pod at the API server                    binding task, first that acts
    post_bind     clean up                                          binding task
    unreserve     undo, in reverse order                            after any later failure

At each point plugins are called one after the other, in the configured order, on the thread of the
event loop: a plugin needs no locks. Verdicts are values (``Status``); an exception is a bug, costs
the pod this one attempt (condition reason ``SchedulerError``) and is counted under the plugin's
name. At ``pre_score``, ``score`` and ``normalize`` it costs nodes the plugin's score instead.

A plugin may also have pods placed together or not at all (``GroupPlugin`` in ``groups.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.affinity import PodSet, SpreadConstraint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.handle import Victims
from scheduler.plugin_api.node_view import NodeView
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.columns import Codes, Mask, Rows, Scores

MAX_SCORE = 100


class Plugin(Protocol):
    """Everything a plugin must have: the name by which configuration and verdicts call it."""

    @property
    def name(self) -> str:
        """The name, equal to its key in the registry."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Keeps a pod out of the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let the pod be tried, or hold it until an event this plugin hints at.

        Called on every move towards the active queue: must be light. Anything but Success gates
        the pod, and the first plugin that does so is the one whose hints may let it go.
        """
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Orders the active queue. Of several, the first that does not hold two pods equal decides.

    All profiles share one queue, so they must name the same plugins in the same order.
    """

    def sort_key(self, queued: QueuedPod) -> Any:
        """A key that sorts the next pod first; comparable with the keys of all other pods.

        Called when the pod is queued, and again each time it returns to the queue. A plugin may
        implement ``LessPlugin`` instead.

        Keys that cannot be compared, and a plugin that raises, leave the order to priority and
        time. Keys of a plugin with the trait ``comparable`` are compared directly, which is faster.
        """
        ...


@runtime_checkable
class LessPlugin(Protocol):
    """Orders the active queue by comparing two pods, in place of ``sort_key``."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Whether a goes before b; two pods are equal when neither does.

        Called about twenty times per pod in a long queue.
        """
        ...


@runtime_checkable
class RankingPlugin(Protocol):
    """Orders the active queue by rank, then by time; batches place pods of one rank together.

    Only for plugins whose times are not those of the queued pod. For others the rank is the key
    that they give when all pods were queued at the same time.
    """

    def rank(self, queued: QueuedPod) -> Any:
        """What counts before time does: pods of one rank may be placed in any order."""
        ...


class PreFilterResult(msgspec.Struct, frozen=True):
    """The verdict on a pod before nodes are looked at, and the only nodes worth looking at."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    """None: all nodes. The sets of several plugins are intersected."""


@runtime_checkable
class PreFilterPlugin(Protocol):
    """Looks at the pod once, before nodes."""

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Prepare for ``filter``, narrow the nodes, or reject the pod.

        Skip leaves out this plugin's ``filter``. Unschedulable lets the other plugins go on (their
        preparations serve preemption), UnschedulableAndUnresolvable and Error end the attempt.
        """
        ...


@runtime_checkable
class FilterPlugin(Protocol):
    """Judges nodes."""

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """A code per row: 0 if the pod fits there, else the code of a ``Status`` of the state.

        Gets only the rows that passed the filters before it, all of them at once. The cost to aim
        at is a few array operations. Must not change anything. Reads the state as it is now: it is
        called again in the same attempt, with pods added or removed to see what would be.

        A plugin whose verdict on a row depends on nothing but the node and the pods on that row has
        the trait ``row_by_row``. If all filters have it, many rows are changed and judged together
        in a trial, otherwise one at a time. One that reads nothing of those pods but
        ``columns.requested`` and ``columns.pod_count`` has the trait ``by_sums``: preemption then
        books nothing to call it.
        """
        ...


@runtime_checkable
class NodeFilterPlugin(Protocol):
    """Judges one node at a time, in place of ``filter``: simpler, slower."""

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        """Success, or a rejection of the node."""
        ...


@runtime_checkable
class OneRowFilter(Protocol):
    """A filter with a shorter way for a single row, for which arrays cost more than the answer.

    Kept verdicts are renewed by it when one node changes.
    """

    def filter_one(self, cycle: Cycle, row: int) -> int:
        """The code that ``filter`` gives to this row."""
        ...


@runtime_checkable
class InterestedPlugin(Protocol):
    """Says which pods it judges. For plugins that do not declare what they read.

    Pods that do not concern it are kept in classes as if the plugin did not exist. Plugins with the
    trait ``remote`` must implement it. A plugin whose keys are made for each pod (``Reads.own``)
    may: its keys are not asked for where one pod of many equal ones does not concern it.
    """

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the plugin judges such pods: by namespace, labels and spec alone."""
        ...


@runtime_checkable
class QuickFilter(Protocol):
    """A filter that can say at little cost which nodes it would accept.

    Called for pods that the plugin has rejected and that an event activates. If the quick filters
    that rejected the pod before reject all nodes again, the attempt is skipped.
    """

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """Where ``filter`` would accept the pod now; never False where it would."""
        ...


@runtime_checkable
class EquivalentFilter(Protocol):
    """Declares what its filter depends on, so that verdicts are shared by pods and kept.

    A plugin that does not is called anew for every pod: slower, never wrong. The guarantee covers
    ``pre_filter`` and ``filter``: for pods with equal keys they answer alike, until an aspect in
    ``filter_reads`` changes. ``pre_filter`` is still called for each pod (its slots may be needed
    later); when it says Skip, ``filter`` may still be called, and must let all rows pass.
    """

    @property
    def filter_reads(self) -> Reads | None:
        """The aspects of the cluster that verdicts depend on; None: they are not known."""
        ...

    def filter_key(self, pod: PodInfo) -> Key:
        """What is read of the pod, as a hashable value; None if there is nothing to check.

        May look at namespace, labels, controller and spec, and at the cluster as far as
        ``filter_reads.keys`` says; never at the name, except for ephemeral volumes.
        """
        ...


@runtime_checkable
class AfterFilterPlugin(Protocol):
    """Called with the nodes that fit, if any."""

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        """Look at the feasible rows, in no order; perhaps none. Must not change them.

        Called after the filters of every attempt in which nodes were judged; a node that the pod is
        nominated to is judged alone first, and is then the only row. Success continues: to
        scoring, or with no rows to ``post_filter``. Unschedulable, UnschedulableAndUnresolvable and
        Pending reject the pod as a whole, Error is a fault: both end the attempt, without
        ``post_filter``. To reject single nodes is for ``filter``.

        Verdicts on whole classes are not kept in a profile with such a plugin, unless it has the
        trait ``answers_for_class``.
        """
        ...


class CountedPods(NamedTuple):
    """A question to the index of pods: how many of which pods are on each row."""

    sets: tuple[PodSet, ...]
    living_only: bool = False


@runtime_checkable
class CountingPlugin(Protocol):
    """Tells before an attempt which pods it will count, since a first count may take long."""

    def counted(self, pod: PodInfo) -> Iterable[CountedPods]:
        """The pods that are counted for a pod."""
        ...


@runtime_checkable
class LookAheadPlugin(Protocol):
    """Does before an attempt what may take long, and keeps it for ``filter``."""

    def look_ahead(self, pod: PodInfo) -> None:
        """Prepare for an attempt at a pod. The event loop may run at checkpoints meanwhile.

        Called before every attempt, but for pods for which the plugin's key is None: light if there
        is nothing new. What is kept may be outdated when the attempt begins, so it is no more than
        a help.
        """
        ...


@runtime_checkable
class WhatIfPlugin(Protocol):
    """Updates in a trial what its ``pre_filter`` computed from the pods of the cluster.

    A trial adds pods to the state (nominated pods) or removes them (victims of preemption), runs
    filters again, and undoes the changes. A plugin that only reads the state needs nothing else.
    For one that has put sums of its own into the cycle these methods are called, once for each pod,
    in the order of the changes. They are not called for a pod whose ``pre_filter`` said Skip. An
    exception ends the attempt.
    """

    def add_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        """A pod is now on a node."""
        ...

    def remove_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        """A pod is no longer on a node."""
        ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """The outcome of PostFilter."""

    status: Status
    nominated_node: str | None = None
    """A node where the pod fits once victims are gone; None leaves the nomination as it is."""
    acted: bool = False
    """Something was begun for this pod, and may fail: the answer counts for it and now only."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Tries to make an unschedulable pod fit, as preemption does."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Called in order, as long as the answer is Unschedulable: such reasons are joined.

        Any other answer ends the point, and its reasons are the pod's message.

        A plugin whose answer is the same for all pods of a class without nomination has the trait
        ``answers_for_class``: it is not called again while nothing changes, unless it acted.
        """
        ...


@runtime_checkable
class VictimTrimmer(Protocol):
    """Limits the victims of preemption, as extenders with ``preemptVerb`` do."""

    def trim(self, cycle: Cycle, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The nodes and victims, by node, that preemption may use."""
        ...


class PostFilterPreview(msgspec.Struct, frozen=True):
    """What a post-filter plugin would do for a pod that fits nowhere."""

    message: str = ""
    """Why it would do nothing; empty if it would make the pod fit."""
    node: str = ""
    """The node on which the pod would fit."""
    victims: Sequence[PodInfo] = ()
    """The pods that it would evict there."""
    violations: int = 0
    """How many of these evictions violate a disruption budget."""
    final: bool = False
    """Whether later plugins are not called, though this one does not make the pod fit."""


@runtime_checkable
class PostFilterPreviewPlugin(Protocol):
    """A post-filter plugin that can say what it would do, for explanations."""

    def preview(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterPreview:
        """What ``post_filter`` would do now. Changes nothing.

        The pod need not be in flight. Yields to the event loop where ``post_filter`` does.
        """
        ...


@runtime_checkable
class PreScorePlugin(Protocol):
    """Prepares scoring."""

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Prepare for ``score`` on these feasible rows; Skip leaves out this plugin's ``score``.

        Anything else but Success is a fault, which leaves it out too: scoring never ends an
        attempt.
        """
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Rates feasible nodes. Its weight times the normalised score joins a node's total."""

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """A raw score per row, higher is better.

        A fault (an exception, a wrong number of scores, a score that is no number) gives the rows
        concerned zero from this plugin; it is counted and named, and the attempt continues.
        """
        ...

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Raw scores brought into 0..100, before the plugin's weight is applied.

        What is not in that range counts as zero, and as a fault.
        """
        ...


@runtime_checkable
class NodeScorePlugin(Protocol):
    """Rates one node at a time, in place of ``score``: simpler, slower.

    Without ``normalize`` the scores must be in 0..100.
    """

    def score_node(self, cycle: Cycle, node: NodeView) -> int:
        """The score of a node, higher is better."""
        ...


@runtime_checkable
class OneRowScore(Protocol):
    """A score with a shorter way for a single row, as ``OneRowFilter``."""

    def score_one(self, cycle: Cycle, row: int) -> int:
        """The raw score that ``score`` gives to this row."""
        ...


@runtime_checkable
class LevelScore(Protocol):
    """A score that is not kept, and may find that it rates all nodes alike.

    ``normalize`` must then give zero to all. Placing a pod leaves the plugin out; explanations do
    not.
    """

    def is_level(self, cycle: Cycle) -> bool:
        """Whether all nodes get one score, feasible or not; called after ``pre_score``."""
        ...


@runtime_checkable
class EquivalentScore(Protocol):
    """Declares what its scores depend on, as ``EquivalentFilter`` does for verdicts.

    Kept raw scores are computed without ``pre_score``, and must not depend on which other rows are
    feasible; ``normalize`` may, but rows that all have the same score must all get the same,
    however many they are. A plugin whose raw scores are final has the trait ``absolute``, and
    ``normalize`` is then left out. Zeros of a fault are kept as well.
    """

    @property
    def score_reads(self) -> Reads | None:
        """The aspects of the cluster that scores depend on; None: they are not known."""
        ...

    def score_key(self, pod: PodInfo) -> Key:
        """What is read of the pod; None if there is nothing to score."""
        ...


@runtime_checkable
class SpreadingPlugin(Protocol):
    """Keeps pods evenly spread, by filter or score, and declares how, for batches.

    The plugin's filter still checks every placement of a batch.
    """

    def spreads(self, pod: PodInfo) -> Sequence[SpreadConstraint]:
        """The constraints that the pod is held to, hard and soft."""
        ...


@runtime_checkable
class PostScorePlugin(Protocol):
    """Checks the best node, before the pod is assumed there."""

    def post_score(self, cycle: Cycle, node: str) -> Status:
        """Accept the node, or veto it: the next best by the same totals is then checked.

        Success lets it pass to the next plugin. Unschedulable, UnschedulableAndUnresolvable and
        Pending veto the node for this attempt; a veto is never kept. When all feasible nodes are
        vetoed, the pod is unschedulable for the plugins' reasons. Error is a fault and ends the
        attempt. Must not change anything: ``explain`` calls it too. Usually called once per
        attempt, at worst once for each feasible node.

        The trait ``answers_for_class`` counts here as well.
        """
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Keeps state of its own about chosen nodes."""

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Reserve for the pod on the node; anything but Success unreserves all of this attempt."""
        ...

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo what this plugin did for the pod at ``reserve`` and after it.

        Called in reverse order after any refusal or fault from ``reserve`` to ``bind``, a denied
        permission and a timeout included, and when a binding that was answered turns out to have
        had no effect. Not for a pod that is deleted after its binding was answered. Must tolerate
        a ``reserve`` that was never called or failed.
        """
        ...


@runtime_checkable
class UnreservePlugin(Protocol):
    """A plugin that undoes its work; it may have ``permit`` or ``pre_bind`` without ``reserve``."""

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo what this plugin did for the pod; see ``ReservePlugin``."""
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Allows or rejects a pod before binding, or has it wait."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Success, a rejection, or Wait with a timeout in seconds.

        All plugins are called, until one rejects: that reverts the reservation at once. A waiting
        pod keeps its node until each plugin that returned Wait allows it
        (``Handle.permits.waiting_pods``), one rejects it, or the timeout of one ends.
        """
        ...


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepares the node, which may take time."""

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """All must succeed before the pod is bound; in order, in the pod's binding task.

        Skip is as good as Success; anything else sends the pod back to the queue.
        """
        ...


@runtime_checkable
class PreBindPreFlight(Protocol):
    """A PreBind plugin that reports beforehand whether it has work."""

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """Success if ``pre_bind`` will have work, which takes time; Skip if not. Light.

        With Success, the pod's status has ``nominatedNodeName`` until the pod is bound. After Skip
        ``pre_bind`` is not called, as in kube-scheduler.
        """
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Binds."""

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """Bind the pod, or Skip to leave it to the next plugin; one must act.

        No plugin after the first that does not skip is called. Its refusal rejects the pod, and so
        does it if all skip.
        """
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Called after a successful bind; informational."""

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Clean up. Every plugin is called, whatever the others do."""
        ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Registers the events that may make a pod that it rejected schedulable."""

    def hints(self) -> Sequence[HintRegistration]:
        """The events and hints; pods that a plugin without hints rejected are woken by all."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Looks objects up that are neither pods nor nodes."""

    @property
    def observes(self) -> Sequence[str]:
        """The kinds it finds in ``state.objects``; other kinds are not watched."""
        ...


@runtime_checkable
class LeaderAwarePlugin(Protocol):
    """Starts its work when this replica becomes the leader and schedules."""

    def begin(self) -> None:
        """This replica schedules from now on."""
        ...


@runtime_checkable
class RemoteReserve(Protocol):
    """Reserves and permits by calls out of process, so at the start of the binding task.

    For plugins with the trait ``remote``.
    """

    async def reserve_remotely(self, cycle: Cycle, node: str) -> Status:
        """As ``reserve``; ``unreserve`` is called after any failure, as for all plugins."""
        ...

    async def permit_remotely(self, cycle: Cycle, node: str) -> Status:
        """As ``permit``; returns when the wait ends."""
        ...


class Point(msgspec.Struct, frozen=True):
    """An extension point: its key in configuration, its method, its name in metrics."""

    key: str
    method: str
    label: str
    protocol: type
    returns: type | None = None
    """What the method must return; None where that is checked elsewhere, or is nothing."""
    awaited: bool = False
    """Whether the method is a coroutine."""


POINTS: Mapping[str, Point] = {
    point.key: point
    for point in (
        Point("preEnqueue", "pre_enqueue", "PreEnqueue", PreEnqueuePlugin, Status),
        Point("queueSort", "sort_key", "QueueSort", QueueSortPlugin),
        Point("preFilter", "pre_filter", "PreFilter", PreFilterPlugin, PreFilterResult),
        Point("filter", "filter", "Filter", FilterPlugin),
        Point("afterFilter", "after_filter", "AfterFilter", AfterFilterPlugin, Status),
        Point("postFilter", "post_filter", "PostFilter", PostFilterPlugin, PostFilterResult),
        Point("preScore", "pre_score", "PreScore", PreScorePlugin, Status),
        Point("score", "score", "Score", ScorePlugin),
        Point("postScore", "post_score", "PostScore", PostScorePlugin, Status),
        Point("reserve", "reserve", "Reserve", ReservePlugin, Status),
        Point("permit", "permit", "Permit", PermitPlugin, tuple),
        Point("preBind", "pre_bind", "PreBind", PreBindPlugin, Status, True),
        Point("bind", "bind", "Bind", BindPlugin, Status, True),
        Point("postBind", "post_bind", "PostBind", PostBindPlugin),
    )
}
"""All extension points, in the order in which a pod meets them."""
