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

It is as synchronous as the attempt at a single pod, and uses the same functions: members are really
assumed, and what is undone was seen by nobody. So nobody is told of it, and a gang that does not
fit costs the cluster nothing but the time of the pass.

No post-filter plugin is asked: victims would die for a gang that may yet not fit. Once enough
members hold nodes, further ones are pods like all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from scheduler.equivalence.classes import PodClass
from scheduler.framework.answers import AnswerNeeded, Question, Told
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
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.tiers import QueuedPod
from scheduler.queueing.together import GroupQueue
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

ROOM = "GangRoom"
"""Signs for gangs that any room for any member may cure, not just what rejected the last one."""

MAX_ASKING = 1024
"""Of so many gangs it is remembered what their members were answered from outside."""


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
    suspend: Callable[[Attempt, Question], None]
    """Have a question asked outside, and the pod come back with the answer."""
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
        self._told: dict[str, dict[str, Told]] = {}
        """What members were answered from outside, by group and uid, until a pass gets through."""
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
        try:
            found = plugin.group_of(first.queued.info)
            if found is None:
                return False
            group = found
            self._steps.settled(first.queued.info.uid)
            attempts = self._gather(plugin, group, first, along)
            result = self._place(plugin, group, attempts, placed)
        except Exception as fault:
            log.error("A gang could not be tried", exc=fault, pod=first.queued.key, group=group)
            self._steps.settled(first.queued.info.uid)
            self._undo_all(placed)
            for attempt in attempts:
                self._failures.failed(attempt, f"{type(fault).__name__}: {fault}")
            result = "error"
        if group is not None and result != "asking":
            self._told.pop(group, None)
        self._passes[result,].inc()
        self._durations.observe(self._clock() - started)
        return True

    def forget_codes(self) -> None:
        """Codes of verdicts are given out anew: what members were told in codes is void."""
        for members in self._told.values():
            for told in members.values():
                told.forget()

    def _gather(
        self, plugin: GroupPlugin, group: str, first: Attempt, along: Sequence[QueuedPod]
    ) -> list[Attempt]:
        """Attempts at all members that wait, in the order of the queue."""
        framework, told = first.framework, self._told.get(group, {})
        others = self._queue.pop_together(plugin.members(group), framework.profile)
        attempts = []
        for queued in (first.queued, *along, *others):
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
        self, plugin: GroupPlugin, group: str, attempts: list[Attempt], placed: list[Attempt]
    ) -> str:
        """Place members, or none; ``placed`` has those meanwhile that would have to be undone."""
        standing = plugin.standing(group)
        if not standing.refusal.ok:
            rejectors = frozenset({standing.refusal.plugin, ROOM})
            self._turn_back(plugin, group, attempts, standing.refusal.message, rejectors)
            return "refused"
        # Without those that do not exist, which may be waited for.
        needed = min(standing.minimum, standing.existing) - standing.placed
        unplaced: list[_Unplaced] = []
        for position, attempt in enumerate(attempts):
            if len(placed) + len(attempts) - position < needed:
                break
            reason = self._try(attempt)
            if reason is None:
                placed.append(attempt)
            elif reason.question is not None:
                self._undo_all(placed)
                self._ask(plugin, group, attempts, attempt, reason.question)
                return "asking"
            else:
                unplaced.append(reason)
        if len(placed) < needed:
            return self._give_up(plugin, group, standing, attempts, placed, unplaced)
        result = "placed" if standing.placed + len(placed) >= standing.minimum else "waiting"
        certain = placed.copy()
        placed.clear()
        muster = self._muster(plugin, group, needed, certain)
        if muster is None and result == "placed":
            plugin.release_group(group)
        for attempt in certain:
            attempt.muster = muster
            attempt.drop_brief()
            self._bindings.start(attempt)
        for each in unplaced:
            queued, framework = each.attempt.queued, each.attempt.framework
            self._steps.alone(self._attempt(queued, framework))
        return result

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
        attempts: list[Attempt],
        asking: Attempt,
        question: Question,
    ) -> None:
        """Have one member ask; the others wait for it in the queue, and what all know is kept."""
        self._told.pop(group, None)
        while len(self._told) >= MAX_ASKING:
            del self._told[next(iter(self._told))]
        self._told[group] = {each.queued.info.uid: each.told for each in attempts}
        others = [each.queued for each in attempts if each is not asking]
        if others:
            message = f"pod group {group}: {question.plugin} is asked about {asking.queued.key}"
            rejectors, pending = (plugin.name,), (question.plugin,)
            self._queue.requeue_together(others, rejectors, pending, message, ("group", group))
        asking.companions = tuple(queued.key for queued in others)
        self._steps.suspend(asking, question)

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

    def _undo(self, attempt: Attempt) -> None:
        """Have a member hold nothing, not even a place among those that wait for permission."""
        if attempt.placement is not None:
            undo(attempt)
            attempt.placement = None


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
        HintRegistration(ASSIGNED_POD, Action.DELETE | Action.POD_SCALE_DOWN, _room),
    )
}
"""What gangs listen to whose members differ, or that the cluster as a whole had no room for."""
