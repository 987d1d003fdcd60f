"""DefaultPreemption: whether a pod may preempt, the candidate nodes, the choice among them.

The attempt only decides. Victims are evicted in the background (``evictions``) while the node is
nominated for the pod. When they are gone, the pod is tried again, on that node first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

import numpy as np

from scheduler.config.plugin_args import DefaultPreemptionArgs
from scheduler.equivalence.row_memo import RowMemo
from scheduler.model.events import Action, Event, Hint
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Code, Status, unresolvable, unschedulable
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.extension_points import PostFilterPreview, PostFilterResult
from scheduler.plugin_api.handle import Handle, Victims
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import DEFAULT_PREEMPTION
from scheduler.plugins.preemption.budgets import Budgets
from scheduler.plugins.preemption.candidates import Candidate, choose, importance
from scheduler.plugins.preemption.dry_run import Search
from scheduler.plugins.preemption.evictions import Evictions
from scheduler.plugins.preemption.screen import Screen
from scheduler.plugins.preemption.trial import Outcome, lower_pods
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration
from scheduler.slices import checkpoint
from scheduler.state.columns import Rows

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIMS_LEAVING = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
GONE = "the pod is gone."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
MAX_EFFORT = 2000
"""In pods removed and restored: the search ends here if it has a candidate."""
UNDER_WAY = unresolvable("waiting for the preemption for this pod to be finished")

_Found = tuple[list[Candidate], Counter[Status]]
"""Candidates, and how many nodes are none by status."""


class DefaultPreemption:
    """Evicts pods of lower priority from one node so that a pod fits there."""

    name = DEFAULT_PREEMPTION
    observes = ("PodDisruptionBudget",)
    traits = PluginTraits(answers_for_class=True)

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        self._args = args or DefaultPreemptionArgs()
        self._handle = handle
        self._budgets = Budgets(handle.state.objects)
        self._evictions = Evictions(handle)
        self._screen = Screen(handle.state)
        self._notes: RowMemo[Outcome] = RowMemo(handle.state, classes=16)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Gate a pod while evictions for it are being sent."""
        return UNDER_WAY if self._evictions.under_way(pod) else SUCCESS

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Nominate the candidate with the least harm, and start the evictions there.

        Nodes are tried until ``minCandidateNodes…`` of them are candidates, or ``MAX_EFFORT`` is
        spent and one candidate violates no budget. The event loop runs meanwhile, so nodes and
        victims are looked up again before any eviction.
        """
        self._handle.metrics.preemption_attempts.inc()
        expected = partial(self._handle.queue.expects, cycle.pod.uid)
        found = self._candidate(cycle, diagnosis, expected)
        if isinstance(found, PostFilterResult):
            return found
        self._evictions.start(cycle.pod, found)
        return PostFilterResult(SUCCESS, found.node)

    def preview(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterPreview:
        """The pods that ``post_filter`` would evict now, or why none; nothing is evicted."""
        found = self._candidate(cycle, diagnosis, lambda: True)
        if isinstance(found, PostFilterResult):
            return PostFilterPreview(found.status.message)
        return PostFilterPreview("", found.node, found.victims, found.violations)

    def _candidate(
        self, cycle: Cycle, diagnosis: Diagnosis, wanted: Callable[[], bool]
    ) -> Candidate | PostFilterResult:
        """The candidate with the least harm, or why there is none.

        ``wanted`` returns whether the pod still needs a node.
        """
        obstacle = self._obstacle(cycle, diagnosis)
        if obstacle:
            return PostFilterResult(unschedulable(f"preemption: {obstacle}"))
        rows = _helpful(cycle, diagnosis)
        search = Search(self._handle, cycle, rows, wanted)
        candidates, rejections = self._search(search, cycle, len(rows))
        checkpoint()  # many candidates are compared now, after trials that took most of a slice
        if search.interrupted and not wanted():
            obstacle = GONE
            return PostFilterResult(unschedulable(f"preemption: {obstacle}"))
        if not candidates:
            message = _message(rejections, cycle.state.node_count)
            return PostFilterResult(unschedulable(f"preemption: {message}"), nominated_node="")
        candidates = self._trimmed(cycle, candidates)
        if search.interrupted:
            candidates = _still_there(cycle, candidates)
        if not candidates:
            obstacle = NO_CANDIDATE
            return PostFilterResult(unschedulable(f"preemption: {obstacle}"))
        return choose(candidates)

    def _obstacle(self, cycle: Cycle, diagnosis: Diagnosis) -> str:
        """Why the pod must not preempt now; "" if it may."""
        if cycle.pod.pod.spec.preemption_policy == "Never":
            return NEVER
        nominated = cycle.state.nominations.node_of(cycle.pod.uid)
        if not nominated or _verdict(cycle, diagnosis, nominated) is Code.UNRESOLVABLE:
            return ""
        leaving = any(map(self._evictions.leaving, lower_pods(cycle, nominated)))
        return VICTIMS_LEAVING if leaving else ""

    def _search(self, search: Search, cycle: Cycle, nodes: int) -> _Found:
        """Enough candidates, including one without violations if there is any; all rejections."""
        wanted = self._wanted(nodes)
        candidates: list[Candidate] = []
        rejections: Counter[Status] = Counter()
        effort, harmless = 0, False
        notes = partial(self._noted, cycle)
        for result, spent, concerned in search.outcomes(self._screen, self._budgets, notes):
            effort += spent
            if not isinstance(result, Candidate):
                rejections[result] += concerned
                continue
            candidates.append(result)
            harmless = harmless or not result.violations
            if harmless and (len(candidates) >= wanted or effort >= MAX_EFFORT):
                break
        return candidates, rejections

    def _noted(self, cycle: Cycle) -> dict[int, Outcome]:
        return (
            self._notes.about(cycle.equivalence_class)
            if cycle.equivalence_class is not None
            else {}
        )

    def _trimmed(self, cycle: Cycle, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates after extenders have removed some or changed victims."""
        victims = {each.node: Victims(each.victims, each.violations) for each in candidates}
        left = self._handle.run.trim_victims(cycle, victims)
        if left is victims:
            return list(candidates)
        return [
            Candidate(node, sorted(pods, key=importance), violations)
            for node, (pods, violations) in left.items()
        ]

    def _wanted(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)

    def hints(self) -> Sequence[HintRegistration]:
        """Deleted pods have gated pods checked again; the plugins that rejected a pod decide."""
        column = alike(_not_ours_to_say)
        return (HintRegistration("Pod", Action.DELETE, _not_ours_to_say, column),)


def _not_ours_to_say(pod: PodInfo, event: Event) -> Hint:
    return Hint.SKIP


def _verdict(cycle: Cycle, diagnosis: Diagnosis, node: str) -> Code:
    if diagnosis.pre_filter is not None:
        return diagnosis.pre_filter.code
    codes = diagnosis.codes[diagnosis.rows == cycle.state.row(node)]
    return cycle.state.statuses.status(int(codes[0])).code if len(codes) else Code.UNRESOLVABLE


def _helpful(cycle: Cycle, diagnosis: Diagnosis) -> Rows:
    """The rows that evictions may make feasible."""
    if diagnosis.pre_filter is not None:
        everywhere = diagnosis.pre_filter.code is Code.UNSCHEDULABLE
        return cycle.state.rows() if everywhere else cycle.state.rows()[:0]
    statuses = cycle.state.statuses
    curable = [
        code
        for code in np.unique(diagnosis.codes)
        if statuses.status(int(code)).code is Code.UNSCHEDULABLE
    ]
    return diagnosis.rows[np.isin(diagnosis.codes, curable)]


def _still_there(cycle: Cycle, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best candidate that still holds, if there is one."""
    best = sorted(candidates, key=lambda candidate: candidate.harm)
    return list(islice((each for each in best if _holds(cycle, each)), 1))


def _holds(cycle: Cycle, candidate: Candidate) -> bool:
    """Whether a node and all its victims still exist."""
    state = cycle.state
    booked = (state.pod(victim.uid) for victim in candidate.victims)
    there = all(pod is not None and pod.node_name == candidate.node for pod in booked)
    return there and state.row(candidate.node) is not None


def _message(rejections: Counter[Status], nodes: int) -> str:
    """Why no node is a candidate, in the form of the message on the pod."""
    counts: Counter[str] = Counter()
    for status, concerned in rejections.items():
        for reason in status.reasons:
            counts[reason] += concerned
    if rejections.total() < nodes:
        counts[NOT_HELPFUL] += nodes - rejections.total()
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."
