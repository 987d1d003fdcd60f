"""Nodes that would have room without some of their pods, and which of them does least harm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from scheduler.model.podinfo import PodInfo

_PRIORITY_OFFSET = 2**31


class Candidate(msgspec.Struct, frozen=True, dict=True):
    """A node, and who would have to leave it."""

    node: str
    victims: Sequence[PodInfo]
    """At least one; the most important first."""
    violations: int
    """How many of them no disruption budget allows to go."""

    @cached_property
    def harm(self) -> tuple[int, int, int, int, float]:
        """The less, the better."""
        victims = self.victims
        return (
            self.violations,
            victims[0].priority,
            # Priorities may be negative, and yet two victims are to count more than one.
            sum(victim.priority + _PRIORITY_OFFSET for victim in victims),
            len(victims),
            # The first victim is the oldest of the highest priority: the younger, the better.
            -started(victims[0]),
        )


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Sorts the most important pod first: by priority, then by age."""
    return -pod.priority, started(pod), pod.key


def started(pod: PodInfo) -> float:
    """When a pod was started, in seconds since the epoch; a pod that was not is the youngest."""
    try:
        return datetime.fromisoformat(pod.pod.status.start_time or "").timestamp()
    except ValueError:
        return math.inf


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that does least harm; the first one among equals."""
    return min(candidates, key=lambda candidate: candidate.harm)
