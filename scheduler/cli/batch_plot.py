"""``equipoise simulate --batch --plot``: the network of a small backlog, nodes before and after.

The upper part shows the first problem that was solved: classes of pods, the domains they are spread
over, nodes and the sink, with what arcs cost; arcs that carry pods are coloured and say how many.
The lower part has two bars for each node: its utilisation one by one and at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.cli.picture import COLOURS, FAINT, GROUND, INK, MARGIN, WIDTH, Picture, shortened
from scheduler.comparison import Comparison, NodeShare, Play, Round
from scheduler.flow.cpu_memory import arc_cost
from scheduler.flow.problem import UNFIT, Ints

MOST_CLASSES, MOST_NODES = 12, 16
"""Larger networks are not drawn: their arcs cannot be told apart."""
MOST_BARS = 120
MOST_PLACES = 5


def draw(comparison: Comparison) -> str:
    """The picture of a comparison."""
    network = _NetworkPlot(comparison.rounds[0]) if comparison.rounds else None
    upper = network.height if network is not None else 60.0
    bars = _Bars(comparison)
    picture = Picture(WIDTH, upper + bars.height, "A backlog placed one by one and at once")
    if network is not None:
        network.add(picture)
    else:
        results = ", ".join(sorted({b.result for b in comparison.at_once.batches})) or "no backlog"
        words = f"Nothing was solved ({results}): one by one is as good."
        picture.text(MARGIN, 36, words, size=14)
    bars.add(picture, upper)
    return picture.render()


class _PlotPoint(NamedTuple):
    x: float
    y: float


class _NetworkPlot:
    """Classes on the left, nodes on the right, what flows between them."""

    def __init__(self, drawn: Round) -> None:
        self._problem, self._solution = drawn.posed.problem, drawn.solution
        self._nodes = drawn.posed.nodes
        self._labels = [_label(key) for key in drawn.examples]
        classes, nodes = self._problem.shape
        self._small = classes <= MOST_CLASSES and nodes <= MOST_NODES
        rows = max(classes, nodes)
        self.height = 130.0 + 46.0 * rows if self._small else 90.0

    def add(self, picture: Picture) -> None:
        problem = self._problem
        classes, nodes = problem.shape
        picture.text(MARGIN, 30, "What was solved", size=16, bold=True)
        figures = (
            f"pods: {int(problem.supplies.sum())}, classes: {classes}, nodes: {nodes}, "
            f"arcs: {self._solution.arcs}, cost model: {problem.model}"
        )
        picture.text(MARGIN, 50, figures, size=12)
        if not self._small:
            limits = f"{MOST_CLASSES} classes and {MOST_NODES} nodes"
            picture.text(MARGIN, 72, f"Networks of more than {limits} are not drawn.", size=12)
            return
        self._add_arcs(picture)
        self._add_points(picture)

    def _class(self, e: int) -> _PlotPoint:
        return _PlotPoint(250.0, self._spread(e, self._problem.shape[0]))

    def _node(self, m: int) -> _PlotPoint:
        return _PlotPoint(720.0, self._spread(m, self._problem.shape[1]))

    @property
    def _sink(self) -> _PlotPoint:
        return _PlotPoint(940.0, 80 + (self.height - 120) / 2)

    def _spread(self, index: int, count: int) -> float:
        return 80 + (self.height - 120) * (index + 0.5) / count

    def _add_arcs(self, picture: Picture) -> None:
        problem, solution = self._problem, self._solution
        best = problem.scores.max(axis=1, initial=0)
        pods = np.zeros(problem.shape, np.int64)
        np.add.at(pods, (solution.of_class, solution.node), solution.pods)
        for e, m in np.argwhere((problem.scores != UNFIT) & (pods == 0)).tolist():
            picture.line((self._class(e), self._node(m)), FAINT, 0.8)
        for m in range(problem.shape[1]):
            used = int(pods[:, m].sum())
            width = min(1.0 + used, 6.0) if used else 0.8
            picture.line((self._node(m), self._sink), "#7d8790" if used else FAINT, width)
        if problem.model == "CpuMemory":
            self._add_places(picture, pods)
            self._add_left(picture, pods.sum(axis=1))
            return
        for e, m in np.argwhere(pods > 0).tolist():
            colour = COLOURS[e % len(COLOURS)]
            picture.line((self._class(e), self._node(m)), colour, min(1.0 + int(pods[e, m]), 6.0))
        for e, m in np.argwhere(pods > 0).tolist():
            start, end = self._class(e), self._node(m)
            # Labels of different classes stand at different places, so that few of them meet.
            part = 0.72 + 0.16 * (e / max(problem.shape[0] - 1, 1))
            x, y = start.x + (end.x - start.x) * part, start.y + (end.y - start.y) * part
            lack = int(best[e] - problem.scores[e, m])
            words = f"{int(pods[e, m])} at {lack}"
            colour = COLOURS[e % len(COLOURS)]
            picture.text(x, y + 4, words, size=11, anchor="middle", colour=colour, ground=True)
        self._add_left(picture, pods.sum(axis=1))

    def _add_places(self, picture: Picture, pods: Ints) -> None:
        """The machine classes of the published design: one place each, dearer as the node fills."""
        problem = self._problem
        # The cheapest flow has it so: a place further up costs large pods more.
        total = np.maximum(problem.allocatable.sum(axis=1), 1.0)
        largest_first = np.argsort(-(problem.requests / total).mean(axis=1), kind="stable")
        for m in range(problem.shape[1]):
            x, y = self._node(m)
            taken = np.repeat(largest_first, pods[largest_first, m])[:MOST_PLACES]
            count = min(max(len(taken) + 1, 2), int(problem.slots[m]))
            for i in range(count):
                place = _PlotPoint(x - 110, y + (i - (count - 1) / 2) * 13)
                picture.line((place, (x, y)), FAINT)
                if i < len(taken):
                    e = int(taken[i])
                    cost = arc_cost(problem, taken[i : i + 1], np.array([m]), np.array([i]))
                    colour = COLOURS[e % len(COLOURS)]
                    picture.line((self._class(e), place), colour, 1.6)
                    words = str(round(float(cost[0])))
                    picture.text(
                        place.x - 8, place.y + 4, words, anchor="end", size=10, ground=True
                    )
                picture.circle(*place, 4, "white", INK)

    def _add_left(self, picture: Picture, placed: Ints) -> None:
        """Pods that the flow leaves without a node."""
        for e, pods in enumerate(placed.tolist()):
            left = int(self._problem.supplies[e]) - pods
            if left:
                start, y = self._class(e), self.height - 24
                bend = (start.x + 60, y)
                colour = COLOURS[e % len(COLOURS)]
                path = (start, bend, (self._sink.x, y), self._sink)
                picture.line(path, colour, 1.2, dashed=True)
                words = f"{left} of {self._labels[e]} left"
                picture.text(start.x + 80 + 150 * (e % 3), y - 4, words, colour=colour, ground=True)

    def _add_points(self, picture: Picture) -> None:
        problem = self._problem
        for e in range(problem.shape[0]):
            x, y = self._class(e)
            picture.circle(x, y, 9, COLOURS[e % len(COLOURS)])
            words = f"{self._labels[e]}: {int(problem.supplies[e])}"
            picture.text(x - 16, y + 4, words, anchor="end", size=12)
        for m, name in enumerate(self._nodes):
            x, y = self._node(m)
            picture.circle(x, y, 9, "white", INK)
            picture.text(x + 14, y - 9, name, size=12, ground=True)
        picture.circle(*self._sink, 11, INK)
        picture.text(self._sink.x, self._sink.y - 18, "sink", anchor="middle", size=12)
        legend = (
            "Labels: what the place costs, for the pods that take it."
            if problem.model == "CpuMemory"
            else "Labels: pods, and the points that each gives up of its best score."
        )
        picture.text(WIDTH - MARGIN, 50, legend, anchor="end", size=12, colour="#555")


class _Bars:
    """Utilisation of nodes: what was there, and what came, in both ways."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        nodes = comparison.at_once.nodes[:MOST_BARS]
        self._names = [node.name for node in nodes]
        self._many = len(nodes) > 24
        self.height = 360.0

    def add(self, picture: Picture, top: float) -> None:
        picture.text(MARGIN, top + 24, "Utilisation of nodes", size=16, bold=True)
        one, other = self._comparison.one_by_one, self._comparison.at_once
        self._add_legend(picture, top + 44, one, other)
        floor, ceiling = top + self.height - 70, top + 90
        for share in (0.0, 0.5, 1.0):
            y = floor - share * (floor - ceiling)
            picture.line(((MARGIN + 30, y), (WIDTH - MARGIN, y)), GROUND)
            picture.text(MARGIN + 24, y + 4, f"{share:.0%}", anchor="end", colour="#555")
        width = (WIDTH - 2 * MARGIN - 40) / max(len(self._names), 1)
        for i, name in enumerate(self._names):
            left = MARGIN + 40 + i * width
            bar = width * 0.36
            for j, play in enumerate((one, other)):
                node = play.nodes[i]
                before = (node.cpu_before + node.memory_before) / 2
                colour = COLOURS[1] if j == 0 else COLOURS[0]
                x = left + j * (bar + width * 0.04)
                height = floor - ceiling
                mean = _mean(node)
                picture.box(x, floor - mean * height, bar, (mean - before) * height, colour)
                picture.box(x, floor - before * height, bar, before * height, "#9aa3ab")
            if not self._many:
                y = floor + 16 + (14 * (i % 2) if len(self._names) > 8 else 0)
                picture.text(left + width * 0.38, y, shortened(name), anchor="middle", size=10)
        if len(self._comparison.at_once.nodes) > MOST_BARS:
            rest = len(self._comparison.at_once.nodes) - MOST_BARS
            picture.text(MARGIN + 40, floor + 20, f"and {rest} more nodes", colour="#555")

    @staticmethod
    def _add_legend(picture: Picture, y: float, one: Play, other: Play) -> None:
        entries = (
            ("#9aa3ab", "before (mean of CPU and memory)"),
            (COLOURS[1], f"one by one: {_summary(one)}"),
            (COLOURS[0], f"at once: {_summary(other)}"),
        )
        for i, (colour, words) in enumerate(entries):
            picture.box(MARGIN, y + 15 * i - 9, 10, 10, colour)
            picture.text(MARGIN + 16, y + 15 * i, words, size=12)


def _summary(play: Play) -> str:
    best = play.preferred_at_best
    liked = f", preferred weight {play.preferred / best:.0%}" if best else ""
    return f"{play.placed} placed, {play.pending} pending{liked}, spread {play.spread:.3f}"


def _mean(node: NodeShare) -> float:
    return (node.cpu + node.memory) / 2


def _label(key: str) -> str:
    """A class by the name of one of its pods, without namespace."""
    return shortened(key.partition("/")[2] or key)
