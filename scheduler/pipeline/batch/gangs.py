"""Gangs in a backlog: placed whole or not at all.

The problem says how many members each gang needs, and the solver drops gangs that do not get them.
Its proposal for a gang is tried by the pass over pod groups (`pod_groups`), which places all
members or none; a member that does not fit on its proposed node gets another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import numpy as np

from scheduler.flow.problem import Solution
from scheduler.framework.runtime import Framework
from scheduler.pipeline.batch.eligibility import BatchEligibility, Member
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.plugin_api.groups import GroupPlugin
from scheduler.queueing.queued_pod import QueuedPod


class _BackloggedGang(msgspec.Struct, eq=False):
    """Members of a gang that were popped. All are tried in the place of the first."""

    plugin: GroupPlugin
    group: str
    first: QueuedPod
    along: list[QueuedPod]

    @property
    def name(self) -> str:
        """Unique among all profiles."""
        return f"{self.first.profile}/{self.group}"


class BatchGangs:
    """The gangs of the backlog that is being placed."""

    def __init__(self, frameworks: Mapping[str, Framework], eligibility: BatchEligibility) -> None:
        self._frameworks = frameworks
        self._eligibility = eligibility
        self._by_first: dict[str, _BackloggedGang] = {}
        self.needs: dict[str, int] = {}
        """How many more members each gang needs that takes part, by name."""

    def bundle(self, popped: list[QueuedPod]) -> list[QueuedPod]:
        """Pods in queue order; of a gang only the first, which stands for the others."""
        self._by_first.clear()
        self.needs.clear()
        found: dict[tuple[str, str], _BackloggedGang] = {}
        pods: list[QueuedPod] = []
        for queued in popped:
            plugin = self._frameworks[queued.profile].groups
            group = _group_of(queued, plugin)
            if plugin is None or group is None:
                pods.append(queued)
                continue
            gang = found.get((queued.profile, group))
            if gang is None:
                gang = found[queued.profile, group] = _BackloggedGang(plugin, group, queued, [])
                self._by_first[queued.info.uid] = gang
                pods.append(queued)
            else:
                gang.along.append(queued)
        return pods

    def along(self, queued: QueuedPod) -> list[QueuedPod]:
        """The other popped members of a pod's gang; none if it is in no gang."""
        gang = self._by_first.get(queued.info.uid)
        return gang.along if gang is not None else []

    def with_members(self, pods: Iterable[QueuedPod]) -> Iterator[QueuedPod]:
        """Pods, each followed by the other members of its gang."""
        for queued in pods:
            yield queued
            yield from self.along(queued)

    def leads(self, queued: QueuedPod) -> bool:
        """Whether a pod is the first of a gang."""
        return queued.info.uid in self._by_first

    def needed(self, first: QueuedPod) -> int | None:
        """How many members of a pod's gang must get nodes, or none may; None: it is refused."""
        gang = self._by_first[first.info.uid]
        standing = gang.plugin.standing(gang.group)
        if not standing.refusal.ok:
            return None
        return min(standing.minimum, standing.existing) - standing.placed

    def admit(self, queued: QueuedPod, place: int) -> list[Member] | str | None:
        """All members of a pod's gang, or why none takes part; None if the pod is in no gang."""
        gang = self._by_first.get(queued.info.uid)
        if gang is None:
            return None
        needs = self.needed(queued)
        if needs is None:
            return "group"
        members = []
        for each in (gang.first, *gang.along):
            member = self._eligibility.admit(each, place, gang.name)
            if isinstance(member, str):
                return member
            members.append(member)
        self.needs[gang.name] = max(min(needs, len(members)), 1)
        return members

    def chosen(
        self, posed: BatchProblem, solution: Solution
    ) -> Iterator[tuple[Member, dict[str, str]]]:
        """A member of each gang that is to be placed, and the node of each by uid; queue order."""
        nodes: dict[str, dict[str, str]] = {}
        heads: dict[str, Member] = {}
        for e, members in enumerate(posed.groups):
            group = members[0].group
            mine = solution.of_class == e
            if not group or not mine.any():
                continue
            each = np.repeat(solution.node[mine], solution.pods[mine]).tolist()
            pairs = zip(members, each, strict=False)
            proposed = {member.queued.info.uid: posed.nodes[node] for member, node in pairs}
            nodes.setdefault(group, {}).update(proposed)
            heads.setdefault(group, members[0])
        whole = [group for group in nodes if len(nodes[group]) >= self.needs[group]]
        for group in sorted(whole, key=lambda group: heads[group].place):
            yield heads[group], nodes[group]


def _group_of(queued: QueuedPod, plugin: GroupPlugin | None) -> str | None:
    """The pod's group; None also if the plugin fails, which the attempt at the pod reports."""
    try:
        return plugin.group_of(queued.info) if plugin is not None else None
    except Exception:
        return None
