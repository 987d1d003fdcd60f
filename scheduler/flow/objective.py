"""The objective by which two placements of one backlog are compared.

First counts what the user configured: as many pods as possible, or as much of the cluster as
possible (``unscheduledCost.per``), then the other of the two, then points. A resource is *scarce*
if the backlog requests more of it than there is: it can be used up, and what is left of it is lost.
A placement that leaves more idle of all scarce resources together does not win, whatever else it
gains; nor does one that places less of a single one beyond CPU and memory, such as GPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.flow.problem import PRICED, UNFIT, Ints, Problem, Reals

DIGITS = 12
"""Of shares that count; the rest depends on the order in which they were added up."""


class Figures(NamedTuple):
    """The figures of one placement of a backlog."""

    pods: int
    """That have a node."""
    volume: float
    """The sum of what each of them takes of its scarcest resource, as a share of all that is free.
    """
    used: float
    """The sum of what they take of each scarce resource, as a share of what is free of it."""
    devices: tuple[int, ...]
    """How much they take of each scarce resource beyond CPU and memory."""
    points: float
    """What their nodes are worth to them, by the profile's scores."""


def better(one: Figures, other: Figures, *, by_volume: bool) -> bool:
    """Whether one way is better than the other, and loses nothing that is scarce."""
    if any(mine < theirs for mine, theirs in zip(one.devices, other.devices, strict=True)):
        return False
    if round(one.used, DIGITS) < round(other.used, DIGITS):
        return False
    return _rank(one, by_volume) > _rank(other, by_volume)


def _rank(figures: Figures, by_volume: bool) -> tuple[float, float, float]:
    pods, volume = float(figures.pods), round(figures.volume, DIGITS)
    first, second = (volume, pods) if by_volume else (pods, volume)
    return first, second, figures.points


def points(problem: Problem, counts: Ints) -> float:
    """What placements are worth, by how many pods of each class are on each node.

    Scores as they are now, less what the pods of the backlog cost each other: by the load that they
    bring, by the company of their own kind, and in domains that should have fewer of them.
    Depends on where pods are, not on their order.
    """
    scored = np.where(problem.scores == UNFIT, 0, problem.scores)
    worth = float((scored * counts).sum())
    worth -= _load(problem, counts)
    if problem.repeat_price.size:
        again = counts * (counts - 1) / 2
        worth -= float((problem.repeat_price[:, np.newaxis] * again).sum())
    return worth - _in_domains(problem, counts)


def _load(problem: Problem, counts: Ints) -> float:
    """On the mean, a pod finds half of the load that the backlog brings to its node."""
    there = np.where(problem.allocatable > 0, problem.allocatable, np.inf)[:PRICED]
    brought: Reals = (problem.requests[:, :PRICED].T @ counts / there).mean(axis=0)
    return float((problem.load_price * brought / 2 * counts.sum(axis=0)).sum())


def _in_domains(problem: Problem, counts: Ints) -> float:
    quotas, price = problem.quotas, 0.0
    left: dict[tuple[int, int], int] = {}
    order = np.lexsort((quotas.points, quotas.domain, quotas.of_class)).tolist()
    for i in order:
        e, domain = int(quotas.of_class[i]), int(quotas.domain[i])
        if (e, domain) not in left:
            left[e, domain] = int(counts[e][problem.domain_of[e] == domain].sum())
        here = min(left[e, domain], int(quotas.pods[i]))
        left[e, domain] -= here
        price += here * float(quotas.points[i])
    return price
