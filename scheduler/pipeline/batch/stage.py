"""The batch stage: places a backlog at once where pods contend for nodes.

::

    pop up to maxPods ─► a priority band after the other ─► members by class ─► matrices ─► solver
                                        │                    ▲                         │
                                        │                    │     both ways tried and compared
                                        │                    └── left over, ≤ 4 rounds ─┤
                                        ▼                                              ▼
                                   not eligible, nothing to gain,            verified by Filter,
                                   solver failed, left over                  then `schedule_pod`
                                        └─► one by one, in queue order

A band has the pods of one rank of the profile's sort plugins: one priority, unless the user has
configured another order. A lower band begins when all pods of the higher ones have been attempted,
also one by one, and pods of higher rank that arrive meanwhile go first: so no pod takes a place
that a pod of higher rank could have had. The solver proposes and filters decide: its view of the
nodes is as old as its question, and its capacities are averages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from scheduler import slices
from scheduler.config.schema import BatchSettings
from scheduler.flow.contention import contends
from scheduler.flow.problem import Solution
from scheduler.flow.process import Reason, SolverFailed, SolverProcess
from scheduler.framework.faults import PluginFault
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.batch.eligibility import BatchEligibility, Key, Member, Membership
from scheduler.pipeline.batch.gangs import BatchGangs
from scheduler.pipeline.batch.problem import BatchProblem, ProblemBuilder
from scheduler.pipeline.batch.trial import Overtaken, Trials
from scheduler.pipeline.batch.verification import Proposal, proposals, verified
from scheduler.pipeline.evaluation import ClassCache, CycleError
from scheduler.pipeline.placement import Placement, Proposals
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.slices import unbroken

if TYPE_CHECKING:
    from scheduler.pipeline.scheduler import Scheduler

log = get_logger(__name__)

MOST_ROUNDS = 4
FEW_REFUSED = 0.01
"""The share of rejected placements of a band that is not worth another round: scheduling one by one
uses the same scores. It does not use another cost model."""
ADMITTED_TOGETHER = 32
POPPED_TOGETHER = 256
KEPT_REPORTS = 64

Result = Literal["solved", "uncontended", "greedy", "nowhere", "failed"]


class BatchConfig(NamedTuple):
    """The settings of batches and the process that solves their problems."""

    settings: BatchSettings
    solver: SolverProcess


class BandReport(msgspec.Struct):
    """How one priority band of a backlog was placed; for metrics and for people."""

    priority: int
    """Of the first pod; of all, unless a profile sorts by something else."""
    pods: int
    """All of them, members of gangs included: ``placed``, ``placed_one_by_one`` and ``pending``."""
    model: str
    """The cost model."""
    result: Result = "nowhere"
    members: int = 0
    """Those that took part, so that the solver looked for nodes for them."""
    classes: int = 0
    nodes: int = 0
    arcs: int = 0
    """Of the first round, as is ``classes``."""
    rounds: int = 0
    placed: int = 0
    """At once, as the solver proposed."""
    placed_one_by_one: int = 0
    """One by one, after that."""
    pending: int = 0
    """Without a node after all of them were attempted."""
    refused: int = 0
    """Placements that filters did not confirm; most of these pods are placed elsewhere."""
    pose_seconds: float = 0.0
    solve_seconds: float = 0.0
    """With the way to the solver and back."""
    solver_cpu_seconds: float = 0.0
    compare_seconds: float = 0.0
    """Trying both ways, to keep the better one."""
    verify_seconds: float = 0.0
    take_seconds: float = 0.0
    """Reserving, and the beginning of binding."""


class PriorityBand(NamedTuple):
    """Pods of one rank, and those of them that are still to be attempted."""

    report: BandReport
    rank: Any
    """By the profile's sort plugins."""
    waiting: dict[int, QueuedPod]
    """By place in queue order."""
    members: Membership


class Batches:
    """Places backlogs at once. Pods it has popped are all attempted before ``run`` returns."""

    def __init__(
        self,
        scheduler: Scheduler,
        class_cache: ClassCache,
        config: BatchConfig,
        metrics: Metrics,
    ) -> None:
        self._settings, self._solver = config
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._metrics = metrics
        self._failures = {
            reason: metrics.batch.solver_failures.labels(reason) for reason in get_args(Reason)
        }
        self._clock = scheduler.clock
        # All profiles share one queue, and sort it alike.
        framework = next(iter(scheduler.frameworks.values()))
        self._sort_key, self._rank = framework.sort_key, framework.rank
        self._eligibility = BatchEligibility(scheduler.frameworks, self._state, class_cache)
        self._gangs = BatchGangs(scheduler.frameworks, self._eligibility)
        self._problems = ProblemBuilder(self._settings, self._state, class_cache, self._clock)
        self._trials = Trials(scheduler, self._eligibility, self._gangs)
        self._by_scores = self._settings.cost_model == "Scores"
        """Whether pods that are placed one by one are placed by the same scores."""
        self._slice_end = 0.0
        self.reports: deque[BandReport] = deque(maxlen=KEPT_REPORTS)
        self.ended: deque[float] = deque(maxlen=KEPT_REPORTS)
        """When the last of them were solved or given up, by the clock."""
        self.watch: Callable[[BatchProblem, Solution], None] | None = None
        """Called with each problem and its solution, to draw them."""

    @property
    def due(self) -> bool:
        """Whether enough pods are ready, and the solver is usable."""
        return self._solver.usable and self._queue.active >= self._settings.min_pending

    async def run(self) -> None:
        """Place what is ready, and what becomes so within the window."""
        if self._settings.window and self._queue.active < self._settings.max_pods:
            await asyncio.sleep(self._settings.window)
        popped = self._gangs.bundle(await self._popped())
        self._slice_end = self._clock() + slices.SLICE_SECONDS
        for rank, pods in groupby(popped, key=self._rank):
            waiting = dict(enumerate(pods))
            uids = [each.info.uid for each in self._gangs.with_members(waiting.values())]
            report = BandReport(waiting[0].info.priority, len(uids), self._settings.cost_model)
            band = PriorityBand(report, rank, waiting, {})
            if len(waiting) >= self._settings.min_pending:
                await self._place_at_once(band)
            await self._place_rest(band)
            found = sum(self._state.pod(uid) is not None for uid in uids)
            report.placed_one_by_one, report.pending = found - report.placed, len(uids) - found

    async def _popped(self) -> list[QueuedPod]:
        """The pods that are ready, as many as may be, in queue order."""
        popped: list[QueuedPod] = []
        looked_at = 0
        while len(popped) < self._settings.max_pods and self._queue.active:
            queued = self._queue.pop()
            if queued is None:  # none was ready after all
                break
            if not self._scheduler.bindings.postpone(queued):
                popped.append(queued)
            looked_at += 1
            if looked_at % POPPED_TOGETHER == 0:
                await asyncio.sleep(0)
        # Other tasks ran in between, and pods of higher rank may have arrived.
        popped.sort(key=self._sort_key)
        return popped

    async def _place_at_once(self, band: PriorityBand) -> None:
        """Place what can be placed at once; after a failure the pods are placed one by one."""
        try:
            await self._admit(band)
            if sum(map(len, band.members.values())) >= self._settings.min_pending:
                await self._solve(band)
        except SolverFailed as failure:
            band.report.result = "failed"
            log.error("Pods are placed one by one", error=str(failure), reason=failure.reason)
            self._failures[failure.reason].inc()
        except (PluginFault, CycleError) as fault:
            band.report.result = "failed"
            log.error("A batch failed; its pods are placed one by one", error=str(fault))
        except Exception as fault:
            band.report.result = "failed"
            log.error("A batch failed unexpectedly; its pods are placed one by one", exc=fault)
        self._count(band)

    async def _place_rest(self, band: PriorityBand) -> None:
        """Schedule all pods of a band that are left one by one, in queue order."""
        left = deque(band.waiting.values())
        while left:
            await self._yield_slice(band)
            if self._scheduler.stopped:
                return
            await self._scheduler.in_turn(partial(self._schedule_some, left))

    def _schedule_some(self, left: deque[QueuedPod]) -> None:
        """Attempt pods until the slice is over."""
        while left:
            queued = left.popleft()
            self._scheduler.schedule_popped(queued, self._gangs.along(queued))
            if self._clock() >= self._slice_end:
                return

    # At once

    async def _admit(self, band: PriorityBand) -> None:
        for place, queued in band.waiting.items():
            if place % ADMITTED_TOGETHER == 0:
                await self._yield_slice(band)
                self._eligibility.classes_may_change()
            if self._scheduler.skip_pod_schedule(queued):
                continue
            gang = self._gangs.admit(queued, place)
            found = self._eligibility.admit(queued, place) if gang is None else gang
            if isinstance(found, str):
                count = 1 + len(self._gangs.along(queued))
                self._metrics.batch.excluded_pods.labels(found).inc(count)
                continue
            for member in [found] if isinstance(found, Member) else found:
                band.members.setdefault(member.key, []).append(member)
        for key in self._eligibility.drawn_together(band.members):
            count = len(band.members.pop(key))
            self._metrics.batch.excluded_pods.labels("affinity").inc(count)

    async def _solve(self, band: PriorityBand) -> None:
        """Place all members that one problem takes, then the rest of them."""
        band.report.members = sum(map(len, band.members.values()))
        members = band.members
        while members and not self._scheduler.stopped:
            members = await self._solve_some(band, members)

    async def _solve_some(self, band: PriorityBand, members: Membership) -> Membership:
        """Build, solve and reserve, until all proposals hold or nothing is gained.

        Returns the members that the first problem had no room for and that are still to be placed.
        """
        report = band.report
        rest: Membership = {}
        for number in range(MOST_ROUNDS):
            if self._scheduler.stopped:
                break
            started = self._clock()
            posed = await self._problems.build(
                members,
                lambda: self._yield_slice(band),
                self._gangs.needs,
            )
            report.pose_seconds += self._clock() - started
            if posed is None:
                break
            if not number:
                rest = posed.rest
            if not report.rounds:
                report.classes, report.nodes = posed.problem.shape
                # Another cost model is to choose the nodes, also if no pods contend for them.
                by_scores = posed.problem.model == "Scores"
                if by_scores and not contends(posed.problem, posed.preferences):
                    report.result = "uncontended"
                    break
            solution = await self._ask_solver(posed, report)
            if not await self._beats_one_by_one(band, posed, solution):
                report.result = report.result if report.rounds else "greedy"
                break
            report.result = "solved"
            report.rounds += 1
            await self._schedule_gangs(band, posed, solution)
            before = report.refused
            refused = await self._reserve_verified(band, posed, solution)
            few = FEW_REFUSED * report.members if self._by_scores else 0
            if report.refused - before <= few or not refused:
                break
            # What the flow itself left out will not fit next time either.
            members = {each: band.members[each] for each in refused if each in band.members}
        # Rejected pods were in the next problem with all of their class.
        left = {key: [m for m in each if m.place in band.waiting] for key, each in rest.items()}
        return {key: each for key, each in left.items() if each}

    async def _ask_solver(self, posed: BatchProblem, report: BandReport) -> Solution:
        started = self._clock()
        solution = await self._solver.solve(posed.problem)
        elapsed = self._clock() - started
        report.solve_seconds += elapsed
        report.solver_cpu_seconds += solution.build_seconds + solution.solve_seconds
        report.solver_cpu_seconds += solution.read_seconds
        report.arcs = report.arcs or solution.arcs
        self._metrics.batch.solve_duration.observe(elapsed)
        self._metrics.batch.arcs.set(solution.arcs)
        if self.watch is not None:
            self.watch(posed, solution)
        return solution

    async def _beats_one_by_one(
        self, band: PriorityBand, posed: BatchProblem, solution: Solution
    ) -> bool:
        """Whether a solution beats one by one, by the objective of `flow.objective`.

        The one place where ways are compared. A cost model that the user chose decides by itself.
        A pod of higher rank ends the comparison: the rest of the band is then placed one by one,
        where each slice lets that pod go first.
        """
        if posed.problem.model != "Scores" or not self._settings.compare:
            return True
        self._slice_end = 0.0  # pods of higher rank may have arrived since the question
        await self._yield_slice(band)
        started, better = self._clock(), False
        try:
            judge = partial(
                self._trials.at_once_is_better,
                band.waiting,
                posed,
                solution,
                partial(self._overtaken, band),
            )
            better = bool(await self._scheduler.in_turn(judge))
        except Overtaken:
            log.info("A pod of higher rank came; its backlog is placed one by one")
        self._slice_end = 0.0
        elapsed = self._clock() - started
        band.report.compare_seconds += elapsed
        self._metrics.batch.compare_duration.observe(elapsed)
        return better

    async def _schedule_gangs(
        self, band: PriorityBand, posed: BatchProblem, solution: Solution
    ) -> None:
        """Try gangs that the solver found nodes for, each as a whole; others are left for later."""
        for member, nodes in self._gangs.chosen(posed, solution):
            self._slice_end = 0.0
            await self._yield_slice(band)
            if self._scheduler.stopped:
                return
            queued = band.waiting.pop(member.place)
            along = self._gangs.along(queued)
            proposals = Proposals(nodes, posed.problem.model)
            attempt = partial(self._scheduler.schedule_popped, queued, along, proposals)
            await self._scheduler.in_turn(attempt)
            band.report.placed += sum(self._state.pod(uid) is not None for uid in nodes)
        for key in [key for key in band.members if key[1]]:
            del band.members[key]

    async def _reserve_verified(
        self, band: PriorityBand, posed: BatchProblem, solution: Solution
    ) -> list[Key]:
        """Verify and reserve placements; returns the classes of which some were rejected.

        None of them, if none held at all and one by one uses the same scores.
        """
        before = band.report.placed
        refused: list[Key] = []
        self._slice_end = 0.0  # pods of higher rank may have arrived since the question
        for proposal in proposals(posed, solution):
            while proposal.left:
                await self._yield_slice(band)
                if self._scheduler.stopped:
                    return []
                await self._scheduler.in_turn(partial(self._verify_and_reserve, band, proposal))
            band.report.refused += proposal.refused
            if proposal.refused:
                refused.append(proposal.key)
        return refused if band.report.placed > before or not self._by_scores else []

    def _verify_and_reserve(self, band: PriorityBand, proposal: Proposal) -> None:
        """Verify a few placements, and reserve those that pass before anything else happens."""
        with unbroken():
            verifying = self._clock()
            self._eligibility.classes_may_change()
            chosen = verified(proposal, self._state, self._eligibility)
            taking = self._clock()
            band.report.verify_seconds += taking - verifying
            for member, placement in chosen:
                self._schedule_verified(band, member, placement, taking)
            band.report.take_seconds += self._clock() - taking

    @staticmethod
    def _leave(band: PriorityBand, member: Member) -> None:
        del band.waiting[member.place]
        same = band.members[member.key]
        same.remove(member)
        if not same:
            del band.members[member.key]

    def _schedule_verified(
        self, band: PriorityBand, member: Member, placement: Placement, now: float
    ) -> None:
        self._leave(band, member)
        queued = member.queued
        if self._scheduler.skip_pod_schedule(queued) or not self._queue.is_in_flight(
            queued.info.uid
        ):
            self._queue.done(queued.info.uid)
            return
        attempt = Attempt(queued, member.framework, member.cycle, now, member.pod_class)
        self._scheduler.schedule_pod(attempt, placement=placement)
        band.report.placed += self._state.pod(queued.info.uid) is not None

    # Turns

    async def _yield_slice(self, band: PriorityBand) -> None:
        """Yield to other tasks when the slice is over, and to pods of higher rank."""
        if self._clock() < self._slice_end:
            return
        await self._scheduler.yield_slice()
        while self._overtaken(band) and not self._scheduler.stopped:
            await self._scheduler.in_turn(self._schedule_next)
            await self._scheduler.yield_slice()
        self._slice_end = self._clock() + slices.SLICE_SECONDS

    def _overtaken(self, band: PriorityBand) -> bool:
        """Whether a pod of higher rank than those of a band is ready."""
        head = self._queue.peek()
        return head is not None and bool(self._rank(head) < band.rank)

    def _schedule_next(self) -> None:
        self._scheduler.schedule_one()

    def _count(self, band: PriorityBand) -> None:
        report, metrics = band.report, self._metrics
        self.reports.append(report)
        self.ended.append(self._clock())
        metrics.batch.tiers.labels(report.result).inc()
        metrics.batch.rounds.inc(report.rounds)
        metrics.batch.refused.inc(report.refused)
        metrics.batch.pods.labels("placed").inc(report.placed)
        metrics.batch.pods.labels("left").inc(len(band.waiting))
        if report.result == "solved":
            log.info(
                "Backlog placed at once",
                pods=report.pods,
                placed=report.placed,
                rounds=report.rounds,
                refused=report.refused,
                arcs=report.arcs,
                seconds=round(report.solve_seconds, 3),
            )
