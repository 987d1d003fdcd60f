"""Pods of one node that leave it and return to it together, for a while.

What they hold is summed up once. So to take them all off their node, or to put them all back, costs
a booking for each distinct set of labels and each distinct term, not one for each pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.model.affinity import NO_TERMS, AffinityTerm
from scheduler.model.podinfo import PodInfo
from scheduler.model.volumes import NO_VOLUMES
from scheduler.state.podindex import ROLES, GroupKey, group_key


class PodBundle:
    """Some pods of a node, and what they hold together."""

    def __init__(self, node: str, pods: Iterable[PodInfo]) -> None:
        self.node = node
        self.pods: dict[str, PodInfo] = {}
        """By uid."""
        self.assumed: dict[str, PodInfo] = {}
        """Those that were assumed when they left."""
        self.apart: dict[str, PodInfo] = {}
        """Those with ports or volumes, which are not summed up."""
        self.requests: dict[str, int] = {}
        self.nonzero = (0, 0)
        self.groups: dict[GroupKey, tuple[PodInfo, int]] = {}
        """Any pod with these labels, and how many there are."""
        self.terms: Counter[tuple[str, AffinityTerm]] = Counter()
        for pod in pods:
            self.add(pod)

    @property
    def bookings(self) -> int:
        """How many bookings it takes to have them all leave."""
        return len(self.apart) + len(self.groups) + len(self.terms)

    def add(self, pod: PodInfo) -> None:
        """One more pod leaves."""
        self.pods[pod.uid] = pod
        if pod.host_ports or pod.volumes is not NO_VOLUMES:
            self.apart[pod.uid] = pod
        self._count(pod, +1)

    def discard(self, pod: PodInfo) -> None:
        """One of the pods returns alone."""
        del self.pods[pod.uid]
        self.assumed.pop(pod.uid, None)
        self.apart.pop(pod.uid, None)
        self._count(pod, -1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        requests = self.requests
        for resource, amount in pod.requests.items():
            requests[resource] = requests.get(resource, 0) + sign * amount
        cpu, memory = pod.nonzero
        self.nonzero = self.nonzero[0] + sign * cpu, self.nonzero[1] + sign * memory
        key = group_key(pod)
        one, number = self.groups.get(key, (pod, 0))
        self.groups[key] = one, number + sign
        if not number + sign:
            del self.groups[key]
        terms = pod.affinity
        for role in ROLES if terms is not NO_TERMS else ():
            for term in getattr(terms, role):
                self.terms[role, term] += sign
                if not self.terms[role, term]:
                    del self.terms[role, term]
