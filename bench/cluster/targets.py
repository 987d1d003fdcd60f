"""The targets, and whether a result meets them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.cluster.contestants import KUBE_SCHEDULER
from bench.cluster.results import Result
from bench.cluster.workloads import LARGE, SMALL, WORKLOADS

NEAR_LIMIT = 0.85


@dataclass(frozen=True)
class Target:
    """A target for one figure."""

    text: str
    figure: Callable[[Result], str]
    met: Callable[[Result], bool]
    beside_kube: bool = True
    """Whether it says nothing without kube-scheduler."""


def at_least(factor: float) -> Target:
    """So many times as fast as kube-scheduler."""
    return Target(
        f"≥ {factor:g} x kube-scheduler",
        lambda result: f"{result.ratio:.2f}",
        lambda result: result.ratio >= factor,
    )


def near_limit() -> Target:
    """Almost as fast as a client that does not think."""
    return Target(
        f"≥ {NEAR_LIMIT:.0%} of the limit",
        lambda result: f"{result.ratio_to_limit:.1%}",
        lambda result: result.ratio_to_limit >= NEAR_LIMIT,
        beside_kube=False,
    )


def at_least_or_near_limit(factor: float) -> Target:
    """So many times as fast, unless the API server cannot take that many."""
    return Target(
        f"≥ {factor:g} x kube-scheduler or ≥ {NEAR_LIMIT:.0%} of the limit",
        lambda result: (
            f"{result.ratio:.2f}, {result.ratio_to_limit:.1%}"
            if KUBE_SCHEDULER in result.contestants
            else f"{result.ratio_to_limit:.1%}"
        ),
        lambda result: result.ratio >= factor or result.ratio_to_limit >= NEAR_LIMIT,
        beside_kube=False,
    )


def cpu_at_most(share: float) -> Target:
    """So much of kube-scheduler's CPU, from the launch until all is written."""
    return Target(
        f"CPU over the whole run ≤ {share:g} x kube-scheduler's",
        lambda result: f"{result.cpu_ratio:.2f}",
        lambda result: result.cpu_ratio <= share,
    )


def memory_no_more() -> Target:
    """No more memory than kube-scheduler."""
    return Target(
        "memory ≤ kube-scheduler's",
        lambda result: f"{result.memory_ratio:.2f}",
        lambda result: result.memory_ratio <= 1,
    )


TARGETS: dict[tuple[str, int], tuple[Target, ...]] = {
    ("SchedulingBasic", LARGE): (at_least(2.5), near_limit()),
    ("SchedulingPodAntiAffinity", LARGE): (at_least_or_near_limit(5),),
    ("SchedulingPreferredPodAffinity", LARGE): (at_least_or_near_limit(5),),
    ("TopologySpreading", LARGE): (at_least_or_near_limit(5),),
    ("Unschedulable", LARGE): (at_least(5), cpu_at_most(0.1)),
    **{
        (name, nodes): (at_least_or_near_limit(factor),)
        for name, workload in WORKLOADS.items()
        if workload.devices is not None
        for nodes, factor in ((SMALL, 5), (LARGE, 10))
    },
    ("SchedulingBasic", SMALL): (at_least(1.2),),
    ("SchedulingPodAffinity", SMALL): (at_least(2),),
    ("SchedulingPodAntiAffinity", SMALL): (at_least(2),),
    ("SchedulingPreferredPodAffinity", SMALL): (at_least(2),),
    ("TopologySpreading", SMALL): (at_least(2),),
}


def judged(result: Result) -> Iterator[tuple[Target, bool]]:
    """The targets of a result, and whether each is met; on a large cluster memory is always one."""
    nodes = result.size.nodes
    targets = TARGETS.get((result.workload.name, nodes), ())
    for target in (*targets, memory_no_more()) if nodes == LARGE else targets:
        if KUBE_SCHEDULER in result.contestants or not target.beside_kube:
            yield target, target.met(result)
