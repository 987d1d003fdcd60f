"""Nodes where evictions make room for a pod, and which of them is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from scheduler.model.podinfo import PodInfo

_PRIORITY_OFFSET = 2**31


class Candidate(msgspec.Struct, frozen=True, dict=True):
    """A node, and the pods that would be evicted from it."""

    node: str
    victims: Sequence[PodInfo]
    """At least one; highest priority first, then longest running."""
    violations: int
    """How many of these evictions violate a PodDisruptionBudget."""

    @cached_property
    def harm(self) -> tuple[int, int, int, int, float]:
        """Compared in this order; the smallest is chosen."""
        victims = self.victims
        return (
            self.violations,
            victims[0].priority,
            # Priorities may be negative, and two victims must count more than one.
            sum(victim.priority + _PRIORITY_OFFSET for victim in victims),
            len(victims),
            # The first victim is the longest running one of the highest priority.
            -started(victims[0]),
        )


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Sort key: highest priority first, then longest running."""
    return -pod.priority, started(pod), pod.key


def started(pod: PodInfo) -> float:
    """``status.startTime`` in seconds since the epoch; infinity for a pod that has none."""
    try:
        return datetime.fromisoformat(pod.pod.status.start_time or "").timestamp()
    except ValueError:
        return math.inf


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the least ``harm``; the first one among equals."""
    return min(candidates, key=lambda candidate: candidate.harm)
