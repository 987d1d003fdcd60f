"""The contract between the scheduler and its plugins: one protocol per extension point.

A plugin is any object with a ``name`` that implements some of these protocols. The scheduling cycle
is synchronous and runs on the event loop: up to and including ``permit`` nothing may block or wait.
The binding points (``pre_bind``, ``bind``) are coroutines, one binding task per pod.

In the order in which a pod meets them::

    pre_enqueue   may the pod be tried at all?                      before every move to the queue
    queue sort    who is next?                                      the same for all profiles
    pre_filter    look at the pod, prepare; reject it as a whole    once per attempt
    filter        which nodes will do?                              once per attempt, all nodes
    after_filter  look at the nodes that will do; end the attempt   once per attempt, even if none
    post_filter   no node will do: what can be done?                only then
    pre_score     prepare for scoring; skip it                      once per attempt
    score         how good is each node?                            once per attempt, feasible nodes
    normalize     bring raw scores into 0..100                      once per attempt, feasible nodes
    post_score    veto the node: the next best is tried             the best node
    reserve       book what only this plugin accounts for           the chosen node
    permit        go, no, or wait                                   the chosen node
    pre_bind      make the node ready (volumes, devices)            binding task
    bind          tell the API server                               binding task, first that acts
    post_bind     it is done                                        binding task
    unreserve     undo, in reverse order                            after any later failure

At each point plugins are called one after the other, in the configured order, on the thread of the
event loop: a plugin needs no locks. Verdicts are values (``Status``); an exception is a bug, costs
the pod this one attempt (condition reason ``SchedulerError``) and is counted under the plugin's
name. At ``pre_score``, ``score`` and ``normalize`` it costs nodes the plugin's score instead.

A plugin may also have pods go this way together or not at all (``GroupPlugin`` in ``groups.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from scheduler.equivalence.reads import Key, Reads
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.handle import Handle as Handle  # noqa: PLC0414  plugins need it too
from scheduler.framework.handle import PluginFactory as PluginFactory  # noqa: PLC0414  as above
from scheduler.model.affinity import SpreadConstraint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
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

        Taken when the pod is queued, and again when it comes back. A plugin may have a method
        ``less(a, b) -> bool`` instead, which is asked some twenty times per pod in a long queue; it
        holds two pods equal when neither is less.

        Keys that cannot be compared, and a plugin that raises, leave the order to priority and
        time. A plugin whose keys are always comparable may say so by an attribute
        ``comparable = True``: they are then compared as they are, which is faster.
        """
        ...


@runtime_checkable
class RankingPlugin(Protocol):
    """Orders the active queue by rank, then by time, for those who place many pods at once.

    Only for plugins whose times are not those of the queued pod. For others the rank is the key
    that they give when all pods have come at the same time.
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

        Arrays of length one cost more than they hold, so a plugin may also have a method
        ``filter_one(cycle, row) -> int``, which must answer the same for a single row.

        A plugin that does not say what it reads (see ``EquivalentFilter``) may have a method
        ``concerns(pod) -> bool``, by namespace, labels and spec alone: pods that are none of its
        concern are then kept in classes as if it were not there.

        A plugin whose verdict on a row depends on nothing but the node and the pods on that row may
        say so by an attribute ``row_by_row = True``. If all say so, many rows are changed and
        judged together, otherwise one at a time. One that reads nothing of those pods but
        ``columns.requested`` and ``columns.pod_count`` may say so by ``by_sums = True``; if those
        columns are all that pods change for the filters, preemption books nothing to ask them.
        """
        ...


@runtime_checkable
class QuickFilter(Protocol):
    """A filter that can tell in little time which nodes it would accept.

    Asked about pods that the plugin has rejected and that an event woke. If all nodes would be
    rejected again, by the quick filters that rejected the pod before, the attempt is spared.
    """

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """Where ``filter`` would accept the pod as things are; never False where it would."""
        ...


@runtime_checkable
class EquivalentFilter(Protocol):
    """Says what its filter depends on, so that verdicts are shared by pods and kept.

    A plugin that does not is asked anew for every pod: slower, never wrong. The promise covers
    ``pre_filter`` and ``filter``: for pods with equal keys they answer alike, until an aspect in
    ``filter_reads`` changes. ``pre_filter`` is still called for each pod (its slots may be needed
    later); when it says Skip, ``filter`` may be asked all the same, and must let all rows pass.
    """

    @property
    def filter_reads(self) -> Reads:
        """The aspects of the cluster that verdicts depend on."""
        ...

    def filter_key(self, pod: PodInfo) -> Key:
        """What is read of the pod, as a hashable value; None if there is nothing to check.

        May look at namespace, labels, controller and spec, and at the cluster as far as
        ``filter_reads.keys`` says; never at the name, except for ephemeral volumes.
        """
        ...


@runtime_checkable
class AfterFilterPlugin(Protocol):
    """Sees which nodes will do, whether there are any or not."""

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        """Look at the feasible rows, in no order; perhaps none. Must not change them.

        Called after the filters of every attempt in which nodes were judged; a node that was
        promised to the pod is judged alone first, and is then the only row. Success goes on: to
        scoring, or with no rows to ``post_filter``. Unschedulable, UnschedulableAndUnresolvable and
        Pending reject the pod as a whole, Error is a fault: both end the attempt, without
        ``post_filter``. To reject single nodes is for ``filter``.

        Verdicts on whole classes are not kept in a profile with such a plugin, unless it has an
        attribute ``answers_for_class = True`` (see ``PostFilterPlugin``).
        """
        ...


@runtime_checkable
class WhatIfPlugin(Protocol):
    """Keeps up with trials what its ``pre_filter`` computed from the pods of the cluster.

    While it is found out what would be if pods came (those that were promised a node) or went
    (victims of preemption), filters are asked again with these pods booked in the state. A plugin
    that only reads the state sees that. One that has put sums of its own into the cycle is told
    here, once for each pod, in the order of the changes; a trial ends with all of them undone. For
    a pod whose ``pre_filter`` said Skip it is told nothing. An exception ends the attempt.
    """

    def add_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        """A pod is now on a node."""
        ...

    def remove_pod(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        """A pod is no longer on a node."""
        ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """What came of the attempt to make room."""

    status: Status
    nominated_node: str | None = None
    """A node that will have room once victims are gone; None leaves the nomination as it is."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Tries to make a pod fit that fits nowhere."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Called in order, as long as the answer is Unschedulable: such reasons are joined.

        Any other answer is the last word, and its reasons are the pod's message.

        A plugin whose answer is the same for all pods of a class that have no promise may say so by
        an attribute ``answers_for_class = True``: it is not asked again while nothing changes.
        """
        ...


class RoomPreview(msgspec.Struct, frozen=True):
    """What a post-filter plugin would do for a pod that fits nowhere."""

    message: str = ""
    """Why it would do nothing; empty if it would make room."""
    node: str = ""
    """The node on which it would make room."""
    victims: Sequence[PodInfo] = ()
    """The pods that it would evict there."""
    violations: int = 0
    """How many of them no disruption budget allows to go."""
    final: bool = False
    """Whether plugins that come later are not asked, though this one makes no room."""


@runtime_checkable
class RoomPreviewer(Protocol):
    """A post-filter plugin that can say what it would do, for explanations."""

    def preview(self, cycle: Cycle, diagnosis: Diagnosis) -> RoomPreview:
        """What ``post_filter`` would do now. Changes nothing.

        The pod need not be in flight. Gives the event loop back where ``post_filter`` does.
        """
        ...


@runtime_checkable
class Bookkeeper(Protocol):
    """A filter that keeps books of its own of the pods on nodes, from which trials take nobody."""

    @property
    def keeps_books(self) -> bool:
        """Whether its verdict on a pod's own node may count the pod itself."""
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

        As for filters, there may be a method ``score_one(cycle, row) -> int``. A fault (an
        exception, a wrong number of scores, a score that is no number) gives the rows concerned
        zero from this plugin; it is counted and named, and the attempt goes on.
        """
        ...

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Raw scores brought into 0..100, before the plugin's weight is applied.

        What is not in that range counts as zero, and as a fault.
        """
        ...


@runtime_checkable
class EquivalentScore(Protocol):
    """Says what its scores depend on, as ``EquivalentFilter`` does for verdicts.

    Kept raw scores are asked for without ``pre_score``, and must not depend on which other rows are
    feasible; ``normalize`` may, but rows that all have the same score must all get the same,
    however many they are. A plugin whose raw scores are final says so by ``absolute = True``,
    and ``normalize`` is then left out. Zeros of a fault are kept as well.
    """

    @property
    def score_reads(self) -> Reads:
        """The aspects of the cluster that scores depend on."""
        ...

    def score_key(self, pod: PodInfo) -> Key:
        """What is read of the pod; None if there is nothing to score."""
        ...


@runtime_checkable
class SpreadingPlugin(Protocol):
    """Keeps pods evenly spread, by filter or score, and says how, for those who place many at once.

    Placements are checked by its filter all the same.
    """

    def spreads(self, pod: PodInfo) -> Sequence[SpreadConstraint]:
        """The constraints that the pod is held to, hard and soft."""
        ...


@runtime_checkable
class PostScorePlugin(Protocol):
    """Has one more look at the best node, before anything is taken."""

    def post_score(self, cycle: Cycle, node: str) -> Status:
        """Take the node, or veto it: the next best by the same totals is then asked about.

        Success lets it pass to the next plugin. Unschedulable, UnschedulableAndUnresolvable and
        Pending veto the node for this attempt; a veto is never kept. When all feasible nodes are
        vetoed, the pod is unschedulable for the plugins' reasons. Error is a fault and ends the
        attempt. Must not change anything: it is asked by ``explain`` too. Usually called once per
        attempt, at worst once for each feasible node.

        What is said above of ``answers_for_class`` holds here as well.
        """
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Keeps books of its own about chosen nodes."""

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Book the pod on the node; anything but Success undoes all bookings of this attempt."""
        ...

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Undo what this plugin did for the pod at ``reserve`` and after it.

        Called in reverse order after any refusal or fault from ``reserve`` to ``bind``, a denied
        permission and a timeout included. Must cope with a ``reserve`` that was never called or
        failed. A plugin that has ``permit`` or ``pre_bind`` and no ``reserve`` may have it too.
        """
        ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Has the last word before binding."""

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Success, a rejection, or Wait with the longest time in seconds that it is worth.

        All plugins are asked, until one rejects: that undoes the reservation at once. A pod that
        somebody has wait keeps its node until each of them allows it (``Handle.waiting_pods``),
        one rejects it, or the time of one is up.
        """
        ...


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepares the node, perhaps slowly."""

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """All must agree before the pod is bound; in order, in the pod's binding task.

        Skip is as good as Success; anything else sends the pod back to the queue.
        """
        ...


@runtime_checkable
class PreBindPreFlight(Protocol):
    """A plugin that prepares nodes, and can tell beforehand whether it will."""

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """Success if ``pre_bind`` will have work, which takes time; Skip if not. Light.

        The pod's status then says where it will go, until it gets there.
        """
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Binds."""

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """Bind the pod, or Skip to leave it to the next; one must act.

        The first that does not skip is the last: its refusal, or that all skip, rejects the pod.
        """
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Is told."""

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """The pod is bound; clean up. All are told; nothing that happens here changes anything."""
        ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Knows which events may cure its rejections."""

    def hints(self) -> Sequence[HintRegistration]:
        """The events that may cure a pod this plugin rejected; a plugin without is woken by all."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Looks objects up that are neither pods nor nodes."""

    @property
    def observes(self) -> Sequence[str]:
        """The kinds it finds in ``state.objects``; kinds that nobody observes are not watched."""
        ...
