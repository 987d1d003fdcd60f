"""The batch stage: places a backlog at once where pods contend for nodes.

::

    pop up to maxPods ─► a rank after the other ─────► members by class ─► matrices ─► solver
                                 │        │                    ▲                         │
                                 │        │                    │       both ways tried and judged
                                 │        │                    └── left over, ≤ 4 rounds ─┤
                                 │        ▼                                              ▼
                                 │   not a member, nothing to gain,            verified by the real
                                 │   solver failed, left over                  filters, reserved,
                                 │        └─► the normal cycle, in queue order  bound

Ranks are those of the profile's sort plugins: priorities, unless the user has put something else in
their place. A lower rank is looked at when all pods of the higher ones have had their turn, also in
the normal cycle, and pods of higher rank that arrive meanwhile go first: so nobody takes a place
that a pod of higher rank could have had. The solver proposes, and filters decide: what it says
of nodes is as old as its question, and fits on average only.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from scheduler import slices
from scheduler.config.schema import Batch
from scheduler.flow.contention import contends
from scheduler.flow.problem import Solution
from scheduler.flow.process import SolverFailed, SolverProcess
from scheduler.framework.complaints import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.batch_gangs import Gangs
from scheduler.pipeline.batch_members import Enrolment, Key, Member, Membership
from scheduler.pipeline.batch_problem import Posed, Posing
from scheduler.pipeline.batch_taking import Proposal, proposals, verified
from scheduler.pipeline.batch_trial import Overtaken, Seeking, Trials
from scheduler.pipeline.by_class import ByClass
from scheduler.pipeline.placement import CycleError, Placement
from scheduler.queueing.tiers import QueuedPod
from scheduler.queueing.together import GroupQueue
from scheduler.slices import unbroken
from scheduler.state.cache import ClusterState

log = get_logger(__name__)

MOST_ROUNDS = 4
FEW_REFUSED = 0.01
"""The share of a tier whose placements did not hold that is not worth another round: the normal
cycle has the same scores. Another cost model it does not have."""
ENROLLED_TOGETHER = 32
POPPED_TOGETHER = 256
KEPT_REPORTS = 64
R = TypeVar("R")
NOWHERE: Mapping[str, str] = {}

Result = Literal["solved", "uncontended", "greedy", "nowhere", "failed"]


class Backlog(NamedTuple):
    """What batches need from outside."""

    settings: Batch
    solver: SolverProcess


class Attempts(Seeking, Protocol):
    """The normal cycle, as far as batches need it."""

    @property
    def stopped(self) -> bool:
        """Whether no further pods are to be attempted."""
        ...

    def attempt(
        self,
        queued: QueuedPod,
        along: Sequence[QueuedPod] = (),
        nodes: Mapping[str, str] = NOWHERE,
        model: str = "",
    ) -> None:
        """Attempt a pod that was popped, and with it members of its gang that were.

        ``nodes`` are to be tried first, by uid; ``model`` is the cost model that chose them.
        """
        ...

    def accept(self, attempt: Attempt, placement: Placement) -> None:
        """Take a node for a pod, and bind it."""
        ...

    def schedule_next(self) -> QueuedPod | None:
        """Attempt the next pod of the queue."""
        ...

    def postpone(self, queued: QueuedPod) -> bool:
        """Put a pod back whose namespace has enough bindings under way; whether it has."""
        ...

    async def in_turn(self, work: Callable[[], R]) -> R | None:
        """Attempt pods in slices, while nobody else does; None if the loop is stopped."""
        ...

    async def breathe(self) -> None:
        """Let others run, and come back when another pod may be bound."""
        ...


class Report(msgspec.Struct):
    """How one tier of a backlog was placed; for metrics and for people."""

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
    """At once, by what the solver said."""
    placed_one_by_one: int = 0
    """In the normal cycle, after that."""
    pending: int = 0
    """Without a node when all of them had had their turn."""
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


class _Tier(NamedTuple):
    """Pods of one rank, and those of them that are still to be attempted."""

    report: Report
    rank: Any
    """By the profile's sort plugins."""
    waiting: dict[int, QueuedPod]
    """By place in queue order."""
    members: Membership


class Batches:
    """Places backlogs at once. Pods it has popped are all attempted before ``run`` returns."""

    def __init__(
        self,
        backlog: Backlog,
        frameworks: Mapping[str, Framework],
        state: ClusterState,
        queue: GroupQueue,
        classes: ByClass,
        attempts: Attempts,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._solver = backlog
        self._state = state
        self._queue = queue
        self._attempts = attempts
        self._metrics = metrics
        self._clock = clock
        # All profiles share one queue, and sort it alike.
        framework = next(iter(frameworks.values()))
        self._sort_key, self._rank = framework.sort_key, framework.rank
        self._enrolment = Enrolment(frameworks, state, classes)
        self._gangs = Gangs(frameworks, self._enrolment)
        self._posing = Posing(self._settings, state, classes, clock)
        self._trials = Trials(state, queue, attempts, self._enrolment, self._gangs)
        self._by_scores = self._settings.cost_model == "Scores"
        """Whether pods that are left to the normal cycle are placed by the same scores."""
        self._slice_end = 0.0
        self.reports: deque[Report] = deque(maxlen=KEPT_REPORTS)
        self.watch: Callable[[Posed, Solution], None] | None = None
        """Told each problem and its solution, for who wants to draw them."""

    @property
    def due(self) -> bool:
        """Whether enough pods are ready, and the solver may be asked."""
        return self._solver.usable and self._queue.active >= self._settings.min_pending

    async def run(self) -> None:
        """Place what is ready, and what becomes so within the window."""
        if self._settings.window and self._queue.active < self._settings.max_pods:
            await asyncio.sleep(self._settings.window)
        popped = self._gangs.bundle(await self._popped())
        self._slice_end = self._clock() + slices.SLICE_SECONDS
        for rank, pods in groupby(popped, key=self._rank):
            waiting = dict(enumerate(pods))
            uids = [each.info.uid for each in self._gangs.everybody(waiting.values())]
            report = Report(waiting[0].info.priority, len(uids), self._settings.cost_model)
            tier = _Tier(report, rank, waiting, {})
            if len(waiting) >= self._settings.min_pending:
                await self._place_at_once(tier)
            await self._place_rest(tier)
            found = sum(self._state.pod(uid) is not None for uid in uids)
            report.placed_one_by_one, report.pending = found - report.placed, len(uids) - found

    async def _popped(self) -> list[QueuedPod]:
        """The pods that are ready, as many as may be, in queue order."""
        popped: list[QueuedPod] = []
        looked_at = 0
        while len(popped) < self._settings.max_pods and self._queue.active:
            queued = self._queue.pop()
            if queued is None:  # nobody was ready after all
                break
            if not self._attempts.postpone(queued):
                popped.append(queued)
            looked_at += 1
            if looked_at % POPPED_TOGETHER == 0:
                await asyncio.sleep(0)
        # Others have run in between, and pods that go first may have come.
        popped.sort(key=self._sort_key)
        return popped

    async def _place_at_once(self, tier: _Tier) -> None:
        """Place what can be; whatever goes wrong leaves pods to the normal cycle."""
        try:
            await self._enrol(tier)
            if sum(map(len, tier.members.values())) >= self._settings.min_pending:
                await self._solve(tier)
        except SolverFailed as failure:
            tier.report.result = "failed"
            log.error("Pods are placed one by one", error=str(failure), reason=failure.reason)
            self._metrics.batch.solver_failures.labels(failure.reason).inc()
        except (PluginFault, CycleError) as fault:
            tier.report.result = "failed"
            log.error("A batch failed; its pods are placed one by one", error=str(fault))
        except Exception as fault:
            tier.report.result = "failed"
            log.error("A batch failed unexpectedly; its pods are placed one by one", exc=fault)
        self._count(tier)

    async def _place_rest(self, tier: _Tier) -> None:
        """The normal cycle for all pods of a tier that are left, in queue order."""
        left = deque(tier.waiting.values())
        while left:
            await self._breathe(tier)
            if self._attempts.stopped:
                return
            await self._attempts.in_turn(partial(self._attempt_some, left))

    def _attempt_some(self, left: deque[QueuedPod]) -> None:
        """Attempt pods until the slice is over."""
        while left:
            queued = left.popleft()
            self._attempts.attempt(queued, self._gangs.along(queued))
            if self._clock() >= self._slice_end:
                return

    # At once

    async def _enrol(self, tier: _Tier) -> None:
        for place, queued in tier.waiting.items():
            if place % ENROLLED_TOGETHER == 0:
                await self._breathe(tier)
                self._enrolment.look_again()
            if self._attempts.obsolete(queued):
                continue
            gang = self._gangs.enrol(queued, place)
            found = self._enrolment.enrol(queued, place) if gang is None else gang
            if isinstance(found, str):
                count = 1 + len(self._gangs.along(queued))
                self._metrics.batch.excluded_pods.labels(found).inc(count)
                continue
            for member in [found] if isinstance(found, Member) else found:
                tier.members.setdefault(member.key, []).append(member)
        for key in self._enrolment.drawn_together(tier.members):
            count = len(tier.members.pop(key))
            self._metrics.batch.excluded_pods.labels("affinity").inc(count)

    async def _solve(self, tier: _Tier) -> None:
        """Place all members that one problem takes, then the rest of them."""
        tier.report.members = sum(map(len, tier.members.values()))
        members = tier.members
        while members and not self._attempts.stopped:
            members = await self._solve_some(tier, members)

    async def _solve_some(self, tier: _Tier, members: Membership) -> Membership:
        """Pose, solve and take, until what was proposed holds or nothing is gained.

        Returns the members that the first problem had no room for and that are still to be placed.
        """
        report = tier.report
        rest: Membership = {}
        for number in range(MOST_ROUNDS):
            if self._attempts.stopped:
                break
            started = self._clock()
            posed = await self._posing.pose(
                members,
                lambda: self._breathe(tier),
                self._gangs.needs,
            )
            report.pose_seconds += self._clock() - started
            if posed is None:
                break
            if not number:
                rest = posed.rest
            if not report.rounds:
                report.classes, report.nodes = posed.problem.shape
                # Who chooses another cost model wants its nodes, also where all get what they like.
                by_scores = posed.problem.model == "Scores"
                if by_scores and not contends(posed.problem, posed.preferences):
                    report.result = "uncontended"
                    break
            solution = await self._ask(posed, report)
            if not await self._worth_taking(tier, posed, solution):
                report.result = report.result if report.rounds else "greedy"
                break
            report.result = "solved"
            report.rounds += 1
            await self._take_gangs(tier, posed, solution)
            before = report.refused
            refused = await self._take(tier, posed, solution)
            few = FEW_REFUSED * report.members if self._by_scores else 0
            if report.refused - before <= few or not refused:
                break
            # What the flow itself left out will not fit next time either.
            members = {each: tier.members[each] for each in refused if each in tier.members}
        # Those that were refused were posed again with all of their class.
        left = {key: [m for m in each if m.place in tier.waiting] for key, each in rest.items()}
        return {key: each for key, each in left.items() if each}

    async def _ask(self, posed: Posed, report: Report) -> Solution:
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

    async def _worth_taking(self, tier: _Tier, posed: Posed, solution: Solution) -> bool:
        """Whether a solution beats one by one, by the objective of `flow.objective`.

        The one place where ways are compared. A cost model that the user chose decides by itself.
        A pod that goes first ends the comparison: the rest of the band is then placed one by one,
        where each slice lets it go first.
        """
        if posed.problem.model != "Scores" or not self._settings.compare:
            return True
        self._slice_end = 0.0  # others have run since the question, and may have come first
        await self._breathe(tier)
        started, better = self._clock(), False
        try:
            judge = partial(
                self._trials.at_once_is_better,
                tier.waiting,
                posed,
                solution,
                partial(self._overtaken, tier),
            )
            better = bool(await self._attempts.in_turn(judge))
        except Overtaken:
            log.info("A pod of higher rank came; its backlog is placed one by one")
        self._slice_end = 0.0
        elapsed = self._clock() - started
        tier.report.compare_seconds += elapsed
        self._metrics.batch.compare_duration.observe(elapsed)
        return better

    async def _take_gangs(self, tier: _Tier, posed: Posed, solution: Solution) -> None:
        """Have gangs that the solver found nodes for tried as a whole; others wait for the rest."""
        for member, nodes in self._gangs.chosen(posed, solution):
            self._slice_end = 0.0
            await self._breathe(tier)
            if self._attempts.stopped:
                return
            queued = tier.waiting.pop(member.place)
            along = self._gangs.along(queued)
            model = posed.problem.model
            attempt = partial(self._attempts.attempt, queued, along, nodes, model)
            await self._attempts.in_turn(attempt)
            tier.report.placed += sum(self._state.pod(uid) is not None for uid in nodes)
        for key in [key for key in tier.members if key[1]]:
            del tier.members[key]

    async def _take(self, tier: _Tier, posed: Posed, solution: Solution) -> list[Key]:
        """Have placements verified and take them; returns the classes of which some did not hold.

        None of them, if none held at all and the normal cycle has the same scores.
        """
        before = tier.report.placed
        refused: list[Key] = []
        self._slice_end = 0.0  # others have run since the question, and may have come first
        for proposal in proposals(posed, solution):
            while proposal.left:
                await self._breathe(tier)
                if self._attempts.stopped:
                    return []
                await self._attempts.in_turn(partial(self._take_some, tier, proposal))
            tier.report.refused += proposal.refused
            if proposal.refused:
                refused.append(proposal.key)
        return refused if tier.report.placed > before or not self._by_scores else []

    def _take_some(self, tier: _Tier, proposal: Proposal) -> None:
        """Have a few placements verified, and take those that hold before anything else happens."""
        with unbroken():
            verifying = self._clock()
            self._enrolment.look_again()
            chosen = verified(proposal, self._state, self._enrolment.prepared)
            taking = self._clock()
            tier.report.verify_seconds += taking - verifying
            for member, placement in chosen:
                self._accept(tier, member, placement, taking)
            tier.report.take_seconds += self._clock() - taking

    @staticmethod
    def _leave(tier: _Tier, member: Member) -> None:
        del tier.waiting[member.place]
        same = tier.members[member.key]
        same.remove(member)
        if not same:
            del tier.members[member.key]

    def _accept(self, tier: _Tier, member: Member, placement: Placement, now: float) -> None:
        self._leave(tier, member)
        queued = member.queued
        if self._attempts.obsolete(queued) or not self._queue.expects(queued.info.uid):
            self._queue.done(queued.info.uid)
            return
        attempt = Attempt(queued, member.framework, member.cycle, now, member.pod_class)
        self._attempts.accept(attempt, placement)
        tier.report.placed += self._state.pod(queued.info.uid) is not None

    # Turns

    async def _breathe(self, tier: _Tier) -> None:
        """Let others run when the slice is over, and pods of higher rank go first."""
        if self._clock() < self._slice_end:
            return
        await self._attempts.breathe()
        while self._overtaken(tier) and not self._attempts.stopped:
            await self._attempts.in_turn(self._attempt_next)
            await self._attempts.breathe()
        self._slice_end = self._clock() + slices.SLICE_SECONDS

    def _overtaken(self, tier: _Tier) -> bool:
        """Whether a pod is ready that goes before those of a tier."""
        head = self._queue.peek()
        return head is not None and bool(self._rank(head) < tier.rank)

    def _attempt_next(self) -> None:
        self._attempts.schedule_next()

    def _count(self, tier: _Tier) -> None:
        report, metrics = tier.report, self._metrics
        self.reports.append(report)
        metrics.batch.tiers.labels(report.result).inc()
        metrics.batch.rounds.inc(report.rounds)
        metrics.batch.refused.inc(report.refused)
        metrics.batch.pods.labels("placed").inc(report.placed)
        metrics.batch.pods.labels("left").inc(len(tier.waiting))
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
