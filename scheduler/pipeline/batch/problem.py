"""The problem of placing a backlog: columns and class results as the matrices of the solver."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from scheduler.config.schema import BatchSettings
from scheduler.equivalence.classes import SCORE, PodClass
from scheduler.equivalence.reads import Declaration
from scheduler.flow.cpu_memory import fit_one_network, task_class
from scheduler.flow.problem import UNFIT, Ints, PriceSteps, Problem
from scheduler.flow.units import measure
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import CPU, MEMORY, PODS
from scheduler.pipeline.batch.eligibility import Key, Member, Membership
from scheduler.pipeline.batch.relations import Quota, Relations, relations
from scheduler.pipeline.evaluation import ClassCache, evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.slices import checkpoint, in_slices
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows, Scores
from scheduler.state.scratch import scratch

MOST_CELLS = 1_000_000
"""Classes times nodes in one problem: 16 MiB of matrices, made in a tenth of a second. Small
classes are left out first."""
MOST_RESOURCES = 14
"""Resources besides CPU and memory that bound a network."""
SAMPLED_CLASSES = 16
SAMPLED_PODS = 8
LEAVING_STEPS = 8

YieldSlice = Callable[[], Awaitable[None]]
"""Lets other tasks run if the slice is over."""


class Survey(NamedTuple):
    """Where a class fits, and what each place is worth to it."""

    rows: Rows
    totals: Scores
    loads: Scores
    """The part of the totals that depends on how much is requested of a row."""


class ProblemRow(NamedTuple):
    """The pods of one row of the matrices."""

    members: list[Member]
    survey: Survey
    relations: Relations


class BatchProblem(NamedTuple):
    """A problem, and what its rows and columns stand for."""

    problem: Problem
    preferences: Ints
    """[E, M] Scores without what they owe to load."""
    groups: list[list[Member]]
    nodes: list[str]
    rest: Membership
    """Members that the problem had no room for and that are to be posed next."""


class ProblemBuilder:
    """Builds problems from the current state, which may change between two classes."""

    def __init__(
        self,
        settings: BatchSettings,
        state: ClusterState,
        class_cache: ClassCache,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._state = state
        self._class_cache = class_cache
        self._clock = clock

    async def build(
        self,
        members: Membership,
        yield_slice: YieldSlice,
        needs: Mapping[str, int],
    ) -> BatchProblem | None:
        """The problem of placing all members; None if none of them fits anywhere.

        A class costs the rows that changed since its last evaluation. ``needs`` says how many
        members each gang must get.
        """
        groups, rest = await self._groups(members, yield_slice)
        posed = await in_slices(self._posed, groups, needs) if groups else None
        return posed and posed._replace(rest=rest)

    def _posed(self, groups: list[ProblemRow], needs: Mapping[str, int]) -> BatchProblem:
        """The matrices. The state may change between classes: placements are verified anyway."""
        state = self._state
        rows = state.rows()
        nodes = [state.name(row) for row in rows.tolist()]
        width = len(rows)
        position = np.full(state.columns.capacity, -1, np.int64)
        position[rows] = np.arange(width)
        scores = np.full((len(groups), width), UNFIT, np.int64)
        loads = np.zeros((len(groups), width), np.int64)
        for e, group in enumerate(groups):
            checkpoint()
            where = position[group.survey.rows]
            there = where >= 0
            scores[e, where[there]] = np.maximum(group.survey.totals[there], 0)
            loads[e, where[there]] = group.survey.loads[there]
        problem = self._problem(groups, rows, position, scores)
        gangs = _gangs(groups, needs)
        if gangs:
            problem = msgspec.structs.replace(problem, **gangs)
        return BatchProblem(
            problem,
            np.where(scores == UNFIT, UNFIT, scores - loads),
            [group.members for group in groups],
            nodes,
            {},
        )

    async def _groups(
        self, members: Membership, yield_slice: YieldSlice
    ) -> tuple[list[ProblemRow], Membership]:
        """The classes of a problem, and the members that it has no room for.

        Without room, `Scores` leaves small classes to one by one, which uses the same scores.
        """
        most = max(MOST_CELLS // max(self._state.node_count, 1), 1)
        by_scores = self._settings.cost_model == "Scores"
        rows = self._rows(members)[:most] if by_scores else self._rows(members)
        groups: list[ProblemRow] = []
        domains = pods = 0
        for number, each in enumerate(rows):
            if len(groups) == most:
                return groups, _by_key(rows[number:])
            first = each[0]
            cycle = Cycle(first.cycle.pod, self._state)
            cycle.equivalence_class = first.pod_class
            survey = _survey(first.framework, cycle, first.pod_class, self._class_cache)
            if survey is not None and len(survey.rows):
                apart = relations(first, len(each), survey.rows, survey.totals)
                domains += max(len(apart.quotas), 1)
                pods += len(each)
                if not by_scores and groups and not fit_one_network(domains, pods):
                    return groups, _by_key(rows[number:])
                groups.append(ProblemRow(each, survey, apart))
            await yield_slice()
        return groups, {}

    def _rows(self, members: Membership) -> list[list[Member]]:
        """The pods of each row of the matrices, the largest rows first."""
        if self._settings.cost_model == "Scores":
            return sorted(members.values(), key=len, reverse=True)
        split: dict[tuple[int, Key], list[Member]] = {}
        for key, each in members.items():
            for member in each:
                split.setdefault((task_class(member.cycle.pod), key), []).append(member)
        # Gangs come first: they are placed by one problem, or not at all.
        return sorted(split.values(), key=lambda row: (not row[0].group, -len(row)))

    def _problem(
        self, groups: Sequence[ProblemRow], rows: Rows, position: Ints, scores: Scores
    ) -> Problem:
        columns = self._state.columns
        supplies = np.array([len(group.members) for group in groups], np.int64)
        pods = [group.members[0].cycle.pod for group in groups]
        names = self._contended(pods, supplies, rows)
        indices = [columns.resources.find(name) for name in names]
        resources = [index for index in indices if index is not None]
        allocatable = columns.allocatable[resources][:, rows]
        free = np.maximum(allocatable - columns.requested[resources][:, rows], 0)
        slots = np.maximum(columns.pod_limit[rows] - columns.pod_count[rows], 0)
        fit = np.array([self._fit(pod, rows, slots) for pod in pods])
        most = [group.relations.per_node for group in groups]
        fit = np.minimum(fit, np.array([m or np.iinfo(np.int64).max for m in most])[:, np.newaxis])
        problem = Problem(
            supplies=supplies,
            scores=scores,
            fit=np.maximum(fit, 1),
            requests=np.array([[pod.fit_requests.get(n, 0) for n in names] for pod in pods], float),
            free=free.astype(np.float64),
            allocatable=allocatable.astype(np.float64),
            slots=slots,
            load_price=_load_price(groups),
            repeat_price=np.array([group.relations.repeat_price for group in groups]),
            domain_of=_domains(groups, position, scores.shape),
            quotas=_quotas(groups),
            by_volume=self._settings.unscheduled_cost.per == "Volume",
            model=self._settings.cost_model,
        )
        if problem.model == "CpuMemory":
            problem = msgspec.structs.replace(problem, **self._preferred(pods, rows))
        return msgspec.structs.replace(problem, leaving=self._leaving(problem, groups))

    def _contended(self, pods: Sequence[PodInfo], supplies: Ints, rows: Rows) -> list[str]:
        """The resources that bound the network: CPU and memory, then all others that are requested.

        The scarcest of the others first, of which there are at most `MOST_RESOURCES`. Beyond that,
        what a node has of a resource bounds each class alone, and verification does the rest.
        """
        asked: dict[str, int] = {}
        for pod, number in zip(pods, supplies.tolist(), strict=True):
            checkpoint()
            for name, amount in pod.fit_requests.items():
                if amount and name not in (CPU, MEMORY, PODS):
                    asked[name] = asked.get(name, 0) + amount * number
        columns = self._state.columns
        scarcity: list[tuple[float, str]] = []
        for name, amount in asked.items():
            index = columns.resources.find(name)
            if index is None:  # a class that requests it fits nowhere
                continue
            free = int((columns.allocatable[index, rows] - columns.requested[index, rows]).sum())
            scarcity.append((-amount / max(free, 1), name))
        return [CPU, MEMORY, *(name for _, name in sorted(scarcity)[:MOST_RESOURCES])]

    def _fit(self, pod: PodInfo, rows: Rows, slots: Ints) -> Ints:
        """How many such pods each row has room for."""
        checkpoint()
        columns = self._state.columns
        room = slots
        for resource, amount in pod.fit_requests.items():
            index = columns.resources.find(resource)
            if amount and index is not None and resource != PODS:
                free = columns.allocatable[index, rows] - columns.requested[index, rows]
                room = np.minimum(room, free // amount)
        return room

    def _leaving(self, problem: Problem, groups: Iterable[ProblemRow]) -> PriceSteps:
        """What it costs to leave pods out: more for those that have waited for longer."""
        price, now = self._settings.unscheduled_cost, self._clock()
        units = measure(problem)
        steps: list[tuple[int, int, float]] = []
        for e, group in enumerate(groups):
            checkpoint()
            size = float(units.of_class[e]) / units.mean if price.per == "Volume" else 1.0
            waited = np.array([now - _since(member) for member in group.members])
            count = LEAVING_STEPS if price.points_per_second else 1
            for part in np.array_split(np.sort(waited), min(count, len(waited))):
                points = price.points + price.points_per_second * float(part.mean())
                steps.append((e, len(part), points * size))
        of_class, pods, points_ = zip(*steps, strict=True)
        none = np.zeros(len(steps), np.int64)
        return PriceSteps(np.array(of_class), none, np.array(pods), np.array(points_, float))

    def _preferred(self, pods: Sequence[PodInfo], rows: Rows) -> dict[str, Ints]:
        """What `CpuMemory` reads besides: the weights of preferred terms."""
        labels = self._state.columns.labels
        soft = np.zeros((len(pods), len(rows)), np.int64)
        for e, pod in enumerate(pods):
            checkpoint()
            for preference in pod.node_preferences:
                soft[e] += preference.weight * labels.match_term(preference.term, rows)
        return {
            "soft": soft,
            "preferring": np.array([bool(pod.node_preferences) for pod in pods], np.int64),
        }


def _survey(
    framework: Framework, cycle: Cycle, pod_class: PodClass, class_cache: ClassCache
) -> Survey | None:
    """Every row that fits and what it is worth to a class.

    None if what is kept for the class does not count for this pod: it is rejected as a whole, bound
    to nodes by name, or nominated to one.
    """
    evaluation = evaluate(framework, cycle, pod_class, class_cache)
    if not evaluation.reads_class_results:
        return None
    rows = evaluation.feasible()
    loads: Scores = np.zeros(len(rows), np.int64)
    if not len(rows):
        return Survey(rows, loads, loads)
    totals = evaluation.totals()
    for each in _load_scores(pod_class):
        loads += each.weight * pod_class.columns[SCORE, each.plugin].values[rows]
    return Survey(rows, totals, loads)


def _load_scores(pod_class: PodClass) -> list[Declaration]:
    """The plugins that score how full rows are, and whose scores are absolute."""
    return [
        each
        for each, _ in pod_class.plugins[SCORE]
        if each.kept and each.absolute and each.reads and Aspect.REQUESTED in each.reads.rows
    ]


def _by_key(rows: Iterable[Sequence[Member]]) -> Membership:
    """Members of rows again by class; without gangs, which one problem places or none."""
    members: Membership = {}
    for row in rows:
        if not row[0].group:
            members.setdefault(row[0].key, []).extend(row)
    return members


def _since(member: Member) -> float:
    queued = member.queued
    return queued.timestamp if queued.initial_attempt is None else queued.initial_attempt


def _gangs(groups: Sequence[ProblemRow], needs: Mapping[str, int]) -> dict[str, Ints]:
    """Which gang each row of the matrices belongs to, and how many members each needs."""
    names = [group.members[0].group for group in groups]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(filter(None, names)))}
    if not numbers:
        return {}
    return {
        "gang": np.array([numbers.get(name, -1) for name in names], np.int64),
        "gang_needs": np.array([needs[name] for name in numbers], np.int64),
    }


def _domains(groups: Sequence[ProblemRow], position: Ints, shape: tuple[int, ...]) -> Ints:
    if all(group.relations.domain_of is None for group in groups):
        return np.zeros(0, np.int64)
    domains = np.zeros(shape, np.int64)
    for e, group in enumerate(groups):
        checkpoint()
        if group.relations.domain_of is not None:
            where = position[group.survey.rows]
            there = where >= 0
            domains[e, where[there]] = group.relations.domain_of[there]
    return domains


def _quotas(groups: Sequence[ProblemRow]) -> PriceSteps:
    found: list[tuple[int, Quota]] = [
        (e, quota) for e, group in enumerate(groups) for quota in group.relations.quotas
    ]
    if not found:
        return PriceSteps()
    return PriceSteps(
        np.array([e for e, _ in found]),
        np.array([quota.domain for _, quota in found]),
        np.array([quota.pods for _, quota in found]),
        np.array([quota.points for _, quota in found], float),
    )


def _load_price(groups: Sequence[ProblemRow]) -> float:
    """What a full node costs a pod, in points: by putting pods on one and asking the plugins."""
    largest = sorted(groups, key=lambda group: len(group.members), reverse=True)
    found = [_price_by(group) for group in largest[:SAMPLED_CLASSES]]
    prices = [price for price in found if price is not None]
    return max(float(np.mean(prices)), 0.0) if prices else 0.0


def _price_by(group: ProblemRow) -> float | None:
    member, survey = group.members[0], group.survey
    pod, state = member.cycle.pod, member.cycle.state
    plugins = _load_scores(member.pod_class)
    row = int(survey.rows[survey.totals.argmax()])
    columns = state.columns
    if not plugins or not columns.live[row]:
        return None
    share, counted = 0.0, 0
    for resource in (CPU, MEMORY):
        index = columns.resources.find(resource)
        if index is not None and columns.allocatable[index, row]:
            share += pod.fit_requests.get(resource, 0) / int(columns.allocatable[index, row])
            counted += 1
    if not share:
        return None

    def rated() -> int:
        cycle = Cycle(pod, state)
        by = member.framework.scores.score_one
        return sum(each.weight * by(each.plugin, cycle, row) for each in plugins)

    # Pods that no longer fit would cost nothing.
    number = max(1, min(SAMPLED_PODS, int(0.5 * counted / share)))
    before = rated()
    with scratch(state) as changes:
        for i in range(number):
            twin = copy.copy(pod)
            twin.uid = f"{pod.uid}/{i}"
            changes.add(twin, state.name(row))
        after = rated()
    return (before - after) / (number * share / counted)
