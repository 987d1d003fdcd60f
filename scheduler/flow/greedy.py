"""Pod by pod over the same matrices: what the flow has to beat, and how both are judged."""

from __future__ import annotations

import numpy as np

from scheduler.flow.problem import UNFIT, Ints, Problem, Reals


class Books:
    """Nodes as pods come: who still fits, and what everything is worth so far."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._free = problem.free.copy()
        self._slots = problem.slots.copy()
        self._counts: Ints = np.zeros(problem.shape, np.int64)
        self._used: Reals = np.zeros(problem.shape[1])
        """The share of each node that the batch has taken, the mean over its resources."""
        there = np.where(problem.allocatable > 0, problem.allocatable, np.inf)
        self._step = (problem.requests[:, :, np.newaxis] / there).mean(axis=1)
        self._repeat = (
            problem.repeat_price if problem.repeat_price.size else np.zeros(problem.shape[0])
        )
        self._left = _domains(problem)
        self.worth = 0.0
        self.placed = 0

    def points(self, e: int) -> Reals:
        """What a pod of the class is worth on each node now; below 0 where it does not fit."""
        problem = self._problem
        fits = (self._free >= problem.requests[e][:, np.newaxis]).all(axis=0)
        fits &= (self._slots > 0) & (self._counts[e] < problem.fit[e])
        fits &= problem.scores[e] != UNFIT
        price = problem.load_price * self._used + self._repeat[e] * self._counts[e]
        points = np.maximum(problem.scores[e] - price, 0.0)
        if e in self._left:
            domain = problem.domain_of[e]
            fits &= (domain == 0) | (self._left[e][domain] > 0)
        return np.where(fits, points, -1.0)

    def take(self, e: int, node: int, points: float) -> None:
        """Put a pod on a node that it fits on."""
        self._free[:, node] -= self._problem.requests[e]
        self._slots[node] -= 1
        self._counts[e, node] += 1
        self._used[node] += self._step[e, node]
        if e in self._left:
            self._left[e][self._problem.domain_of[e, node]] -= 1
        self.worth += points
        self.placed += 1


def _domains(problem: Problem) -> dict[int, Ints]:
    """How many pods each domain of a class may yet take."""
    quotas = problem.quotas
    size = int(problem.domain_of.max(initial=0)) + 1
    left: dict[int, Ints] = {}
    for e, domain, pods in zip(quotas.of_class, quotas.domain, quotas.pods, strict=True):
        left.setdefault(int(e), np.zeros(size, np.int64))[domain] += pods
    return left


def pod_by_pod(problem: Problem) -> tuple[int, float]:
    """How many pods find a node in queue order, each taking its best, and what that is worth."""
    books = Books(problem)
    for e in problem.order.tolist():
        points = books.points(e)
        best = int(points.argmax())
        if points[best] >= 0:
            books.take(e, best, float(points[best]))
    return books.placed, books.worth


def as_told(problem: Problem, of_class: Ints, node: Ints, pods: Ints) -> tuple[int, float]:
    """The same of given placements, large pods first; those that do not fit are left out."""
    books = Books(problem)
    size = problem.requests.max(axis=1, initial=0.0)
    for i in np.argsort(-size[of_class], kind="stable").tolist():
        e, m = int(of_class[i]), int(node[i])
        for _ in range(int(pods[i])):
            points = float(books.points(e)[m])
            if points < 0:
                break
            books.take(e, m, points)
    return books.placed, books.worth
