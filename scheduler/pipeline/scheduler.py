"""The scheduler: the way of a pod from the queue to its binding, and back when a step fails.

::

    run ─► schedule_one: pop
              │
              ▼
           schedule_pod ─► find_node ─► assume_and_reserve ─► permit ─► bindings.start
              │                │              └────────────────┴─ rejected: unreserve_and_forget
              │                │                                  and handle_scheduling_failure
              │                ├─ no node: PostFilter, handle_scheduling_failure
              │                └─ an answer from out of process is needed: suspend; later anew
              ├─ in a pod group: `pod_groups.PodGroupPass`, the same steps for all members or none
              └─ a backlog: `batch.stage.Batches`, the same steps with nodes that a solver proposes

An attempt is synchronous from pop to permit: nothing else changes the state meanwhile, so there are
no locks and no snapshots. Only what may take long gives the event loop back in between
(`slices.checkpoint`): a pod group between two members, preemption between nodes, the count of
volumes and pods before an attempt, and the rehearsal of a large pod. Each of them checks its
findings again when it continues.

Attempts run in slices of a few milliseconds. Only one attempt is under way at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Never, TypeVar

from scheduler import machine
from scheduler.equivalence.cache import EquivalenceCache
from scheduler.equivalence.classes import FILTER, FORGOTTEN, PodClass
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.journal import NodeSearch
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt, NodeReservation, unreserve_and_forget
from scheduler.pipeline.batch.stage import BatchConfig, Batches
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.evaluation import ClassCache, CycleError, evaluate
from scheduler.pipeline.failure import FailureHandler
from scheduler.pipeline.nomination import remove_nomination
from scheduler.pipeline.placement import (
    NO_PROPOSALS,
    Placement,
    Proposals,
    allows_post_filter,
    proposed_node,
    select_node,
)
from scheduler.pipeline.pod_groups import PodGroupPass
from scheduler.pipeline.rehearsal import label_columns, rehearse
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.groups import IN_PASS
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.slices import checkpoint, in_slices_until, slice_seconds, slices_ended
from scheduler.state.cache import ClusterState
from scheduler.webhooks.answers import REMOTE_ANSWERS, AnswerNeeded
from scheduler.webhooks.suspension import Suspension

log = get_logger(__name__)

R = TypeVar("R")


class Scheduler:
    """Schedules pods, one after the other, for all profiles."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        state: ClusterState,
        queue: SchedulingQueue,
        bindings: Bindings,
        failures: FailureHandler,
        metrics: Metrics,
        suspension: Suspension[Attempt],
        *,
        equivalence: EquivalenceCache | None = None,
        batch: BatchConfig | None = None,
        tie_break_seed: int = 0,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self.frameworks = frameworks
        self.state = state
        self.queue = queue
        self.bindings = bindings
        self.suspension = suspension
        self.class_cache = ClassCache(equivalence) if equivalence else None
        """What is kept for classes of equal pods; None if nothing is."""
        self.clock = clock
        self.on_attempt: Callable[[Attempt], None] | None = None
        """Called for each attempt before a node is looked for, or a verified one is taken."""
        self._failures = failures
        self._metrics = metrics
        self._seed = tie_break_seed
        self._stopped = False
        self._turn = asyncio.Lock()
        """Held while pods are attempted."""
        self._pod_groups = PodGroupPass(self, failures, metrics)
        self.batches = (
            Batches(self, self.class_cache, batch, metrics) if batch and self.class_cache else None
        )
        """Places backlogs at once; None if that is not configured."""

    # The loop

    async def run(self) -> None:
        """Schedule until stopped or cancelled."""
        await self.in_turn(self.begin)
        async with asyncio.TaskGroup() as tasks:
            resuming = tasks.create_task(self.resume_suspended(), name="resume suspended pods")
            while not self._stopped:
                await self.queue.wait()
                await self.bindings.room()
                if not await self.run_batch():
                    await self.run_slice()
                await asyncio.sleep(0)
            resuming.cancel()

    async def resume_suspended(self) -> Never:
        """Attempt suspended pods again as soon as their answers have come, until cancelled."""
        while True:
            await self._resume_ready()
            await self.suspension.change()

    async def finish_suspended(self) -> None:
        """Attempt suspended pods again until none is suspended, for callers without `run`."""
        while not self.suspension.is_idle:
            await self._resume_ready()
            if not self.suspension.is_idle:
                await self.suspension.change()

    async def _resume_ready(self) -> None:
        while self.suspension.has_ready:
            await self.bindings.room()
            await self.run_slice()
            await asyncio.sleep(0)

    def begin(self) -> None:
        """Notify plugins that this replica schedules; they may admit pods that they gated."""
        if self.state.journal is not None:
            self.state.journal.began()
        for framework in self.frameworks.values():
            framework.remote.begin()
        self.queue.retry_gated()

    @property
    def stopped(self) -> bool:
        """Whether no further pods are attempted."""
        return self._stopped

    def stop(self) -> None:
        """Attempt no further pods; bindings continue.

        An attempt that is under way ends at its checkpoint, and reverts what it has not handed over
        to binding.
        """
        self._stopped = True
        self.suspension.cancel()

    async def run_batch(self) -> bool:
        """Place the backlog at once, if there is one worth it; False if there is not."""
        if self.batches is None or not self.batches.due:
            return False
        await self.batches.run()
        return True

    async def run_slice(self) -> None:
        """Attempt pods until none is left, the slice is over, or too many bindings are open.

        A long attempt takes more slices than one, and is then the last.
        """
        await self.in_turn(self._schedule_some)

    def _schedule_some(self) -> None:
        self.queue.flush()
        end = self.clock() + slice_seconds()
        while not (self._stopped or self.bindings.full):
            if self.schedule_one() is None or self.clock() >= end:
                break

    async def in_turn(self, work: Callable[[], R]) -> R | None:
        """Attempt pods in slices while no other task does; None if the scheduler is stopped."""
        async with self._turn:
            return None if self._stopped else await in_slices_until(self._is_stopped, work)

    def _is_stopped(self) -> bool:
        return self._stopped

    async def yield_slice(self) -> None:
        """Let other tasks run, and return when another pod may be bound."""
        await asyncio.sleep(0)
        await self.bindings.room()

    # One pod

    def schedule_one(self) -> QueuedPod | None:
        """Attempt the next pod, and return it; None if none is ready.

        Suspended attempts whose answers have come go first.
        """
        attempt = self.suspension.next_ready()
        if attempt is None:
            queued = self.queue.pop()
            if queued is None or self.bindings.postpone(queued):
                return queued
            attempt = self.new_attempt(queued)
        self._schedule(attempt)
        return attempt.queued

    def schedule_popped(
        self,
        queued: QueuedPod,
        along: Sequence[QueuedPod] = (),
        proposals: Proposals = NO_PROPOSALS,
    ) -> None:
        """Attempt a pod that was popped, and with it members of its pod group that were."""
        self._schedule(self.new_attempt(queued), along, proposals)

    def new_attempt(self, queued: QueuedPod) -> Attempt:
        """An attempt at a pod that was popped."""
        cycle = Cycle(queued.info, self.state)
        return Attempt(queued, self.frameworks[queued.profile], cycle, self.clock())

    def skip_pod_schedule(self, queued: QueuedPod) -> bool:
        """Whether a pod needs no attempt: it is being deleted, or holds a node already."""
        return queued.info.pod.deleting or self.state.pod(queued.info.uid) is not None

    def _schedule(
        self,
        attempt: Attempt,
        along: Sequence[QueuedPod] = (),
        proposals: Proposals = NO_PROPOSALS,
    ) -> None:
        """Attempt a pod alone, or its whole pod group."""
        queued = attempt.queued
        self.prepare(attempt)
        if not along and (
            self.skip_pod_schedule(queued) or not self.queue.is_in_flight(queued.info.uid)
        ):
            self._skip(attempt)
            return
        if self.state.statuses.overfull:
            self.state.statuses.restart()
        self.state.columns.labels.trim()
        if self._pod_groups.schedule(attempt, along, proposals):
            return
        if not along:
            self.schedule_pod(attempt, proposals)
            return
        for each in (queued, *along):  # members that their group no longer needs
            checkpoint()
            self._schedule(self.new_attempt(each), (), proposals)

    def prepare(self, attempt: Attempt) -> None:
        """Do what may take several slices before an attempt, so that the attempt itself is short.

        Plugins are asked about the first pod of a class with long lists (`rehearsal`). Pods that a
        pod's affinity and spread constraints select are counted for the first pod of a class only:
        the counters serve the others, until one is dropped.
        """
        info = attempt.queued.info
        spec = info.pod.spec
        # Most pods have no volumes, and need not derive that they have none.
        if spec.volumes and info.volumes.attachable:
            self.state.attachments.catch_up()
        long = info.long
        try:
            if long:
                info.derive_asked()
                self.derive_class(attempt)
            if not info.excess:
                pod_class, ahead = self.class_of(attempt), attempt.framework.looks_ahead
                # Most plugins that look ahead have nothing to say about most pods.
                if ahead and (pod_class is None or not ahead <= pod_class.silent[FILTER]):
                    pod_class = self._look_ahead(attempt)
                # Services and controllers may select by labels, and have pods spread.
                if (
                    spec.affinity or spec.topology_spread_constraints or info.pod.metadata.labels
                ) and (pod_class is None or pod_class.counted != self.state.index.drops):
                    self._count_ahead(attempt, pod_class)
                if long:
                    self._rehearse(attempt)
        except Exception as fault:  # the attempt itself reports what it cannot do without
            log.error("An attempt could not be prepared", exc=fault, pod=info.key)

    def derive_class(self, attempt: Attempt) -> None:
        """Derive what decides the class of a long pod, with checkpoints."""
        info = attempt.queued.info
        if info.long and not info.excess and self.class_cache is not None:
            self.class_cache.derive_keys(info)

    def _look_ahead(self, attempt: Attempt) -> PodClass | None:
        before = slices_ended()
        attempt.framework.look_ahead(attempt.queued.info)
        if slices_ended() != before:
            attempt.pod_class = None  # the cluster may have changed meanwhile
        return self.class_of(attempt)

    def _count_ahead(self, attempt: Attempt, pod_class: PodClass | None) -> None:
        stamp, index = self._class_stamp(attempt), self.state.index
        if pod_class is not None:
            pod_class.counted = index.drops
        label_columns(attempt.queued.info, self.state)
        attempt.framework.count_ahead(attempt.queued.info, index)
        self._drop_changed_class(attempt, stamp)

    def _rehearse(self, attempt: Attempt) -> None:
        pod_class, stamp = self.class_of(attempt), self._class_stamp(attempt)
        checkpoint()
        if self.class_cache is not None and pod_class is not None and pod_class.results is None:
            pod = attempt.queued.info
            rehearse(attempt.framework, pod, self.state, pod_class, self.class_cache)
        self._drop_changed_class(attempt, stamp)

    def _class_stamp(self, attempt: Attempt) -> tuple[int, ...]:
        return self.class_cache.stamp(attempt.queued.profile) if self.class_cache else ()

    def _drop_changed_class(self, attempt: Attempt, stamp: tuple[int, ...]) -> None:
        """After checkpoints: have the class found anew if it may have become another."""
        known = attempt.pod_class
        if known is None or known.used == FORGOTTEN or self._class_stamp(attempt) != stamp:
            attempt.pod_class = None

    def _skip(self, attempt: Attempt) -> None:
        """End an attempt at a pod that needs none, and activate pods that wait for its answers."""
        uid = attempt.queued.info.uid
        self.suspension.settled(uid)
        self.queue.done(uid)
        self.queue.activate(attempt.companions)

    def schedule_pod(
        self,
        attempt: Attempt,
        proposals: Proposals = NO_PROPOSALS,
        placement: Placement | None = None,
    ) -> None:
        """Run the scheduling cycle of one pod; a fault costs this pod this attempt.

        ``placement`` is a node that a batch has found and verified just now.
        """
        try:
            if placement is None:
                chosen = self._find_node_or_make_room(attempt, proposals)
                self._metrics.scheduling_algorithm_duration.observe(self.clock() - attempt.started)
            else:
                chosen = placement
                self._record(attempt, Proposals({}, placement.model), placement)
                if self.on_attempt is not None:
                    self.on_attempt(attempt)
            if isinstance(chosen, Diagnosis):
                self.handle_scheduling_failure(attempt, chosen)
            else:
                self._reserve_and_bind(attempt, chosen)
        except AnswerNeeded as needed:
            self.suspension.suspend(attempt, needed.question)
            return
        except (PluginFault, CycleError) as fault:
            self._abort(attempt, str(fault))
        except Exception as fault:
            log.error("Scheduling failed unexpectedly", exc=fault, pod=attempt.queued.key)
            self._abort(attempt, f"{type(fault).__name__}: {fault}")
        self.suspension.settled(attempt.queued.info.uid)

    def _reserve_and_bind(self, attempt: Attempt, placement: Placement) -> None:
        reservation = self.assume_and_reserve(attempt, placement)
        if reservation.status.ok:
            self.permit(reservation)
        if reservation.holds:
            attempt.drop_transient_slots()
            self.bindings.start(attempt)
        else:
            unreserve_and_forget(attempt, reservation.status)
            self.handle_scheduling_failure(attempt, reservation.status)

    def _abort(self, attempt: Attempt, message: str) -> None:
        if attempt.placement is not None:
            unreserve_and_forget(attempt, error(message))
        self.handle_scheduling_failure(attempt, error(message))

    # The steps, for single pods, pod groups and batches

    def class_of(self, attempt: Attempt) -> PodClass | None:
        """The equivalence class of a pod, if it is in one."""
        # Stale answers, or none, make a result that must not be kept for the class.
        if (
            self.class_cache is not None
            and attempt.pod_class is None
            and not attempt.answers.uses_stale_answers
        ):
            attempt.pod_class = self.class_cache.class_of(attempt.cycle)
        return attempt.pod_class

    def find_node(
        self, attempt: Attempt, proposals: Proposals = NO_PROPOSALS
    ) -> Placement | Diagnosis:
        """The scheduling algorithm: the node for a pod in the current state, or why there is none.

        Changes nothing. Raises AnswerNeeded, PluginFault, CycleError.
        """
        attempt.searched = self.state.changes.version
        journal = self.state.journal
        if journal is None:
            return self._search(attempt, proposals)
        journal.tick()
        try:
            found = self._search(attempt, proposals)
        except AnswerNeeded:
            journal.asked(_searched(attempt, proposals))
            raise
        if isinstance(found, Diagnosis):
            plugins = found.unschedulable_plugins | found.pending_plugins
            journal.unplaced(_searched(attempt, proposals), plugins, len(found.rows))
        else:
            self._record(attempt, proposals, found)
        return found

    def _record(self, attempt: Attempt, proposals: Proposals, found: Placement) -> None:
        """Have the journal keep a node that was found."""
        journal, cycle = self.state.journal, attempt.cycle
        if journal is None:
            return
        if proposals is NO_PROPOSALS and cycle.find(IN_PASS) is None:
            journal.placed(cycle.pod, found.node, found.score, found.feasible, found.evaluated)
        else:
            search = _searched(attempt, proposals, found.node if found.model else "")
            journal.searched(search, found.node, found.score, found.feasible, found.evaluated)

    def _search(self, attempt: Attempt, proposals: Proposals) -> Placement | Diagnosis:
        framework, cycle = attempt.framework, attempt.cycle
        if framework.remote.enabled:
            cycle.put(REMOTE_ANSWERS, attempt.answers)
        if self.on_attempt is not None:
            self.on_attempt(attempt)
        pod_class = self.class_of(attempt)
        if pod_class is not None and self.class_cache is not None:
            if pod_class.known:
                cycle.equivalence_class = pod_class
            known = self.class_cache.unschedulable(pod_class, cycle)
            if known is not None:
                return known
        evaluation = evaluate(framework, cycle, pod_class, self.class_cache)
        proposed = proposals.nodes.get(cycle.pod.uid)
        if proposed:
            found = proposed_node(evaluation, proposed, proposals.model)
            if found is not None:
                return found
        return select_node(evaluation, self._seed)

    def preview_node(
        self, queued: QueuedPod, proposals: Proposals = NO_PROPOSALS, *, in_pass: bool = False
    ) -> str | None:
        """The node that an attempt would choose now; nothing is assumed.

        None also if a plugin out of process would have to be asked. ``in_pass`` is for members of
        pod groups.
        """
        attempt = self.new_attempt(queued)
        if in_pass:
            attempt.cycle.put(IN_PASS, True)
        if queued.info.volumes.attachable:
            self.state.attachments.catch_up()
        try:
            found = self._search(attempt, proposals)
        except (AnswerNeeded, PluginFault, CycleError):
            return None
        return found.node if isinstance(found, Placement) else None

    def _find_node_or_make_room(
        self, attempt: Attempt, proposals: Proposals
    ) -> Placement | Diagnosis:
        """A node for the pod; or why there is none, after PostFilter (preemption)."""
        chosen = self.find_node(attempt, proposals)
        if isinstance(chosen, Diagnosis) and not chosen.final:
            self.make_room(attempt, chosen)
        return chosen

    def make_room(self, attempt: Attempt, chosen: Diagnosis) -> None:
        """Run PostFilter (preemption) for a pod that fits nowhere, and keep what counts for all."""
        try:
            acted = self._run_post_filter(attempt, chosen)
        except AnswerNeeded:
            if self.state.journal is not None:
                self.state.journal.asked_for_room(attempt.cycle.pod.uid)
            raise
        if self.state.journal is not None:
            uid, nominated = attempt.cycle.pod.uid, chosen.nominated_node or ""
            self.state.journal.made_room(uid, chosen.post_filter, nominated)
        if self.class_cache is not None and attempt.pod_class is not None:
            chosen.final = (
                not chosen.nominated_node
                and not acted
                and attempt.framework.answers_for_class
                # Nothing else has happened since the search: a replay comes here only when the
                # recording says that PostFilter had ended, and answers may come late.
                and attempt.searched == self.state.changes.version
            )
            if chosen.final:
                self.class_cache.keep_unschedulable(attempt.pod_class, attempt.cycle, chosen)

    @staticmethod
    def _run_post_filter(attempt: Attempt, diagnosis: Diagnosis) -> bool:
        """Whether some plugin has begun something for this pod."""
        diagnosis.nominated_node = ""
        if not allows_post_filter(diagnosis):
            return False
        result = attempt.framework.run_post_filters(attempt.cycle, diagnosis)
        if result is not None:
            diagnosis.post_filter = result.status.message
            diagnosis.nominated_node = result.nominated_node
        return result is not None and result.acted

    def assume_and_reserve(self, attempt: Attempt, placement: Placement) -> NodeReservation:
        """Assume the pod on its node and run Reserve.

        Never raises. A caller that gets a reservation that does not hold reverts it.
        """
        attempt.placement = placement
        state, pod, node = self.state, attempt.cycle.pod, placement.node
        try:
            attempt.node_version = state.node_version(node)
            state.assume(pod, node)
            if state.nominations.node_of(pod.uid):
                remove_nomination(state, self.queue, pod, pod.uid, node)
            status = attempt.framework.run_reserve(attempt.cycle, node)
        except Exception as fault:
            status = _fault_status(attempt, fault)
        if status is not SUCCESS and state.journal is not None and not status.ok:
            state.journal.not_reserved(pod.uid, node, status)
        return NodeReservation(attempt, status)

    def permit(self, reservation: NodeReservation) -> None:
        """Run Permit for a pod that is reserved. Never raises; see `assume_and_reserve`."""
        attempt = reservation.attempt
        cycle, node = attempt.cycle, attempt.node
        try:
            status = attempt.framework.run_permit(cycle, node)
        except Exception as fault:
            status = _fault_status(attempt, fault)
        reservation.status = status
        if self.state.journal is not None:
            self.state.journal.permitted(cycle.pod.uid, node, status)

    def handle_scheduling_failure(self, attempt: Attempt, why: Diagnosis | Status) -> None:
        """Put a pod back into the queue and report why. What it held is given up already."""
        if isinstance(why, Diagnosis):
            self._failures.unschedulable(attempt, why)
        else:
            self._failures.rejected(attempt, why)


def _searched(attempt: Attempt, proposals: Proposals, proposed: str = "") -> NodeSearch:
    cycle = attempt.cycle
    in_pass = cycle.find(IN_PASS) is not None
    if not proposed and proposals.nodes:
        proposed = proposals.nodes.get(cycle.pod.uid, "")
    return NodeSearch(cycle.pod, in_pass, proposed, proposals.model)


def _fault_status(attempt: Attempt, fault: Exception) -> Status:
    if isinstance(fault, PluginFault):
        return error(str(fault))
    log.error("Scheduling failed unexpectedly", exc=fault, pod=attempt.queued.key)
    return error(f"{type(fault).__name__}: {fault}")
