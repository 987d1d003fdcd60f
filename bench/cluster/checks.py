"""What no scheduler may do, looked for in every finished placement."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bench.cluster.templates import MAX_SKEW, MEASURED, NODE_MILLI_CPU, VOLUMES_PER_NODE


class Placement(NamedTuple):
    """Where a pod is."""

    namespace: str
    name: str
    node: str
    zone: str
    colour: str
    milli_cpu: int


Fault = Callable[[list[Placement]], str | None]
"""What is wrong with all pods of the cluster that have a node, if anything."""


def overcommitted(placements: Iterable[Placement]) -> str | None:
    """More is requested on a node than it has."""
    used: Counter[str] = Counter()
    for each in placements:
        used[each.node] += each.milli_cpu
    node, most = used.most_common(1)[0]
    return f"{most}m CPU on {node}" if most > NODE_MILLI_CPU else None


def anything(_: list[Placement]) -> None:
    """Nothing but the limits of nodes."""


def crowded(placements: list[Placement]) -> str | None:
    """Two pods of a colour share a node."""
    counts = Counter((each.node, each.colour) for each in placements if each.colour)
    (node, colour), most = counts.most_common(1)[0]
    return f"{most} pods of {colour} on {node}" if most > 1 else None


def scattered(placements: list[Placement]) -> str | None:
    """Pods of a colour are in different zones."""
    zones = defaultdict(set)
    for each in placements:
        if each.colour:
            zones[each.colour].add(each.zone)
    torn = next((colour for colour, seen in zones.items() if len(seen) > 1), None)
    return f"{torn} is in zones {sorted(zones[torn])}" if torn else None


def outside(*allowed: str) -> Fault:
    """A timed pod is in a zone that it did not name."""

    def fault(placements: list[Placement]) -> str | None:
        timed = (each for each in placements if each.namespace == MEASURED)
        astray = next((each for each in timed if each.zone not in allowed), None)
        return f"{astray.name} is in zone {astray.zone!r}" if astray else None

    return fault


def skewed(*zones: str) -> Fault:
    """The zones have too different numbers of pods of a colour."""

    def fault(placements: list[Placement]) -> str | None:
        counts = Counter((each.colour, each.zone) for each in placements if each.colour)
        for colour in {colour for colour, _ in counts}:
            in_zone = [counts[colour, zone] for zone in zones]
            if max(in_zone) - min(in_zone) > MAX_SKEW:
                return f"{colour} is spread unevenly: {sorted(in_zone)}"
        return None

    return fault


def too_many_volumes(placements: list[Placement]) -> str | None:
    """More volumes are attached to a node than its driver allows; each pod has one."""
    node, most = Counter(each.node for each in placements).most_common(1)[0]
    return f"{most} volumes on {node}" if most > VOLUMES_PER_NODE else None
