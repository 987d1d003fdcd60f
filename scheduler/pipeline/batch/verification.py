"""Placements that a solver proposes, verified by the filters before they are reserved.

If filters judge each node alone, many nodes are verified at once, one pod for each: a pod on one
node changes nothing for another node. Otherwise (spread, affinity to other pods) one pod is
verified at a time, and domains take turns, as they would if pods came one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from scheduler.flow.problem import Ints, Solution
from scheduler.pipeline.batch.eligibility import BatchEligibility, Member
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.pipeline.evaluation import filter_with_nominated_pods
from scheduler.pipeline.placement import Placement
from scheduler.state.cache import ClusterState

CHUNK = 64
"""Placements that are verified together and taken without a pause."""


class Proposal:
    """The nodes for one class: what is left of them to be tried."""

    def __init__(
        self, members: list[Member], nodes: list[str], scores: list[int], feasible: int, model: str
    ) -> None:
        self.key = members[0].key
        self.members = deque(members)
        self._nodes = deque(zip(nodes, scores, strict=True))
        self._feasible = feasible
        self._model = model
        self._given_up: set[str] = set()
        self.refused = 0

    @property
    def left(self) -> bool:
        """Whether there is another node to try, and a pod for it."""
        return bool(self.members and self._nodes)

    def next_member(self, eligibility: BatchEligibility) -> Member | None:
        """The next pod that passes PreFilter; others are dropped, and scheduled one by one."""
        while self.members:
            member = self.members.popleft()
            if eligibility.prepare(member):
                return member
            self.refused += 1
        return None

    def next_nodes(self, most: int) -> dict[str, int]:
        """The next nodes, each once, and their scores; nodes that were refused are left out."""
        found: dict[str, int] = {}
        while self._nodes and len(found) < most:
            node, score = self._nodes[0]
            if node in found:
                break
            self._nodes.popleft()
            if node in self._given_up:
                self.refused += 1
            else:
                found[node] = score
        return found

    def refuse(self, node: str) -> None:
        """Leave a node out from now on: it has no room any more."""
        self._given_up.add(node)
        self.refused += 1

    def placement(self, node: str, score: int, evaluated: int) -> Placement:
        """A placement on a node that was verified; its score if that is what chose it."""
        chosen_by = score if self._model == "Scores" else None
        return Placement(node, chosen_by, self._feasible, evaluated, self._model)


def proposals(posed: BatchProblem, solution: Solution) -> Iterator[Proposal]:
    """What a solution proposes for each class, the class with the largest pods first.

    Without gangs, which are placed as a whole.
    """
    problem = posed.problem
    total = np.maximum(problem.free.sum(axis=1), 1.0)
    size = (problem.requests / total).max(axis=1, initial=0.0)
    for e in np.argsort(-size, kind="stable").tolist():
        mine = solution.of_class == e
        nodes, pods = solution.node[mine], solution.pods[mine]
        if not len(nodes) or posed.groups[e][0].group:
            continue
        order = _in_turns(nodes, pods, problem.domain_of[e] if problem.domain_of.size else None)
        scores = problem.scores[e]
        yield Proposal(
            list(posed.groups[e]),
            [posed.nodes[node] for node in order.tolist()],
            scores[order].tolist(),
            int((scores >= 0).sum()),
            problem.model,
        )


def _in_turns(nodes: Ints, pods: Ints, domain_of: Ints | None) -> Ints:
    """Each node as often as it gets a pod: all nodes once, then those that get a second, …

    With domains these take turns within.
    """
    each = np.repeat(nodes, pods)
    turn = np.arange(len(each)) - np.repeat(np.cumsum(pods) - pods, pods)
    order = np.lexsort((each, turn))
    each = each[order]
    if domain_of is None:
        return each
    domain = domain_of[each]
    rank = np.zeros(len(each), np.int64)
    for value in np.unique(domain).tolist():
        inside = domain == value
        rank[inside] = np.arange(int(inside.sum()))
    return each[np.argsort(rank, kind="stable")]


def verified(
    proposal: Proposal, state: ClusterState, eligibility: BatchEligibility
) -> list[tuple[Member, Placement]]:
    """The next few placements that all filters confirm now. Nothing here awaits.

    The caller takes all of them before anything else happens; each member is prepared for that.
    """
    first = proposal.next_member(eligibility)
    if first is None:
        return []
    framework, cycle = first.framework, first.cycle
    together = CHUNK if framework.filters.judge_row_by_row(cycle) else 1
    wanted = proposal.next_nodes(min(together, len(proposal.members) + 1))
    rows = {node: row for node in wanted if (row := state.row(node)) is not None}
    where = np.array(sorted(rows.values()), np.intp)
    codes = filter_with_nominated_pods(framework, cycle, where)
    confirmed = set(where[codes == 0].tolist())
    chosen: list[tuple[Member, Placement]] = []
    spare: Member | None = first
    for node, score in wanted.items():
        if rows.get(node) not in confirmed:
            proposal.refuse(node)
            continue
        member = spare or proposal.next_member(eligibility)
        spare = None
        if member is None:
            break
        chosen.append((member, proposal.placement(node, score, state.node_count)))
    if spare is not None:
        proposal.members.appendleft(spare)
    return chosen
