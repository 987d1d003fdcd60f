"""Whether a backlog contends: whether first choices exceed what some node takes.

Where they do not, every pod gets its first choice one by one, and there is nothing to be gained.
"""

from __future__ import annotations

import numpy as np

from scheduler.flow.problem import UNFIT, Ints, Problem
from scheduler.flow.units import measure


def contends(problem: Problem, preferences: Ints) -> bool:
    """Whether the nodes with the best scores cannot take all pods of the classes.

    ``preferences`` are scores without what they owe to load: load evens out pod by pod, and a node
    that is emptier than others is the first choice for a few pods only. Each class asks of its
    favourite nodes in proportion to what they take of it.
    """
    liked = np.where(problem.scores == UNFIT, np.iinfo(np.int64).min, preferences)
    fits = problem.scores != UNFIT
    favourite = fits & (liked == liked.max(axis=1, keepdims=True, initial=np.iinfo(np.int64).min))
    room = np.where(favourite, problem.fit, 0)
    places = room.sum(axis=1)
    if (places < problem.supplies).any():
        return True
    units = measure(problem)
    weight = problem.supplies * units.of_class / np.maximum(places, 1)
    for number, gate in enumerate(units.gates):
        mine = units.gate_of == number
        if ((weight * mine) @ room > gate).any():
            return True
    return False
