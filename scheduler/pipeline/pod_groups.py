"""The pass over a pod group: all members are placed at once, or none is.

::

    one member is popped ─► pop_together: all others that wait
                                │
          refused as a whole ◄──┤  (minResources, no such group)
                                ▼
          each in turn: find_node ─► assume_and_reserve ─► permit
                                │
          enough hold nodes ────┼──► bindings.start for all of them together
          all do, some are ─────┤    permit: wait for those, for a while
          not created yet       │
          too few do ───────────┼──► revert all, last first; they wait as one and are woken as one
          one needs an answer ──┴──► revert all; once it is there, all are tried again
          from out of process

The steps are those of a single pod (`scheduler.Scheduler`), and members are really assumed. No
other attempt is made meanwhile, and events wake waiting pods only when the pass is over. So no pod
was judged by what is reverted, no event is sent about it, and a gang that does not fit costs the
cluster nothing but the time of the pass.

A pass over many members takes several slices, between which members and nodes may go and the group
may change. So each member is checked again when it is placed, and all that hold nodes are checked
before the first is bound; a member whose node is gone is tried again. Whether enough hold nodes is
decided by the state of the group at that moment.

PostFilter (preemption) is skipped: victims would be evicted for a gang that may yet not fit. Once
enough members hold nodes, further ones are scheduled like all other pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from scheduler.dra.hints import ANY_DEVICES
from scheduler.dra.names import PLUGIN
from scheduler.framework.faults import PluginFault
from scheduler.model.events import ASSIGNED_POD, Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, unschedulable
from scheduler.model.workloads import pod_group_of
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.pipeline.attempt import Attempt, NodeReservation
from scheduler.pipeline.evaluation import CycleError
from scheduler.pipeline.failure import FailureHandler
from scheduler.pipeline.gang_barrier import GangBarrier
from scheduler.pipeline.placement import Proposals, fit_error
from scheduler.plugin_api.cycle import Diagnosis
from scheduler.plugin_api.groups import IN_PASS, GroupPlugin, PodGroupState
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.slices import checkpoint, slices_ended
from scheduler.webhooks.answers import AnswerNeeded, Question

if TYPE_CHECKING:
    from scheduler.pipeline.scheduler import Scheduler

log = get_logger(__name__)

ROOM = "GangRoom"
"""The rejector of gangs that any room for any member may cure, not just the plugin that rejected
the last one."""
DEVICES = "GangDevices"
"""The same of devices: the member that waits in the queue for all may ask for other ones."""

MAX_ROUNDS = 3
"""How often members are tried whose nodes went away during the pass."""
NODE_GONE = "its node was deleted"


class _Unplaced(msgspec.Struct, frozen=True):
    """Why a member has no node."""

    attempt: Attempt
    message: str
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    fault: bool = False
    question: Question | None = None
    """What has to be asked out of process before a node can be found."""


class _Pass(msgspec.Struct):
    """One pass over one group."""

    plugin: GroupPlugin
    group: str
    first: Attempt
    """At the member that was popped."""
    proposals: Proposals
    began: int
    """The slice in which the pass began: in another one things may have changed."""
    attempts: list[Attempt]
    """At all members that wait, in the order of the queue."""
    reserved: list[NodeReservation] = []
    """Of the members that hold nodes; reverted, the last first, unless all are bound."""
    unplaced: list[_Unplaced] = []
    surplus: list[Attempt] = []
    """Members without a node that the group does not need."""

    @property
    def interrupted(self) -> bool:
        """Whether anything else ran since the pass began."""
        return slices_ended() != self.began

    def revert(self) -> None:
        """Have no member hold a node."""
        while self.reserved:
            self.reserved.pop().revert()
            checkpoint()


class PodGroupPass:
    """Places groups of pods, for all profiles."""

    def __init__(
        self,
        scheduler: Scheduler,
        failures: FailureHandler,
        metrics: Metrics,
    ) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._clock = scheduler.clock
        self._failures = failures
        self._passes = Children(metrics.gang_passes)
        self._durations = metrics.gang_pass_duration
        self._searches = metrics.scheduling_algorithm_duration

    def schedule(self, first: Attempt, along: Sequence[QueuedPod], proposals: Proposals) -> bool:
        """Try the whole group of a pod that was popped; False if the pod is in no group.

        ``along`` are members that were popped already; the others are popped here.
        """
        plugin = first.framework.groups
        if plugin is None:
            return False
        started = self._clock()
        attempts = [first, *map(self._new_attempt, along)]
        current = _Pass(plugin, "", first, proposals, slices_ended(), attempts)
        try:
            group = plugin.group_of(first.queued.info)
            self._leave_former_group(first, group)
            if group is None:
                return False
            current.group = group
            self._scheduler.suspension.resume(first.queued.info.uid)
            if self._waits_for_member(current) or self._backs_off(current):
                return True
            with self._queue.events_deferred():
                current.began = slices_ended()
                current.attempts = self._gather(current, along)
                result = self._place(current)
        except Exception as fault:
            group = current.group
            log.error("Pass over a pod group failed", exc=fault, pod=first.queued.key, group=group)
            current.revert()
            for attempt in current.attempts:
                self._failures.failed(attempt, f"{type(fault).__name__}: {fault}")
            result = "error"
        finally:
            current.revert()  # also when the pass is stopped at a checkpoint
        if result != "asking":
            self._scheduler.suspension.settled(first.queued.info.uid)
        self._passes[result,].inc()
        self._durations.observe(self._clock() - started)
        for each in current.surplus:
            checkpoint()
            self._schedule_alone(each.queued, proposals)
        return True

    def _leave_former_group(self, attempt: Attempt, group: str | None) -> None:
        """Activate those that wait for an answer about a member that is in their group no more."""
        former, attempt.group = attempt.group, None
        if former is not None and former[1] != group:
            self._queue.activate(attempt.companions)

    def _waits_for_member(self, current: _Pass) -> bool:
        """Whether a member of the group waits for an answer; the group is tried when that comes."""
        asks_for, members = _asks_for(current), [each.queued for each in current.attempts]
        joined = [each for each in members if self._scheduler.suspension.joins(each.key, asks_for)]
        if joined:
            message = f"pod group {current.group}: waiting for a response about another member"
            rejectors = (current.plugin.name,)
            cohort = ("group", current.group)
            self._queue.requeue_together(members, rejectors, (), message, cohort, tried=False)
            self._scheduler.suspension.settled(current.first.queued.info.uid)
        return bool(joined)

    def _backs_off(self, current: _Pass) -> bool:
        """Have new members wait for the back-off of their gang, if other pods are ready.

        Otherwise whoever creates pods of a gang that does not fit would make all others wait for a
        pass each time. A pass that was suspended goes on: its answers would be forgotten.
        """
        if self._scheduler.suspension.holds_place(current.first.queued.info.uid):
            return False
        members = [each.queued for each in current.attempts]
        if not self._queue.active or any(queued.attempts > 1 for queued in members):
            return False
        left = self._queue.backoff_left(current.plugin.members(current.group))
        if left <= 0:
            return False
        message = f"pod group {current.group} backs off: its members could not be placed"
        rejectors, cohort = (current.plugin.name,), ("group", current.group)
        self._queue.requeue_together(members, rejectors, (), message, cohort, left, tried=False)
        self._queue.retry([queued.key for queued in members])
        self._scheduler.suspension.settled(current.first.queued.info.uid)
        return True

    def _schedule_alone(self, queued: QueuedPod, proposals: Proposals) -> None:
        """Schedule a member like any other pod: enough others hold nodes."""
        if self._queue.is_in_flight(queued.info.uid):
            self._scheduler.schedule_pod(self._scheduler.new_attempt(queued), proposals)
        else:
            self._queue.done(queued.info.uid)

    def _gather(self, current: _Pass, along: Sequence[QueuedPod]) -> list[Attempt]:
        """Attempts at all members that wait, in the order of the queue."""
        first, profile = current.first, current.first.framework.profile
        told = {**first.companion_answers, first.queued.info.uid: first.answers}
        others = self._queue.pop_together(current.plugin.members(current.group), profile)
        attempts = []
        for queued in (first.queued, *along, *others):
            checkpoint()
            if self._scheduler.skip_pod_schedule(queued):
                self._queue.done(queued.info.uid)
                continue
            attempt = self._new_attempt(queued)
            attempt.answers = told.get(queued.info.uid) or attempt.answers
            attempts.append(attempt)
        return attempts

    def _new_attempt(self, queued: QueuedPod) -> Attempt:
        attempt = self._scheduler.new_attempt(queued)
        attempt.cycle.put(IN_PASS, True)
        return attempt

    def _place(self, current: _Pass) -> str:
        """Place all members that the group needs, or none; returns the outcome, in a word."""
        plugin, group = current.plugin, current.group
        standing = plugin.standing(group)
        if not standing.refusal.ok:
            rejectors = frozenset({standing.refusal.plugin, ROOM})
            self._requeue(current, standing.refusal.message, rejectors)
            return "refused"
        # Members that do not exist yet are not required now: placed ones wait for them at Permit.
        needed = min(standing.minimum, standing.existing) - standing.placed
        asking = self._reserve_all(current, needed)
        if asking is not None and asking.question is not None:
            current.revert()
            self._suspend(current, asking.attempt, asking.question)
            return "asking"
        enough = len(current.reserved) >= needed
        complete = standing.placed + len(current.reserved) >= standing.minimum
        changed = False
        if current.interrupted:
            now = plugin.standing(group)
            complete = now.placed >= now.minimum
            # If too few hold nodes, all of those must still wait at Permit: when the group needed
            # fewer, some may have been released.
            enough = (
                now.refusal.ok
                and now.placed >= min(now.minimum, now.existing)
                and (complete or all(_waits_for_group(plugin, each) for each in current.reserved))
            )
            changed = not now.refusal.ok or _size(now) != _size(standing)
        if not enough:
            result = self._give_up(current, standing)
            if changed:
                self._queue.retry({attempt.queued.key for attempt in current.attempts})
            return result
        self._sort_out_rest(current)
        self._bind(current, needed, release=complete)
        return "placed" if complete else "waiting"

    def _reserve_all(self, current: _Pass, needed: int) -> _Unplaced | None:
        """Reserve nodes as long as enough members may yet get some.

        Returns a member that needs an answer from out of process, if one does. Gives the event loop
        back between members. At the end every reservation is known to hold: nothing else runs after
        that.
        """
        pending = list(current.attempts)
        for rounds in range(MAX_ROUNDS):
            for position, attempt in enumerate(pending):
                if len(current.reserved) + len(pending) - position < needed:
                    break
                checkpoint()
                self._scheduler.prepare(attempt)
                if current.interrupted and not self._wants_node(current, attempt):
                    continue
                found = self._reserve(attempt, current.proposals)
                if isinstance(found, NodeReservation):
                    current.reserved.append(found)
                elif found.question is not None:
                    return found
                else:
                    current.unplaced.append(found)
            if not current.interrupted:
                break
            pending = self._revert_lost(current)
            if not pending:
                break
            if rounds == MAX_ROUNDS - 1:
                lost = [_Unplaced(each, NODE_GONE, frozenset({ROOM})) for each in pending]
                current.unplaced += lost
        return None

    def _reserve(self, attempt: Attempt, proposals: Proposals) -> NodeReservation | _Unplaced:
        """Find and reserve a node for one member; or why it has none."""
        try:
            chosen = self._scheduler.find_node(attempt, proposals)
        except AnswerNeeded as needed:
            return _Unplaced(attempt, "", question=needed.question)
        except (PluginFault, CycleError) as fault:
            return _Unplaced(attempt, str(fault), fault=True)
        except Exception as fault:
            log.error("Scheduling failed unexpectedly", exc=fault, pod=attempt.queued.key)
            return _Unplaced(attempt, f"{type(fault).__name__}: {fault}", fault=True)
        self._searches.observe(self._clock() - attempt.started)
        if isinstance(chosen, Diagnosis):
            plugins, pending = chosen.unschedulable_plugins, chosen.pending_plugins
            message = chosen.message or fit_error(attempt.cycle, chosen)
            return _Unplaced(attempt, message, frozenset(plugins), frozenset(pending))
        reservation = self._scheduler.assume_and_reserve(attempt, chosen)
        if reservation.status.ok:
            self._scheduler.permit(reservation)
        if reservation.holds:
            return reservation
        reservation.revert()
        status = reservation.status
        signed = frozenset({status.plugin})
        if not status.rejected:
            return _Unplaced(attempt, status.message, fault=True)
        if status.code is Code.PENDING:
            return _Unplaced(attempt, status.message, pending=signed)
        return _Unplaced(attempt, status.message, signed)

    def _wants_node(self, current: _Pass, attempt: Attempt) -> bool:
        """Whether a pod is still a member of the group, and has no node."""
        uid = attempt.queued.info.uid
        if not self._queue.is_in_flight(uid) or self._state.pod(uid) is not None:
            return False
        return current.plugin.includes(current.group, uid)

    def _revert_lost(self, current: _Pass) -> list[Attempt]:
        """Revert members that are gone, or whose nodes are; returns attempts at those that wait."""
        lost: list[NodeReservation] = []
        holding: list[NodeReservation] = []
        for each in current.reserved:
            (holding if self._still_holds(current, each.attempt) else lost).append(each)
        current.reserved = holding
        for each in lost:
            each.revert()
        waiting = [each.attempt for each in lost if self._wants_node(current, each.attempt)]
        return [self._new_attempt(attempt.queued) for attempt in waiting]

    def _still_holds(self, current: _Pass, attempt: Attempt) -> bool:
        """Whether a member that holds a node is still a member, and its node is there."""
        uid = attempt.queued.info.uid
        if not self._state.assumed(uid) or self._state.row(attempt.node) is None:
            return False
        waiting = attempt.framework.waiting.get(uid)
        rejected = waiting is not None and waiting.rejected
        if rejected or not self._queue.is_in_flight(uid):
            return False
        return current.plugin.includes(current.group, uid)

    def _sort_out_rest(self, current: _Pass) -> None:
        """Pending members without a node are surplus; the attempts at others end."""
        settled = {each.attempt.queued.info.uid for each in current.reserved}
        settled |= {each.attempt.queued.info.uid for each in current.unplaced}
        current.surplus += [each.attempt for each in current.unplaced]
        for attempt in current.attempts:
            queued = attempt.queued
            if queued.info.uid in settled:
                continue
            if self._wants_node(current, attempt):
                current.surplus.append(attempt)
            elif self._queue.is_in_flight(queued.info.uid):
                message = "it changed while its pod group was being placed"
                self._queue.requeue_rejected(queued, (current.plugin.name,), (), message)
            else:
                self._queue.done(queued.info.uid)

    def _bind(self, current: _Pass, needed: int, *, release: bool) -> None:
        members = [each.attempt for each in current.reserved]
        barrier = _barrier(current, needed, members)
        if barrier is None and release:
            current.plugin.release_group(current.group)
        current.reserved.clear()
        for attempt in members:
            attempt.barrier = barrier
            attempt.drop_transient_slots()
        self._scheduler.bindings.start_together(members)

    def _suspend(self, current: _Pass, asking: Attempt, question: Question) -> None:
        """Suspend one member until it has its answer; the others wait for it in the queue.

        Answers about all of them are kept. The member takes the place of the one that was suspended
        before, so a gang that has begun gets through.
        """
        uid, group = asking.queued.info.uid, current.group
        rest = [each for each in current.attempts if each.queued.info.uid != uid]
        asking.companion_answers = {each.queued.info.uid: each.answers for each in rest}
        others = [each.queued for each in rest]
        if others:
            message = f"pod group {group}: {question.plugin} is called for {asking.queued.key}"
            rejectors, pending = (current.plugin.name,), (question.plugin,)
            cohort = ("group", group)
            self._queue.requeue_together(others, rejectors, pending, message, cohort, tried=False)
        asking.group = _asks_for(current)
        asking.companions = dict.fromkeys(queued.key for queued in others)
        self._scheduler.suspension.suspend(asking, question, current.first.queued.info.uid)

    def _give_up(self, current: _Pass, standing: PodGroupState) -> str:
        """Revert everything, and requeue all members until an event may cure the gang."""
        plugin, unplaced = current.plugin, current.unplaced
        message = f"pod group {current.group}: {_outcome(current, standing)}"
        plugin.reject_group(current.group, message)
        current.revert()
        if any(each.fault for each in unplaced):
            for attempt in current.attempts:
                self._failures.failed(attempt, message)
            return "error"
        rejectors = frozenset[str]().union(*(each.plugins for each in unplaced)) | {plugin.name}
        pending = frozenset[str]().union(*(each.pending for each in unplaced))
        if self._differ(current.attempts):
            rejectors |= {ROOM, DEVICES} if PLUGIN in rejectors else {ROOM}
        self._requeue(current, message, rejectors, pending)
        return "unplaced"

    def _requeue(
        self,
        current: _Pass,
        message: str,
        rejectors: frozenset[str],
        pending: frozenset[str] = frozenset(),
    ) -> None:
        self._queue.requeue_together(
            [attempt.queued for attempt in current.attempts],
            rejectors,
            pending,
            message,
            ("group", current.group),
            current.plugin.pause,
        )
        self._failures.group_unschedulable(current.attempts, message, rejectors | pending)

    def _differ(self, attempts: Sequence[Attempt]) -> bool:
        """Whether members may get different verdicts: room for one may then cure another.

        Those that were not tried have no class yet, so there are checkpoints.
        """
        first = None
        for attempt in attempts:
            checkpoint()
            self._scheduler.derive_class(attempt)
            pod_class = self._scheduler.class_of(attempt)
            if pod_class is None or not pod_class.known or pod_class is not (first or pod_class):
                return True
            first = pod_class
        return False


def _asks_for(current: _Pass) -> tuple[str, str]:
    """Who is asked for: members of one group in two profiles are tried separately."""
    return current.first.framework.profile, current.group


def _barrier(current: _Pass, needed: int, members: Sequence[Attempt]) -> GangBarrier | None:
    """Where members wait for each other that plugins out of process have yet to permit."""
    if not members or not members[0].framework.remote.reserves:
        return None
    plugin, group = current.plugin, current.group
    too_few = unschedulable(f"pod group {group}: too few members were allowed by webhooks")
    release = partial(plugin.release_group, group)
    return GangBarrier(needed, len(members), too_few.by(plugin.name), release)


def _waits_for_group(plugin: GroupPlugin, reservation: NodeReservation) -> bool:
    """Whether a member waits at Permit for the others."""
    attempt = reservation.attempt
    waiting = attempt.framework.waiting.get(attempt.queued.info.uid)
    return waiting is not None and plugin.name in waiting.pending_plugins


def _size(standing: PodGroupState) -> tuple[int, int]:
    return standing.minimum, standing.existing


def _outcome(current: _Pass, standing: PodGroupState) -> str:
    """How many members can be placed, and why the next cannot; or that some do not exist yet."""
    if not current.unplaced:
        ready = standing.placed + len(current.attempts)
        return f"{ready} of {standing.minimum} members are ready to be scheduled"
    count = standing.placed + len(current.reserved)
    first = current.unplaced[0]
    reason = f"{first.attempt.queued.key}: {first.message}"
    return f"{count} of {standing.minimum} members can be placed; {reason}"


def _room(pod: PodInfo, event: Event) -> Hint:
    """Whether there may be more room: not if a member has given up what it never used."""
    gone = event.old
    if not isinstance(gone, PodInfo) or gone.pod.spec.node_name:
        return Hint.QUEUE
    own = pod_group_of(gone.pod.metadata) == pod_group_of(pod.pod.metadata)
    return Hint.SKIP if own else Hint.QUEUE


HINTS = {
    ROOM: (
        HintRegistration("Node", ~Action.DELETE),
        HintRegistration(
            ASSIGNED_POD,
            Action.DELETE | Action.POD_SCALE_DOWN,
            _room,
            alike(_room, lambda pod: pod_group_of(pod.pod.metadata)),
        ),
    ),
    DEVICES: ANY_DEVICES,
}
"""The events that may cure gangs whose members differ, or for which the cluster has no room."""
