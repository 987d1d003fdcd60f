"""``equipoise simulate --plot``: nodes before and after, and what still waits and why.

A panel for each resource has a bar for each node, grey for what was there and coloured for what
came; with two configurations a bar for each of them. Nodes that are too many for that come in the
order of their utilisation, some in each bar.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from scheduler.cli.output import counted
from scheduler.cli.picture import COLOURS, GROUND, MARGIN, SOFT, WIDTH, Picture, shortened
from scheduler.comparison import NodeShare, Play
from scheduler.simulation import Eviction

MOST_BARS = 60
"""More nodes share bars."""
MOST_NAMED = 24
MOST_RESOURCES = 6
MOST_REASONS = 8
BEFORE = "#9aa3ab"

_PANEL, _PLOT = 200.0, 120.0
"""The height of a resource's panel, and of the bars in it."""
_LEFT = MARGIN + 40
_LINE = 15.0
_LONGEST_LINE = 140
_USED_ALWAYS = ("cpu", "memory")
_TITLES = {"cpu": "CPU", "memory": "Memory", "pods": "Pods"}


class Drawn(NamedTuple):
    """What is drawn of a simulation."""

    name: str
    """Of its configuration."""
    play: Play
    pending: Counter[str]
    """How many pods wait, by reason."""
    evicted: Sequence[Eviction]
    """Pods that others pushed out."""


class _Bar(NamedTuple):
    """A node, or some of them, in each of the simulations."""

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]


def draw(drawn: Sequence[Drawn]) -> str:
    """The picture of one simulation, or of two that are compared."""
    colours = (COLOURS[0],) if len(drawn) == 1 else (COLOURS[1], COLOURS[0])
    resources = _resources(drawn)
    reasons = sum((each.pending for each in drawn), Counter[str]())
    evicted = [(each, victim) for each in drawn for victim in each.evicted]
    lower = _height_of_reasons(reasons, len(drawn)) + _height_of_list(len(evicted))
    height = 70 + _LINE * len(drawn) + _PANEL * max(len(resources), 1) + lower
    picture = Picture(WIDTH, height, "Pods placed in a simulation")
    top = _add_head(picture, drawn, colours)
    for resource in resources:
        _add_panel(picture, top, resource, _bars(drawn, resource), colours)
        top += _PANEL
    if not resources:
        picture.text(MARGIN, top + 30, "There are no nodes.", size=14)
        top += _PANEL
    top = _add_reasons(picture, top, drawn, reasons, colours)
    _add_evicted(picture, top, evicted, several=len(drawn) > 1)
    return picture.render()


def _add_head(picture: Picture, drawn: Sequence[Drawn], colours: Sequence[str]) -> float:
    picture.text(MARGIN, 34, "Where pods go in a simulation", size=18, bold=True)
    y = 58.0
    picture.box(MARGIN, y - 9, 10, 10, BEFORE)
    picture.text(MARGIN + 16, y, "requested before", size=12)
    for each, colour in zip(drawn, colours, strict=True):
        y += _LINE
        picture.box(MARGIN, y - 9, 10, 10, colour)
        name = f"{shortened(each.name, 60)}: " if len(drawn) > 1 else ""
        picture.text(MARGIN + 16, y, name + _summary(each), size=12)
    return y + 12


def _summary(drawn: Drawn) -> str:
    play, best = drawn.play, drawn.play.preferred_at_best
    placed = f"{counted(play.placed, 'pod')} placed on {counted(play.nodes_used, 'node')}"
    parts = [placed, f"{drawn.pending.total()} pending"]
    parts += [f"{len(drawn.evicted)} evicted"] if drawn.evicted else []
    parts += [f"preferred weight {play.preferred / best:.0%}"] if best else []
    return ", ".join([*parts, f"spread {play.spread:.3f}"])


# Resources


def _resources(drawn: Sequence[Drawn]) -> list[str]:
    """CPU and memory, and what else is requested of some node, the most widespread first."""
    nodes = [node for each in drawn for node in each.play.nodes]
    if not nodes:
        return []
    used = Counter(
        resource
        for node in nodes
        for resource, (before, after) in node.others.items()
        if before or after
    )
    more = sorted(used, key=lambda resource: (-used[resource], resource))
    return [*_USED_ALWAYS, *more][:MOST_RESOURCES]


def _share(node: NodeShare, resource: str) -> tuple[float, float] | None:
    """Before and after; None if the node has nothing of it."""
    match resource:
        case "cpu":
            return node.cpu_before, node.cpu
        case "memory":
            return node.memory_before, node.memory
    return node.others.get(resource)


def _bars(drawn: Sequence[Drawn], resource: str) -> list[_Bar]:
    """A bar for each node that has the resource, or for some nodes of like utilisation."""
    others = [{node.name: node for node in each.play.nodes} for each in drawn[1:]]
    bars = []
    for node in drawn[0].play.nodes:
        alike = [node, *(nodes[node.name] for nodes in others if node.name in nodes)]
        shares = [share for each in alike if (share := _share(each, resource)) is not None]
        if len(shares) == len(drawn):
            before, after = zip(*shares, strict=True)
            bars.append(_Bar(node.name, before, after))
    return bars if len(bars) <= MOST_BARS else _shared(bars)


def _shared(bars: Sequence[_Bar]) -> list[_Bar]:
    """Fewer bars, each the mean of some nodes; in each simulation its own fullest come first."""
    edges = [len(bars) * i // MOST_BARS for i in range(MOST_BARS + 1)]
    ways = []
    for i in range(len(bars[0].after)):
        shares = sorted(((bar.after[i], bar.before[i]) for bar in bars), reverse=True)
        ways.append([_mean(shares[a:b]) for a, b in pairwise(edges)])
    return [
        _Bar("", tuple(before for _, before in each), tuple(after for after, _ in each))
        for each in zip(*ways, strict=True)
    ]


def _mean(shares: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return (
        sum(after for after, _ in shares) / len(shares),
        sum(before for _, before in shares) / len(shares),
    )


def _add_panel(
    picture: Picture, top: float, resource: str, bars: Sequence[_Bar], colours: Sequence[str]
) -> None:
    number = max(len(bars), 1)
    before = sum(bar.before[0] for bar in bars) / number
    after = " or ".join(
        f"{sum(bar.after[i] for bar in bars) / number:.0%}" for i in range(len(colours))
    )
    title = _TITLES.get(resource, shortened(resource, 60))
    picture.text(MARGIN, top + 24, title, size=14, bold=True)
    words = f"mean of nodes: {before:.0%} before, {after} after"
    picture.text(WIDTH - MARGIN, top + 24, words, anchor="end", size=12, colour=SOFT)
    floor = top + 40 + _PLOT
    for share in (0.0, 0.5, 1.0):
        y = floor - share * _PLOT
        picture.line(((_LEFT - 6, y), (WIDTH - MARGIN, y)), GROUND)
        picture.text(_LEFT - 10, y + 4, f"{share:.0%}", anchor="end", colour=SOFT)
    width = (WIDTH - MARGIN - _LEFT) / number
    for i, bar in enumerate(bars):
        _add_bar(picture, _LEFT + i * width, floor, width, bar, colours)
        if bar.name and len(bars) <= MOST_NAMED:
            y = floor + 14 + (12 * (i % 2) if len(bars) > 8 else 0)
            name = shortened(bar.name, max(8, int(2 * width / 6.5)))
            picture.text(_LEFT + (i + 0.5) * width, y, name, anchor="middle", size=10)
    if bars and not bars[0].name:
        words = "each bar is the mean of some nodes, the fullest first"
        words += " in each of the two" if len(colours) > 1 else ""
        picture.text(_LEFT, floor + 16, words, colour=SOFT)
    elif len(bars) > MOST_NAMED:
        words = f"{len(bars)} nodes by name, from {bars[0].name} to {bars[-1].name}"
        picture.text(_LEFT, floor + 16, words, colour=SOFT)


def _add_bar(
    picture: Picture, left: float, floor: float, width: float, bar: _Bar, colours: Sequence[str]
) -> None:
    each = min(0.8 * width / len(colours), 60.0)
    left += (width - each * len(colours)) / 2
    for i, (before, after) in enumerate(zip(bar.before, bar.after, strict=True)):
        x, colour = left + i * each, colours[i]
        # More than all may be requested of a node that shrank, or that others filled.
        high, low = (min(share, 1.1) * _PLOT for share in (after, min(before, after)))
        picture.box(x, floor - high, 0.94 * each, high - low, colour)
        picture.box(x, floor - low, 0.94 * each, low, BEFORE)
        if before > after:  # pods left: by eviction
            y = floor - min(before, 1.1) * _PLOT
            picture.line(((x, y), (x + 0.94 * each, y)), BEFORE, 1.5)


# What waits, and what had to go


def _height_of_reasons(reasons: Counter[str], ways: int) -> float:
    shown = [reason for reason, _ in reasons.most_common(MOST_REASONS)]
    lines = sum(len(_wrapped(reason)) for reason in shown)
    more = len(reasons) > MOST_REASONS
    return 46 + _LINE * (lines + more) + (12.0 * ways + 12) * len(shown) if reasons else 36.0


def _height_of_list(number: int) -> float:
    shown = min(number, MOST_REASONS + 1)
    return 46 + _LINE * shown if number else 10.0


def _wrapped(reason: str) -> list[str]:
    lines = textwrap.wrap(reason or "no reason is given", _LONGEST_LINE)
    return [*lines[:2], f"{lines[2][: _LONGEST_LINE - 1]}…"] if len(lines) > 2 else lines


def _add_reasons(
    picture: Picture,
    top: float,
    drawn: Sequence[Drawn],
    reasons: Counter[str],
    colours: Sequence[str],
) -> float:
    if not reasons:
        picture.text(MARGIN, top + 20, "No pod is pending.", size=14, bold=True)
        return top + 36
    picture.text(MARGIN, top + 24, "Pending, by reason", size=14, bold=True)
    y = top + 40
    most = max(each.pending[reason] for each in drawn for reason in reasons)
    room = WIDTH - 2 * MARGIN - 60
    for reason, _ in reasons.most_common(MOST_REASONS):
        for each, colour in zip(drawn, colours, strict=True):
            number = each.pending[reason]
            length = room * number / most
            picture.box(MARGIN, y, length, 10, colour)
            picture.text(MARGIN + length + 6, y + 9, str(number), size=11)
            y += 12
        for line in _wrapped(reason):
            y += _LINE
            picture.text(MARGIN, y - 3, line, colour=SOFT)
        y += 12
    if len(reasons) > MOST_REASONS:
        picture.text(MARGIN, y + 6, f"and {len(reasons) - MOST_REASONS} more reasons", colour=SOFT)
        y += _LINE
    return y + 6


def _add_evicted(
    picture: Picture, top: float, evicted: Sequence[tuple[Drawn, Eviction]], *, several: bool
) -> None:
    if not evicted:
        return
    picture.text(MARGIN, top + 24, "Evicted", size=14, bold=True)
    y = top + 28
    for drawn, (pod, by, node) in evicted[:MOST_REASONS]:
        y += _LINE
        name = f"{shortened(drawn.name, 40)}: " if several else ""
        words = f"{name}{pod} from {node}, for {by}"
        picture.text(MARGIN, y, shortened(words, _LONGEST_LINE), colour=SOFT)
    if len(evicted) > MOST_REASONS:
        picture.text(MARGIN, y + _LINE, f"and {len(evicted) - MOST_REASONS} more", colour=SOFT)
