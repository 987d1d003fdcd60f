"""The binding cycle: one task per pod waits for permission, runs PreBind and Bind, and reports.

Up to ``limit`` pods are bound at once, and the scheduler waits for room before it pops the next
pod. Pods that still wait for permission or for their volumes may do so for minutes, so they do not
count, as long as there are no more than ``total`` tasks. Nor do those of a namespace whose requests
hang: further pods of such a namespace wait in the queue.

Between the decision and its request a pod may wait: for permission, for volumes, for a slot, for
another try. Meanwhile nodes go, change and get pods of others. So each decision is checked again
before its request (`FreshnessCheck`). Our own later decisions do not matter: they were made with
this pod in its place. The state numbers what does matter (`ClusterState.node_version`). If the
number is unchanged there is nothing to do, else the filters run again for that one node, with the
pod itself taken off it. Plugins that reserve already count the pod in books of their own, and
plugins out of process cannot be asked in passing: their verdicts are not checked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from scheduler import machine
from scheduler.framework.faults import PluginFault
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.decisions import Decisions
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Children, Metrics, attempts_label
from scheduler.pipeline.attempt import Attempt, unreserve_and_forget
from scheduler.pipeline.confirmation import Unconfirmed
from scheduler.pipeline.evaluation import CycleError, evaluate
from scheduler.pipeline.failure import FailureHandler
from scheduler.pipeline.headroom import Headroom
from scheduler.pipeline.open_bindings import OpenBindings
from scheduler.plugin_api.cycle import STALE, Cycle
from scheduler.plugin_api.outlet import Outlet, StaleReason
from scheduler.plugin_api.waiting import MAX_WAIT, WaitingPod, Waits
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.scheduling_queue import SchedulingQueue

log = get_logger(__name__)

DEFAULT_LIMIT = 1024
DEFAULT_TOTAL = 16_384
PAUSE_SECONDS = 0.05
STARTED_AT_ONCE = 16
CROWDED = "bindings of namespace {} hang: others of its pods have to end first"


POD_GONE = "pod"
NODE_GONE = "node"
NO_ROOM = "fit"


class Bindings:
    """All binding tasks of a scheduler."""

    def __init__(
        self,
        queue: SchedulingQueue,
        outlet: Outlet,
        failures: FailureHandler,
        metrics: Metrics,
        decisions: Decisions,
        unconfirmed: Unconfirmed,
        waits: Waits,
        headroom: Headroom,
        *,
        limit: int = DEFAULT_LIMIT,
        total: int = DEFAULT_TOTAL,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self._queue = queue
        self._outlet = outlet
        self._failures = failures
        self._metrics = metrics
        self._decisions = decisions
        self._unconfirmed = unconfirmed
        self._waits = waits
        self._headroom = headroom
        self._limit = limit
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], Attempt | None] = {}
        """Each with its attempt; None, if it starts others."""
        self.open = OpenBindings(total, clock)
        self._postponed: dict[str, dict[str, None]] = {}
        """Pods that wait in the queue because their namespace has enough under way."""
        self._outdated = Children(metrics.decisions_outdated)
        self._running = metrics.goroutines.labels("binding")
        self._awaited: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._attempts = Children(metrics.schedule_attempts)
        self._durations = Children(metrics.scheduling_attempt_duration)
        self._sli = Children(metrics.pod_scheduling_sli_duration)

    def __len__(self) -> int:
        """How many pods are between reservation and the end of binding."""
        return len(self._tasks)

    def uids(self) -> set[str]:
        """The pods that are between reservation and the end of binding; O(n)."""
        return {attempt.cycle.pod.uid for attempt in self.attempts()}

    def attempts(self) -> list[Attempt]:
        """The attempts at them, in the order in which nodes were reserved; O(n)."""
        return [attempt for attempt in self._tasks.values() if attempt is not None]

    def attempt_of(self, uid: str) -> Attempt | None:
        """The attempt at one of them; O(n)."""
        return next((each for each in self.attempts() if each.cycle.pod.uid == uid), None)

    @property
    def writing(self) -> int:
        """How many of them may have sent their binding: those that wait for no permission."""
        return self.open.binding

    @property
    def full(self) -> bool:
        """Whether no more tasks may be started now."""
        bindings = self.open
        if bindings.shares.held >= bindings.shares.size:
            return True
        return bindings.binding >= self._limit and bindings.counted() >= self._limit

    async def room(self) -> None:
        """Return when others may be started; after a stop, when there is room for many.

        Decisions in a row are cheaper than one for each binding that ends. But those that end do
        not wait long for those that hang.
        """
        while self.full:
            await self._until(self._roomy, at_most=PAUSE_SECONDS)

    def _roomy(self) -> bool:
        few = self._limit - self._limit // 8
        return not self.open.shares.full and self.open.counted() <= few

    def postpone(self, queued: QueuedPod) -> bool:
        """Put a pod that was popped back, if its namespace has enough under way; whether it has.

        It backs off, and is activated early when another binding of its namespace has ended.
        """
        namespace = queued.info.pod.metadata.namespace
        if not self.open.is_full(namespace):
            return False
        self._metrics.bindings_postponed.inc()
        self._postponed.setdefault(namespace, {})[queued.key] = None
        self._queue.requeue_error(queued, CROWDED.format(namespace))
        return True

    async def idle(self) -> None:
        """Return when no binding is under way."""
        while self._tasks:
            await self._until(lambda: not self._tasks)

    async def settled(self) -> None:
        """Return when there is no binding whose outcome is unknown; others may wait to begin."""
        while self.writing:
            await self._until(lambda: not self.writing)

    def cancel(self) -> None:
        """Cancel what is under way; the watch shows the next leader the outcome."""
        for task in list(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancel what is under way and wait for its end."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, attempt: Attempt) -> None:
        """Bind in the background."""
        pod = attempt.cycle.pod
        self._queue.placed(pod.uid)
        self.open.begin(pod.pod.metadata.namespace)
        task = asyncio.create_task(self._run(attempt), name=f"bind {pod.key}")
        self._tasks[task] = attempt
        task.add_done_callback(self._ended)
        self._running.inc()

    def start_together(self, attempts: Sequence[Attempt]) -> None:
        """Bind several pods, of which all are to be started or none; many take some slices."""
        if len(attempts) <= STARTED_AT_ONCE:
            for attempt in attempts:
                self.start(attempt)
            return
        task = asyncio.create_task(self._start_all(attempts), name="start bindings")
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    async def _start_all(self, attempts: Sequence[Attempt]) -> None:
        for number, attempt in enumerate(attempts, 1):
            self.start(attempt)
            if number % STARTED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        attempt = self._tasks.pop(task)
        if attempt is None:
            self._changed()
            return
        pod = attempt.cycle.pod
        namespace = pod.pod.metadata.namespace
        self.open.end(pod.uid, namespace)
        self._running.dec()
        self._changed()
        if self._postponed:
            self._activate_postponed(namespace)

    def _activate_postponed(self, namespace: str) -> None:
        """Activate the next pod of a namespace that was postponed, one for one that ended."""
        waiting = self._postponed.get(namespace)
        if not waiting:
            return
        while waiting and not self.open.is_full(namespace):
            key = next(iter(waiting))
            del waiting[key]
            if self._queue.activate((key,)):
                break
        # The last one has ended: those that are left are tried after their back-off.
        if not waiting or not self.open.shares.of(namespace):
            del self._postponed[namespace]

    async def _until(self, condition: Callable[[], bool], at_most: float | None = None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited = (condition, turn)
        self._awaited.append(awaited)
        try:
            await asyncio.wait((turn,), timeout=at_most)
        finally:
            self._awaited.remove(awaited)

    def _changed(self) -> None:
        for condition, turn in self._awaited:
            if not turn.done() and condition():
                turn.set_result(None)

    async def _run(self, attempt: Attempt) -> None:
        check = FreshnessCheck(attempt, self._queue, self.open)
        try:
            status = await self._bind(attempt, check)
        except PluginFault as fault:
            status = error(str(fault))
        except Exception as fault:
            log.error("Binding failed unexpectedly", exc=fault, pod=attempt.cycle.pod.key)
            status = error(f"{type(fault).__name__}: {fault}")
        if status.ok:
            self._finish(attempt)
        else:
            unreserve_and_forget(attempt, status)
            if check.reason:
                self._outdated[check.cause,].inc()
                self._failures.outdated(attempt, check.reason)
            else:
                self._failures.rejected(attempt, status)

    async def _bind(self, attempt: Attempt, check: FreshnessCheck) -> Status:
        status = await self._ready(attempt, check)
        if not status.ok:
            return status
        if not attempt.framework.asks_if_stale and (reason := check.check()):
            return error(reason)
        stale: StaleReason = check
        attempt.cycle.put(STALE, stale)
        try:
            return await attempt.framework.run_bind(attempt.cycle, attempt.node)
        finally:
            attempt.cycle.drop(STALE)  # it holds the attempt: a cycle for the garbage collector

    async def _ready(self, attempt: Attempt, check: FreshnessCheck) -> Status:
        """Wait for permission, leave room to other schedulers, and have the node prepared."""
        framework, cycle, node = attempt.framework, attempt.cycle, attempt.node
        asks = self._asks_permission(attempt)
        works = self._announce_wait(attempt)
        held = self._headroom.keeps_from(cycle.pod, node) and _may_wait(attempt)
        if not (works or held or asks) and framework.skips_pre_bind(cycle):
            return SUCCESS  # most pods wait for nothing
        namespace = cycle.pod.pod.metadata.namespace
        self.open.prepare(namespace)
        self._changed()
        try:
            status = await self._permitted(attempt)
            if not status.ok:
                return status
            if self._headroom.keeps_from(cycle.pod, node) and _may_wait(attempt):
                status = await self._leave_headroom(attempt, check)
                if not status.ok:
                    return status
            return await framework.run_pre_bind(cycle, node)
        finally:
            self.open.prepared(namespace)

    def _asks_permission(self, attempt: Attempt) -> bool:
        """Whether the pod waits at Permit, or plugins out of process are asked about it."""
        framework = attempt.framework
        if attempt.barrier is not None or framework.remote.reserves:
            return True
        return attempt.cycle.pod.uid in framework.waiting

    async def _leave_headroom(self, attempt: Attempt, check: FreshnessCheck) -> Status:
        """Wait while the node keeps the room for other schedulers; an error if they take it."""
        reason = await self._headroom.wait(attempt.cycle.pod, attempt.node, check.check)
        return error(reason) if reason else SUCCESS

    def _announce_wait(self, attempt: Attempt) -> bool:
        """Write the chosen node to the pod's status, if it is not bound at once; whether it is."""
        framework, cycle = attempt.framework, attempt.cycle
        waiting = framework.waiting.get(cycle.pod.uid)
        if waiting is not None and not waiting.decided:
            self._waits.announce(cycle, waiting)
        elif framework.has_pre_bind_work(cycle, attempt.node):
            self._waits.nominate(cycle, attempt.node)
        else:
            return False
        return True

    async def _permitted(self, attempt: Attempt) -> Status:
        """Run Reserve and Permit out of process, then wait for the Permit plugins in process."""
        framework, cycle = attempt.framework, attempt.cycle
        alone = attempt.barrier is None and not framework.remote.reserves
        refusal = SUCCESS if alone else await self._permitted_out_of_process(attempt)
        if not refusal.ok and (waiting := framework.waiting.get(cycle.pod.uid)) is not None:
            waiting.reject(refusal.plugin, refusal.message, refusal.code)
        waited = cycle.pod.uid in framework.waiting
        status = await framework.wait_on_permit(cycle)
        if waited and cycle.state.journal is not None:
            cycle.state.journal.wait_ended(cycle.pod.uid)
        return status if refusal.ok else refusal

    async def _permitted_out_of_process(self, attempt: Attempt) -> Status:
        """The verdict out of process on the pod, and on enough others if it is in a gang."""
        barrier = attempt.barrier
        refusal = error("")
        if barrier is not None:
            barrier.when_too_few(partial(self._waits.reject, attempt.cycle.pod.uid))
        try:
            refusal = await attempt.framework.remote.reserve_and_permit(attempt.cycle, attempt.node)
        finally:
            if barrier is not None and not refusal.ok:
                barrier.reject()
        if barrier is None or not refusal.ok:
            return refusal
        if (verdict := barrier.permit()) is not None:
            return verdict
        if (held := attempt.framework.waiting.get(attempt.cycle.pod.uid)) is not None:
            return await barrier.wait(held)  # its gang has it wait already
        timeouts = {barrier.plugin: MAX_WAIT}  # its members' own waits end sooner
        waiting = WaitingPod(attempt.cycle.pod, attempt.node, timeouts)
        with self._waits.holding(attempt.cycle, waiting):
            return await barrier.wait(waiting)

    def _finish(self, attempt: Attempt) -> None:
        pod, queued, node = attempt.cycle.pod, attempt.queued, attempt.node
        if (journal := attempt.cycle.state.journal) is not None:
            journal.bound(pod.uid, node)
        self._queue.done(pod.uid)
        if attempt.cycle.state.assumed(pod.uid):
            self._unconfirmed.expect(attempt)
        self._observe(attempt)
        log.debug("Pod bound", pod=pod.key, node=node)
        note = f"Successfully assigned {pod.key} to {node}"
        self._outlet.record_event(pod, "Normal", "Scheduled", "Binding", note)
        if queued.was_flushed:
            self._metrics.pod_scheduled_after_flush.inc()
        try:
            attempt.framework.run_post_bind(attempt.cycle, node)
        except PluginFault as fault:
            log.error("Plugin failed after binding", exc=fault, pod=pod.key)

    def _observe(self, attempt: Attempt) -> None:
        placement, queued, now = attempt.placement, attempt.queued, self._clock()
        assert placement is not None, "a bound pod has a placement"
        profile = attempt.framework.profile
        self._attempts["scheduled", profile].inc()
        self._durations["scheduled", profile].observe(now - attempt.started)
        self._metrics.pod_scheduling_attempts.observe(queued.attempts)
        if queued.initial_attempt is not None:
            label = attempts_label(queued.attempts)
            self._sli[label,].observe(now - queued.initial_attempt)
        self._decisions.record(
            attempt.cycle.pod.key,
            "scheduled",
            node=placement.node,
            score=placement.score,
            feasible=placement.feasible,
            evaluated=placement.evaluated,
            duration=now - attempt.started,
            model=placement.model,
        )
        if queued.attempts > 1:
            self._decisions.history.record(attempt.cycle.pod.uid, "", placement.node)


def _may_wait(attempt: Attempt) -> bool:
    """Whether the binding may wait to leave room to other schedulers.

    Not for a member of a pod group, whose other members would run without it, nor for a pod for
    which others were evicted.
    """
    groups, pod = attempt.framework.groups, attempt.cycle.pod
    if groups is not None and groups.group_of(pod) is not None:
        return False
    return pod.pod.status.nominated_node_name != attempt.node


class FreshnessCheck:
    """Whether one decision still holds. Called before each request; see `Outlet.bind`."""

    __slots__ = ("_attempt", "_node", "_open", "_queue", "_state", "_uid", "cause", "reason")

    def __init__(self, attempt: Attempt, queue: SchedulingQueue, open_: OpenBindings) -> None:
        self._attempt = attempt
        self._uid = attempt.cycle.pod.uid
        self._state = attempt.cycle.state
        assert attempt.placement is not None, "a decision has a node"
        self._node = attempt.placement.node
        self._queue = queue
        self._open = open_
        self.reason = ""
        """Why the decision does not hold; empty as long as it does."""
        self.cause = ""

    def __call__(self) -> str:
        """A request is about to go out: why the decision no longer holds; empty if it does."""
        self._open.sent(self._uid, self._attempt.cycle.pod.pod.metadata.namespace)
        return self.check()

    def check(self) -> str:
        """Why the decision no longer holds; empty if it does."""
        uid = self._uid
        # An assumed pod is where it was assumed to be.
        holds = self._state.undisturbed(uid, self._node, self._attempt.node_version)
        return "" if holds and self._queue.is_in_flight_and_live(uid) else self._explain()

    def _explain(self) -> str:
        pod, node = self._attempt.cycle.pod, self._node
        state = self._attempt.cycle.state
        booked = state.pod(pod.uid)
        if booked is None:
            return self._refuse(POD_GONE, "the pod is gone")
        if booked.node_name != node:
            return self._refuse(POD_GONE, f"the pod is on node {booked.node_name}")
        if not state.assumed(pod.uid):
            return ""  # bound already: the watch has confirmed it
        if not self._queue.is_in_flight_and_live(pod.uid):
            return self._refuse(POD_GONE, "the pod is being deleted")
        return self._look_again(state.node_version(node))

    def _look_again(self, version: int) -> str:
        node = self._attempt.node
        if not version:
            return self._refuse(NODE_GONE, f"node {node} is gone")
        try:
            reason = _verdict(self._attempt)
        except (PluginFault, CycleError) as fault:
            reason = str(fault)
        if reason:
            return self._refuse(NO_ROOM, f"node {node} no longer fits: {reason}")
        self._attempt.node_version = version
        return ""

    def _refuse(self, cause: str, reason: str) -> str:
        self.cause, self.reason = cause, reason
        return reason


def _verdict(attempt: Attempt) -> str:
    """Why the pod does not fit on its node any more, as if it were not there yet; empty if it does.

    One row for each filter, and the preparation of each for the pod. Nothing here awaits.
    """
    state, framework, node = attempt.cycle.state, attempt.framework, attempt.node
    booked = state.pod(attempt.cycle.pod.uid)
    assert booked is not None, "a pod that is assumed is booked"
    pod = booked.bound_to("")  # its newest version
    cycle = Cycle(pod, state)
    cycle.skip("filter", framework.reserving)
    # Not `scratch`: those that follow pods by events, as NUMA cells do, must not count it either.
    state.forget(pod.uid, trial=True)
    try:
        evaluation = evaluate(framework, cycle)
        if (rejection := evaluation.rejection) is not None:
            return rejection.pre_filter.message if rejection.pre_filter is not None else ""
        if evaluation.node_names is not None and node not in evaluation.node_names:
            return evaluation.excluded.message
        row = state.row(node)
        assert row is not None, "a node with a version has a row"
        (code,) = framework.run_filters(cycle, np.array([row], np.intp))
        return state.statuses.status(int(code)).message if code else ""
    finally:
        state.assume(pod, node)
