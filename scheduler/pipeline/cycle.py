"""The scheduling cycle: take the next pod, find it a node, reserve, and hand it over to binding.

This file is the way of a pod; each verb is a function of a sibling module::

    queue.pop ─► class ─► place ─► reserve ─► permit ─► bindings.start
                             │         └────────┴─ refused: give_back ─► failures.refused
                             ├─ no node: post-filter ─► failures.unplaceable
                             └─ an answer from outside is needed: suspend, and from the start later

A pod that is to be placed together with others takes them along (``gangs.py``).

A run of pods of one class is not a thing of its own: each of them finds what is kept for the class,
and only the row that the one before it took has to be looked at again.

An attempt is synchronous from pop to permit: nobody else changes the state meanwhile, so there are
no locks and no snapshots. Only what may take long gives the loop back in between (``checkpoint``):
a gang between two members, preemption between nodes, the count of volumes before an attempt. Each
of them looks again at what it has found when it goes on. When attempts are made is for ``loop.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from scheduler.equivalence.cache import Equivalence
from scheduler.equivalence.classes import PodClass
from scheduler.framework.answers import TOLD, AnswerNeeded
from scheduler.framework.complaints import PluginFault
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.groups import IN_PASS
from scheduler.framework.runtime import Framework
from scheduler.model.status import Code, Status, error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.batch import NOWHERE
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.by_class import ByClass
from scheduler.pipeline.failure import Failures
from scheduler.pipeline.gangs import GangPass, Steps
from scheduler.pipeline.placement import (
    CycleError,
    Placement,
    as_proposed,
    may_make_room,
    place,
)
from scheduler.pipeline.reserve import give_back, reserve
from scheduler.pipeline.suspension import Suspension
from scheduler.queueing.tiers import QueuedPod
from scheduler.queueing.together import GroupQueue
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

log = get_logger(__name__)


class SchedulingCycle:
    """Attempts pods, one after the other, for all profiles."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        state: ClusterState,
        queue: GroupQueue,
        bindings: Bindings,
        failures: Failures,
        metrics: Metrics,
        suspension: Suspension,
        *,
        equivalence: Equivalence | None = None,
        tie_break_seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._frameworks = frameworks
        self._state = state
        self._queue = queue
        self._bindings = bindings
        self._failures = failures
        self._metrics = metrics
        self._suspension = suspension
        self._classes = ByClass(equivalence, tie_break_seed) if equivalence else None
        self._seed = tie_break_seed
        self._clock = clock
        self._proposed: Mapping[str, str] = NOWHERE
        self._model = ""
        self.witness: Callable[[Attempt], None] | None = None
        """Sees each attempt before a node is looked for, or taken that was found otherwise."""
        steps = Steps(
            self.obsolete,
            self._classify,
            self._find,
            self._take,
            self._schedule_alone,
            suspension.suspend,
            suspension.resume,
            suspension.settled,
        )
        self._gangs = GangPass(state, queue, bindings, failures, metrics, steps, clock)

    def schedule_next(self) -> QueuedPod | None:
        """Attempt the next pod, and return it; None if nobody waits."""
        attempt = self._suspension.next_ready()
        if attempt is None:
            queued = self._queue.pop()
            if queued is None or self._bindings.postpone(queued):
                return queued
            attempt = self._new(queued)
        self._try(attempt)
        return attempt.queued

    def attempt(
        self,
        queued: QueuedPod,
        along: Sequence[QueuedPod] = (),
        nodes: Mapping[str, str] = NOWHERE,
        model: str = "",
    ) -> None:
        """Attempt a pod that was popped, and with it members of its gang that were.

        ``nodes`` are tried first, by uid; ``model`` is the cost model that chose them.
        """
        self._proposed, self._model = nodes, model
        try:
            self._try(self._new(queued), along)
        finally:
            self._proposed, self._model = NOWHERE, ""

    def seek(self, queued: QueuedPod, proposed: str = "", *, together: bool = False) -> str | None:
        """The node that an attempt would choose now; takes nothing and tells nobody.

        ``proposed`` is tried first. None also if that cannot be said without asking outside.
        """
        attempt = self._new(queued)
        if together:
            attempt.cycle.put(IN_PASS, True)
        if queued.info.volumes.attachable:
            self._state.attachments.catch_up()
        self._proposed = {queued.info.uid: proposed} if proposed else NOWHERE
        try:
            found = self._find(attempt)
        except (AnswerNeeded, PluginFault, CycleError):
            return None
        finally:
            self._proposed = NOWHERE
        return found.node if isinstance(found, Placement) else None

    def accept(self, attempt: Attempt, placement: Placement) -> None:
        """Take the node that was found for a pod otherwise; the pod must fit there now."""

        def take(attempt: Attempt) -> None:
            if self.witness is not None:
                self.witness(attempt)
            self._settle(attempt, placement)

        self._contained(attempt, take)

    def _try(self, attempt: Attempt, along: Sequence[QueuedPod] = ()) -> None:
        queued = attempt.queued
        # Most pods have no volumes, and need not derive that they have none.
        if queued.info.pod.spec.volumes and queued.info.volumes.attachable:
            self._state.attachments.catch_up()
        if not along and (self.obsolete(queued) or not self._queue.expects(queued.info.uid)):
            self._suspension.settled(queued.info.uid)
            self._queue.done(queued.info.uid)
            if attempt.companions:
                self._queue.activate(frozenset(attempt.companions))
            return
        if self._state.statuses.overfull:
            self._give_codes_anew()
        self._state.columns.labels.trim()
        if self._gangs.schedule(attempt, along):
            return
        if not along:
            self._contained(attempt, self._schedule)
        for each in (queued, *along) if along else ():  # whom their gang needs no longer
            checkpoint()
            self._try(self._new(each))

    def _new(self, queued: QueuedPod) -> Attempt:
        cycle = Cycle(queued.info, self._state)
        return Attempt(queued, self._frameworks[queued.profile], cycle, self._clock())

    def _schedule_alone(self, attempt: Attempt) -> None:
        attempt.restart()
        self._contained(attempt, self._schedule)

    def _contained(self, attempt: Attempt, step: Callable[[Attempt], None]) -> None:
        """Whatever goes wrong costs this pod this attempt."""
        try:
            step(attempt)
        except AnswerNeeded as needed:
            self._suspension.suspend(attempt, needed.question)
            return
        except (PluginFault, CycleError) as fault:
            self._abort(attempt, str(fault))
        except Exception as fault:
            log.error("Scheduling failed unexpectedly", exc=fault, pod=attempt.queued.key)
            self._abort(attempt, f"{type(fault).__name__}: {fault}")
        self._suspension.settled(attempt.queued.info.uid)

    def _schedule(self, attempt: Attempt) -> None:
        chosen = self._place(attempt)
        self._metrics.scheduling_algorithm_duration.observe(self._clock() - attempt.started)
        if isinstance(chosen, Diagnosis):
            self._failures.unplaceable(attempt, chosen)
        else:
            self._settle(attempt, chosen)

    def _settle(self, attempt: Attempt, placement: Placement) -> None:
        status = self._take(attempt, placement)
        if status.ok or status.code is Code.WAIT:
            attempt.drop_brief()
            self._bindings.start(attempt)
        else:
            give_back(attempt, self._queue, status)
            self._failures.refused(attempt, status)

    def _place(self, attempt: Attempt) -> Placement | Diagnosis:
        """A node for the pod; or why there is none, after plugins have tried to make room."""
        chosen = self._find(attempt)
        if isinstance(chosen, Diagnosis) and not chosen.final:
            version = self._state.changes.version
            self._make_room(attempt, chosen)
            framework, pod_class = attempt.framework, attempt.pod_class
            if self._classes is not None and pod_class is not None:
                chosen.final = (
                    not chosen.nominated_node
                    and framework.answers_for_class
                    and version == self._state.changes.version  # nothing else happened meanwhile
                )
                if chosen.final:
                    self._classes.remember(pod_class, attempt.cycle, chosen)
        return chosen

    def _find(self, attempt: Attempt) -> Placement | Diagnosis:
        """A node for the pod as things are, or why there is none."""
        framework, cycle = attempt.framework, attempt.cycle
        if framework.asks_outside:
            cycle.put(TOLD, attempt.told)
        if self.witness is not None:
            self.witness(attempt)
        pod_class = self._classify(attempt)
        proposed = self._proposed.get(cycle.pod.uid)
        if proposed:
            found = as_proposed(framework, cycle, proposed, self._model)
            if found is not None:
                return found
        if self._classes is None or pod_class is None:
            return place(framework, cycle, self._seed)
        if pod_class.known:
            cycle.kind = pod_class
        known = self._classes.known_verdict(pod_class, cycle)
        return known if known is not None else self._classes.place(framework, cycle, pod_class)

    def _classify(self, attempt: Attempt) -> PodClass | None:
        # What comes of old answers, or of none, is for this pod alone.
        if self._classes is not None and attempt.pod_class is None and not attempt.told.weary:
            attempt.pod_class = self._classes.class_of(attempt.cycle)
        return attempt.pod_class

    def _take(self, attempt: Attempt, placement: Placement) -> Status:
        attempt.placement = placement
        status = reserve(attempt)
        return attempt.framework.run_permit(attempt.cycle, attempt.node) if status.ok else status

    def _make_room(self, attempt: Attempt, diagnosis: Diagnosis) -> None:
        """Have plugins look for a way, unless the pod itself or an empty cluster is the problem."""
        diagnosis.nominated_node = ""
        if not may_make_room(diagnosis):
            return
        result = attempt.framework.run_post_filters(attempt.cycle, diagnosis)
        if result is not None:
            diagnosis.post_filter = result.status.message
            diagnosis.nominated_node = result.nominated_node

    def _abort(self, attempt: Attempt, message: str) -> None:
        if attempt.placement is not None:
            give_back(attempt, self._queue, error(message))
        self._failures.failed(attempt, message)

    def _give_codes_anew(self) -> None:
        if self._classes is not None:
            self._classes.clear()
        self._suspension.forget_codes()
        self._state.statuses.restart()

    def postpone(self, queued: QueuedPod) -> bool:
        """Put a pod back whose namespace has enough bindings under way; whether it has."""
        return self._bindings.postpone(queued)

    def obsolete(self, queued: QueuedPod) -> bool:
        """Whether there is nothing to do: the pod is going away, or holds a node already."""
        return queued.info.pod.deleting or self._state.pod(queued.info.uid) is not None
