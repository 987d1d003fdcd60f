"""What is scheduled: nodes and pods as in Kubernetes' own scheduler_perf, and what must hold.

Pods belong to groups of at most half as many pods as there are nodes. Constraints speak of a pod's
own group, so each workload can be placed whatever the numbers are.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from e2e.harness.objects import Json, node, pod

ZONES = 3
PODS_PER_NODE = 40
MAX_SKEW = 5
GROUP = "group"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Placement(NamedTuple):
    """Where a pod of a group ended."""

    node: str
    zone: str
    group: str


Constraint = Callable[[Json], Json]
"""From the selector of a pod's own group to the fields of its spec that constrain it."""
Fault = Callable[[Iterable[Placement]], str | None]
"""What is wrong with a finished placement, if anything."""


@dataclass(frozen=True)
class Workload:
    """Pods of one kind. Placements that break the constraint, or a node's limits, are faults."""

    name: str
    constraint: Constraint
    broken: Fault

    def pods(self, count: int, nodes: int, scheduler: str) -> list[Json]:
        """So many pods for one scheduler, whose groups suit so many nodes."""
        groups = -(-count // max(1, nodes // 2))
        return [self._pod(number, f"group-{number % groups}", scheduler) for number in range(count)]

    def fault(self, placements: list[Placement]) -> str | None:
        """What no scheduler may do but this one did, in words; None if all is well."""
        return _overcommitted(placements) or self.broken(placements)

    def _pod(self, number: int, group: str, scheduler: str) -> Json:
        selector = {"matchLabels": {GROUP: group}}
        # 40 of them fill a node of 4 CPUs.
        made = pod(
            f"pod-{number}",
            "100m",
            "500Mi",
            schedulerName=scheduler,
            **self.constraint(selector),
        )
        made["metadata"]["labels"] = {GROUP: group}
        return made


def nodes(count: int) -> list[Json]:
    """Ready nodes of 4 CPUs, spread evenly over the zones."""
    return [_node(number) for number in range(count)]


def capacity(nodes: int) -> int:
    """How many pods any workload can place for certain: as many as one zone holds."""
    return nodes // ZONES * PODS_PER_NODE


def _node(number: int) -> Json:
    made = node(f"node-{number:05}")
    made["metadata"]["labels"][ZONE] = f"zone-{number % ZONES}"
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return made


def _overcommitted(placements: Iterable[Placement]) -> str | None:
    name, most = Counter(each.node for each in placements).most_common(1)[0]
    return f"{most} pods on {name}" if most > PODS_PER_NODE else None


def _crowded(placements: Iterable[Placement]) -> str | None:
    counts = Counter((each.node, each.group) for each in placements)
    (name, group), most = counts.most_common(1)[0]
    return f"{most} pods of {group} on {name}" if most > 1 else None


def _skewed(placements: Iterable[Placement]) -> str | None:
    zones = {f"zone-{number}" for number in range(ZONES)}
    counts = Counter((each.group, each.zone) for each in placements)
    for group in {group for group, _ in counts}:
        in_zone = [counts[group, zone] for zone in zones]
        if max(in_zone) - min(in_zone) > MAX_SKEW:
            return f"{group} is spread unevenly: {sorted(in_zone)}"
    return None


def _scattered(placements: Iterable[Placement]) -> str | None:
    zones = defaultdict(set)
    for each in placements:
        zones[each.group].add(each.zone)
    torn = [group for group, seen in zones.items() if len(seen) > 1]
    return f"{torn[0]} is in zones {sorted(zones[torn[0]])}" if torn else None


def _term(selector: Json, key: str) -> Json:
    return {"labelSelector": selector, "topologyKey": key}


def _required(kind: str, key: str) -> Constraint:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda selector: {"affinity": {kind: {rule: [_term(selector, key)]}}}


def _preferred(kind: str, key: str) -> Constraint:
    rule = "preferredDuringSchedulingIgnoredDuringExecution"

    def affinity(selector: Json) -> Json:
        return {
            "affinity": {kind: {rule: [{"weight": 1, "podAffinityTerm": _term(selector, key)}]}}
        }

    return affinity


def _spread(selector: Json) -> Json:
    constraint = {
        "labelSelector": selector,
        "topologyKey": ZONE,
        "maxSkew": MAX_SKEW,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {"topologySpreadConstraints": [constraint]}


def _anything(_: object) -> None:
    return None


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("basic", lambda _: {}, _anything),
        Workload("anti-affinity", _required("podAntiAffinity", HOST), _crowded),
        Workload("affinity", _required("podAffinity", ZONE), _scattered),
        Workload("preferred-affinity", _preferred("podAffinity", HOST), _anything),
        Workload("spread", _spread, _skewed),
    )
}
