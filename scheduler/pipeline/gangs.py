"""The pass: all members of a group are placed at once, or none is.

::

    one member is popped ─► pop_together: all others that wait
                                │
          refused as a whole ◄──┤  (minResources, no such group)
                                ▼
          each in turn: find ─► take (assume, reserve, permit)
                                │
          enough hold nodes ────┼──► bindings.start for all of them together
          all do, some are ─────┤    permit: wait for those, for a while
          not created yet       │
          too few do ───────────┼──► undo all, last first; wait as one, woken as one
          one needs an answer ──┴──► undo all; once it is there, all are tried again
          from outside

It uses the same functions as the attempt at a single pod, and members are really assumed. No other
attempt is made meanwhile, and events wake waiting pods only when it is over, so what is undone was
seen by nobody: nobody is told of it, and a gang that does not fit costs the cluster nothing but the
time of the pass.

A pass over many members takes several slices, between which members and nodes may go and the group
may change. So at its turn each member is looked at again, and before any member is bound all those
that hold nodes are; whose node is gone is tried once more. Whether enough hold nodes is decided by
how the group stands then.

No post-filter plugin is asked: victims would die for a gang that may yet not fit. Once enough
members hold nodes, further ones are pods like all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from scheduler.equivalence.classes import PodClass
from scheduler.framework.answers import AnswerNeeded, Question
from scheduler.framework.complaints import PluginFault
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.groups import IN_PASS, GroupPlugin, GroupStanding
from scheduler.framework.runtime import Framework
from scheduler.model.events import ASSIGNED_POD, Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status, unschedulable
from scheduler.model.workloads import pod_group_of
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.failure import Failures
from scheduler.pipeline.muster import Muster
from scheduler.pipeline.placement import CycleError, Placement, fit_error
from scheduler.pipeline.reserve import undo
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.tiers import QueuedPod
from scheduler.queueing.together import GroupQueue
from scheduler.slices import checkpoint, slices_ended
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

ROOM = "GangRoom"
"""Signs for gangs that any room for any member may cure, not just what rejected the last one."""

MAX_ROUNDS = 3
"""How often members are tried whose nodes went away during the pass."""
NODE_GONE = "its node was deleted"


class Steps(msgspec.Struct, frozen=True):
    """What is done to one member: the steps of the cycle."""

    obsolete: Callable[[QueuedPod], bool]
    """Whether there is nothing to do for it."""
    classify: Callable[[Attempt], PodClass | None]
    """Its class, if it is in one."""
    find: Callable[[Attempt], Placement | Diagnosis]
    """A node, or why there is none; evicts nobody."""
    take: Callable[[Attempt, Placement], Status]
    """Reserve the node and ask for permission."""
    alone: Callable[[Attempt], None]
    """The whole way of a pod that is in no gang."""
    suspend: Callable[[Attempt, Question, str], None]
    """Have a question asked outside, and the pod come back with the answer, in place of another."""
    resume: Callable[[str], None]
    """The pod of this uid has come back, and keeps its place until `suspend` or `settled`."""
    settled: Callable[[str], None]
    """The pod of this uid waits for no answer any more."""


class _Unplaced(msgspec.Struct, frozen=True):
    """Why a member has no node."""

    attempt: Attempt
    message: str
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    fault: bool = False
    question: Question | None = None
    """What has to be asked outside before that can be said."""


class GangPass:
    """Places groups of pods, for all profiles."""

    def __init__(
        self,
        state: ClusterState,
        queue: GroupQueue,
        bindings: Bindings,
        failures: Failures,
        metrics: Metrics,
        steps: Steps,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._queue = queue
        self._bindings = bindings
        self._failures = failures
        self._steps = steps
        self._clock = clock
        self._passes = Children(metrics.gang_passes)
        self._durations = metrics.gang_pass_duration
        self._searches = metrics.scheduling_algorithm_duration

    def schedule(self, first: Attempt, along: Sequence[QueuedPod] = ()) -> bool:
        """Try the whole group of a pod that was popped; False if it is to be placed by itself.

        ``along`` are members that were popped already; the others are popped here.
        """
        plugin = first.framework.groups
        if plugin is None:
            return False
        started, group = self._clock(), ""
        attempts = [first, *(self._attempt(queued, first.framework) for queued in along)]
        placed: list[Attempt] = []
        surplus: list[Attempt] = []
        try:
            found = plugin.group_of(first.queued.info)
            if found is None:
                return False
            group = found
            self._steps.resume(first.queued.info.uid)
            with self._queue.events_deferred():
                began = slices_ended()
                attempts = self._gather(plugin, group, first, along)
                result = self._place(plugin, group, first, attempts, placed, surplus, began)
        except Exception as fault:
            log.error("A gang could not be tried", exc=fault, pod=first.queued.key, group=group)
            self._undo_all(placed)
            for attempt in attempts:
                self._failures.failed(attempt, f"{type(fault).__name__}: {fault}")
            result = "error"
        finally:
            self._undo_all(placed)  # of a pass that was stopped at a checkpoint
        if result != "asking":
            self._steps.settled(first.queued.info.uid)
        self._passes[result,].inc()
        self._durations.observe(self._clock() - started)
        for each in surplus:
            checkpoint()
            self._schedule_alone(each)
        return True

    def _schedule_alone(self, member: Attempt) -> None:
        """Try a member like any other pod: enough others hold nodes."""
        if self._queue.expects(member.queued.info.uid):
            self._steps.alone(self._attempt(member.queued, member.framework))
        else:
            self._queue.done(member.queued.info.uid)

    def _gather(
        self, plugin: GroupPlugin, group: str, first: Attempt, along: Sequence[QueuedPod]
    ) -> list[Attempt]:
        """Attempts at all members that wait, in the order of the queue."""
        framework = first.framework
        told = {**first.told_along, first.queued.info.uid: first.told}
        others = self._queue.pop_together(plugin.members(group), framework.profile)
        attempts = []
        for queued in (first.queued, *along, *others):
            checkpoint()
            if self._steps.obsolete(queued):
                self._queue.done(queued.info.uid)
                continue
            attempt = self._attempt(queued, framework)
            attempt.told = told.get(queued.info.uid) or attempt.told
            attempts.append(attempt)
        return attempts

    def _attempt(self, queued: QueuedPod, framework: Framework) -> Attempt:
        cycle = Cycle(queued.info, self._state)
        cycle.put(IN_PASS, True)
        return Attempt(queued, framework, cycle, self._clock())

    def _place(
        self,
        plugin: GroupPlugin,
        group: str,
        first: Attempt,
        attempts: list[Attempt],
        placed: list[Attempt],
        surplus: list[Attempt],
        began: int,
    ) -> str:
        """Place members, or none; ``placed`` has those meanwhile that would have to be undone.

        ``surplus`` gets those without a node whom the group can do without. ``began`` is the slice
        in which the pass began.
        """
        standing = plugin.standing(group)
        if not standing.refusal.ok:
            self._refuse(plugin, group, attempts, standing)
            return "refused"
        # Without those that do not exist, which may be waited for.
        needed = min(standing.minimum, standing.existing) - standing.placed
        unplaced: list[_Unplaced] = []
        asking = self._place_all(plugin, group, attempts, needed, placed, unplaced, began)
        if asking is not None and asking.question is not None:
            self._undo_all(placed)
            self._ask(plugin, group, first, attempts, asking.attempt, asking.question)
            return "asking"
        enough = len(placed) >= needed
        complete = standing.placed + len(placed) >= standing.minimum
        if slices_ended() != began:
            now = plugin.standing(group)
            enough = now.refusal.ok and now.placed >= min(now.minimum, now.existing)
            complete = now.placed >= now.minimum
            # Members may wait for others only if none of them was let go when fewer were needed.
            enough = enough and (complete or all(_held(plugin, each) for each in placed))
            again = not now.refusal.ok or _size(now) != _size(standing)
        else:
            again = False
        if not enough:
            result = self._give_up(plugin, group, standing, attempts, placed, unplaced)
            if again:
                self._queue.activate({attempt.queued.key for attempt in attempts})
            return result
        settled = {each.queued.info.uid for each in placed}
        settled |= {each.attempt.queued.info.uid for each in unplaced}
        rest = [each for each in attempts if each.queued.info.uid not in settled]
        untried = [each for each in rest if self._waits(plugin, group, each)]
        self._let_go(plugin, [e for e in rest if not self._waits(plugin, group, e)])
        self._bind(plugin, group, needed, placed, release=complete)
        surplus += [each.attempt for each in unplaced] + untried
        return "placed" if complete else "waiting"

    def _place_all(
        self,
        plugin: GroupPlugin,
        group: str,
        attempts: list[Attempt],
        needed: int,
        placed: list[Attempt],
        unplaced: list[_Unplaced],
        began: int,
    ) -> _Unplaced | None:
        """Try members, as long as enough may yet hold nodes; returns one that has to ask outside.

        Gives the loop back between members, and at last makes sure that those still hold nodes who
        found some: nothing else happens after that.
        """
        pending = list(attempts)
        for rounds in range(MAX_ROUNDS):
            for position, attempt in enumerate(pending):
                if len(placed) + len(pending) - position < needed:
                    break
                checkpoint()
                if attempt.queued.info.volumes.attachable:
                    self._state.attachments.catch_up()
                if slices_ended() != began and not self._waits(plugin, group, attempt):
                    continue
                reason = self._try(attempt)
                if reason is None:
                    placed.append(attempt)
                elif reason.question is not None:
                    return reason
                else:
                    unplaced.append(reason)
            if slices_ended() == began:
                break
            pending = self._take_back_lost(plugin, group, placed)
            if not pending:
                break
            if rounds == MAX_ROUNDS - 1:
                unplaced += [_Unplaced(each, NODE_GONE, frozenset({ROOM})) for each in pending]
        return None

    def _waits(self, plugin: GroupPlugin, group: str, attempt: Attempt) -> bool:
        """Whether a member is still one, and wants a node."""
        uid = attempt.queued.info.uid
        if not self._queue.expects(uid) or self._state.pod(uid) is not None:
            return False
        return plugin.includes(group, uid)

    def _take_back_lost(
        self, plugin: GroupPlugin, group: str, placed: list[Attempt]
    ) -> list[Attempt]:
        """Undo members that are gone, or whose nodes are; returns those to be tried again."""
        lost = [attempt for attempt in placed if not self._holds(plugin, group, attempt)]
        if not lost:
            return []
        gone = {attempt.queued.info.uid for attempt in lost}
        placed[:] = [attempt for attempt in placed if attempt.queued.info.uid not in gone]
        for attempt in lost:
            self._undo(attempt)
        return [
            self._attempt(attempt.queued, attempt.framework)
            for attempt in lost
            if self._waits(plugin, group, attempt)
        ]

    def _holds(self, plugin: GroupPlugin, group: str, attempt: Attempt) -> bool:
        """Whether a member that was placed is still one, and its node is there."""
        uid = attempt.queued.info.uid
        if not self._state.assumed(uid) or self._state.row(attempt.node) is None:
            return False
        waiting = attempt.framework.waiting.get(uid)
        rejected = waiting is not None and waiting.rejected
        return not rejected and self._queue.expects(uid) and plugin.includes(group, uid)

    def _let_go(self, plugin: GroupPlugin, attempts: Sequence[Attempt]) -> None:
        """End the attempts at pods that went away during the pass, or are no members any more."""
        for attempt in attempts:
            if self._queue.expects(attempt.queued.info.uid):
                message = "it changed while its pod group was being placed"
                self._queue.requeue_rejected(attempt.queued, (plugin.name,), (), message)
            else:
                self._queue.done(attempt.queued.info.uid)

    def _bind(
        self, plugin: GroupPlugin, group: str, needed: int, placed: list[Attempt], *, release: bool
    ) -> None:
        muster = self._muster(plugin, group, needed, placed)
        if muster is None and release:
            plugin.release_group(group)
        certain = placed.copy()
        placed.clear()
        for attempt in certain:
            attempt.muster = muster
            attempt.drop_brief()
        self._bindings.start_together(certain)

    @staticmethod
    def _muster(
        plugin: GroupPlugin, group: str, needed: int, placed: Sequence[Attempt]
    ) -> Muster | None:
        """Where members wait for each other whom somebody outside has yet to let in."""
        if not placed or not placed[0].framework.books_outside:
            return None
        too_few = unschedulable(f"pod group {group}: too few members were let in from outside")
        release = partial(plugin.release_group, group)
        return Muster(needed, len(placed), too_few.by(plugin.name), release)

    def _try(self, attempt: Attempt) -> _Unplaced | None:
        """Have one member hold a node; or why it does not."""
        try:
            chosen = self._steps.find(attempt)
            self._searches.observe(self._clock() - attempt.started)
            if isinstance(chosen, Diagnosis):
                plugins, pending = chosen.unschedulable_plugins, chosen.pending_plugins
                message = chosen.message or fit_error(attempt.cycle, chosen)
                return _Unplaced(attempt, message, frozenset(plugins), frozenset(pending))
            status = self._steps.take(attempt, chosen)
        except AnswerNeeded as needed:
            self._undo(attempt)
            return _Unplaced(attempt, "", question=needed.question)
        except (PluginFault, CycleError) as fault:
            self._undo(attempt)
            return _Unplaced(attempt, str(fault), fault=True)
        except Exception as fault:
            log.error("Scheduling failed unexpectedly", exc=fault, pod=attempt.queued.key)
            self._undo(attempt)
            return _Unplaced(attempt, f"{type(fault).__name__}: {fault}", fault=True)
        if status.ok or status.code is Code.WAIT:
            return None
        self._undo(attempt)
        signed = frozenset({status.plugin})
        if not status.rejected:
            return _Unplaced(attempt, status.message, fault=True)
        if status.code is Code.PENDING:
            return _Unplaced(attempt, status.message, pending=signed)
        return _Unplaced(attempt, status.message, signed)

    def _ask(
        self,
        plugin: GroupPlugin,
        group: str,
        first: Attempt,
        attempts: list[Attempt],
        asking: Attempt,
        question: Question,
    ) -> None:
        """Have one member ask; the others wait for it in the queue, and what all know is kept.

        It has the place of the one that asked before: a gang that has begun gets through.
        """
        uid = asking.queued.info.uid
        rest = [each for each in attempts if each.queued.info.uid != uid]
        asking.told_along = {each.queued.info.uid: each.told for each in rest}
        others = [each.queued for each in rest]
        if others:
            message = f"pod group {group}: {question.plugin} is asked about {asking.queued.key}"
            rejectors, pending = (plugin.name,), (question.plugin,)
            self._queue.requeue_together(others, rejectors, pending, message, ("group", group))
        asking.companions = tuple(queued.key for queued in others)
        self._steps.suspend(asking, question, first.queued.info.uid)

    def _give_up(
        self,
        plugin: GroupPlugin,
        group: str,
        standing: GroupStanding,
        attempts: list[Attempt],
        placed: list[Attempt],
        unplaced: list[_Unplaced],
    ) -> str:
        """Undo everything, and have all members wait for what may cure the gang."""
        message = f"pod group {group}: {_outcome(standing, attempts, placed, unplaced)}"
        plugin.reject_group(group, message)
        self._undo_all(placed)
        if any(each.fault for each in unplaced):
            for attempt in attempts:
                self._failures.failed(attempt, message)
            return "error"
        rejectors = frozenset[str]().union(*(each.plugins for each in unplaced)) | {plugin.name}
        pending = frozenset[str]().union(*(each.pending for each in unplaced))
        if self._differ(attempts):
            rejectors |= {ROOM}
        self._turn_back(plugin, group, attempts, message, rejectors, pending)
        return "unplaced"

    def _refuse(
        self, plugin: GroupPlugin, group: str, attempts: list[Attempt], standing: GroupStanding
    ) -> None:
        rejectors = frozenset({standing.refusal.plugin, ROOM})
        self._turn_back(plugin, group, attempts, standing.refusal.message, rejectors)

    def _turn_back(
        self,
        plugin: GroupPlugin,
        group: str,
        attempts: Sequence[Attempt],
        message: str,
        rejectors: frozenset[str],
        pending: frozenset[str] = frozenset(),
    ) -> None:
        self._queue.requeue_together(
            [attempt.queued for attempt in attempts],
            rejectors,
            pending,
            message,
            ("group", group),
            plugin.pause,
        )
        self._failures.together(attempts, message, rejectors | pending)

    def _differ(self, attempts: Sequence[Attempt]) -> bool:
        """Whether members may be judged differently: room for one may then cure another."""
        classes = {self._steps.classify(attempt) for attempt in attempts}
        known = all(each is not None and each.known for each in classes)
        return not known or len(classes) > 1

    def _undo_all(self, placed: list[Attempt]) -> None:
        while placed:
            self._undo(placed.pop())
            checkpoint()

    def _undo(self, attempt: Attempt) -> None:
        """Have a member hold nothing, not even a place among those that wait for permission."""
        if attempt.placement is not None:
            undo(attempt)
            attempt.placement = None


def _held(plugin: GroupPlugin, member: Attempt) -> bool:
    """Whether the plugin has a member wait for others."""
    waiting = member.framework.waiting.get(member.queued.info.uid)
    return waiting is not None and plugin.name in waiting.pending_plugins


def _size(standing: GroupStanding) -> tuple[int, int]:
    return standing.minimum, standing.existing


def _outcome(
    standing: GroupStanding,
    attempts: Sequence[Attempt],
    placed: Sequence[Attempt],
    unplaced: Sequence[_Unplaced],
) -> str:
    """How many members could be placed, and why the next could not; or that some were not there."""
    if not unplaced:
        ready = standing.placed + len(attempts)
        return f"{ready} of {standing.minimum} members are ready to be scheduled"
    count = standing.placed + len(placed)
    first = f"{unplaced[0].attempt.queued.key}: {unplaced[0].message}"
    return f"{count} of {standing.minimum} members can be placed; {first}"


def _room(pod: PodInfo, event: Event) -> Hint:
    """Whether there may be more room: not, if a member has just given back what it never used."""
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
    )
}
"""What gangs listen to whose members differ, or that the cluster as a whole had no room for."""
