"""Validation of plugin arguments: kube-scheduler's own rules, one function per plugin."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from scheduler.config.plugin_args import (
    CoschedulingArgs,
    DefaultPreemptionArgs,
    DefaultSpreadConstraint,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    NodeResourceTopologyMatchArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    ServiceAffinityArgs,
    TopologyCacheArgs,
    TopologyScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from scheduler.config.problems import ConfigProblem, show, suggest
from scheduler.model.nodes import NodeSelectorTerm
from scheduler.model.pods import NodeAffinitySpec
from scheduler.model.selectors import node_term_faults

_MAX_SHAPE_SCORE = 10
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_TOPOLOGY_STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
_AFFINITY_FIELDS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def validate_args(path: str, args: Any) -> Iterator[ConfigProblem]:
    """Problems of one plugin's defaulted arguments; plain data is the plugin's own affair."""
    check = _CHECKS.get(type(args))
    return check(path, args) if check else iter(())


def _node_resources_fit(path: str, args: NodeResourcesFitArgs) -> Iterator[ConfigProblem]:
    for i, name in enumerate(args.ignored_resources):
        yield from _qualified_name(f"{path}.ignoredResources[{i}]", name)
    for i, group in enumerate(args.ignored_resource_groups):
        where = f"{path}.ignoredResourceGroups[{i}]"
        if "/" in group:
            yield ConfigProblem(where, f"a resource group has no slash, got {show(group)}")
        else:
            yield from _qualified_name(where, group)
    if args.scoring_strategy is not None:
        yield from _scoring_strategy(f"{path}.scoringStrategy", args.scoring_strategy)


def _scoring_strategy(path: str, strategy: ScoringStrategy) -> Iterator[ConfigProblem]:
    yield from _choice(f"{path}.type", strategy.type, _STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        yield from _range(f"{path}.resources[{i}].weight", resource.weight, 1, 100)
    ratio_path, ratio = f"{path}.requestedToCapacityRatio", strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield ConfigProblem(ratio_path, "is required for type RequestedToCapacityRatio")
        else:
            yield from _shape(f"{ratio_path}.shape", ratio.shape)
    elif ratio is not None:
        yield ConfigProblem(ratio_path, "is only for type RequestedToCapacityRatio")


def _shape(path: str, shape: tuple[UtilizationShapePoint, ...]) -> Iterator[ConfigProblem]:
    if not shape:
        yield ConfigProblem(path, "needs at least one point")
    for i, point in enumerate(shape):
        where = f"{path}[{i}].utilization"
        yield from _range(where, point.utilization, 0, 100)
        yield from _range(f"{path}[{i}].score", point.score, 0, _MAX_SHAPE_SCORE)
        if i and point.utilization <= shape[i - 1].utilization:
            yield ConfigProblem(
                where, f"must increase from point to point, got {point.utilization}"
            )


def _balanced_allocation(
    path: str, args: NodeResourcesBalancedAllocationArgs
) -> Iterator[ConfigProblem]:
    seen = set()
    for i, resource in enumerate(args.resources):
        where = f"{path}.resources[{i}]"
        if resource.name in seen:
            yield ConfigProblem(f"{where}.name", f"{show(resource.name)} is listed twice")
        seen.add(resource.name)
        if resource.weight != 1:
            yield ConfigProblem(f"{where}.weight", f"must be 1, not {resource.weight}")


def _node_affinity(path: str, args: NodeAffinityArgs) -> Iterator[ConfigProblem]:
    added = args.added_affinity or NodeAffinitySpec()
    required, preferred = (f"{path}.addedAffinity.{name}" for name in _AFFINITY_FIELDS)
    terms = added.required.node_selector_terms if added.required else None
    for i, term in enumerate(terms or ()):
        yield from _node_term(f"{required}.nodeSelectorTerms[{i}]", term)
    for i, preference in enumerate(added.preferred):
        if preference.weight:  # others are never looked at
            yield from _node_term(f"{preferred}[{i}].preference", preference.preference)


def _node_term(path: str, term: NodeSelectorTerm) -> Iterator[ConfigProblem]:
    for fault in node_term_faults(term, path):
        where, _, message = fault.partition(": ")
        yield ConfigProblem(where, message)
    for i, requirement in enumerate(term.match_expressions):
        if requirement.key:
            yield from _qualified_name(f"{path}.matchExpressions[{i}].key", requirement.key)


def _pod_topology_spread(path: str, args: PodTopologySpreadArgs) -> Iterator[ConfigProblem]:
    yield from _choice(f"{path}.defaultingType", args.defaulting_type, ("System", "List"))
    if args.defaulting_type == "System" and args.default_constraints:
        yield ConfigProblem(
            f"{path}.defaultingType", "must be List if there are defaultConstraints"
        )
    seen = set()
    for i, constraint in enumerate(args.default_constraints):
        where = f"{path}.defaultConstraints[{i}]"
        yield from _spread_constraint(where, constraint)
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield ConfigProblem(where, "repeats topologyKey and whenUnsatisfiable of another one")
        seen.add(identity)


def _spread_constraint(path: str, constraint: DefaultSpreadConstraint) -> Iterator[ConfigProblem]:
    if constraint.max_skew <= 0:
        yield ConfigProblem(f"{path}.maxSkew", f"must be greater than 0, not {constraint.max_skew}")
    yield from _qualified_name(f"{path}.topologyKey", constraint.topology_key)
    actions = ("DoNotSchedule", "ScheduleAnyway")
    yield from _choice(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, actions)
    if constraint.label_selector is not None:
        yield ConfigProblem(
            f"{path}.labelSelector", "must be absent: it comes from each pod's owner"
        )


def _inter_pod_affinity(path: str, args: InterPodAffinityArgs) -> Iterator[ConfigProblem]:
    yield from _range(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, 0, 100)


def _default_preemption(path: str, args: DefaultPreemptionArgs) -> Iterator[ConfigProblem]:
    share, number = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    yield from _range(f"{path}.minCandidateNodesPercentage", share, 0, 100)
    if number < 0:
        yield ConfigProblem(
            f"{path}.minCandidateNodesAbsolute", f"must not be negative, not {number}"
        )
    if share == 0 and number == 0:
        message = "must not be 0 together with minCandidateNodesAbsolute"
        yield ConfigProblem(f"{path}.minCandidateNodesPercentage", message)


def _volume_binding(path: str, args: VolumeBindingArgs) -> Iterator[ConfigProblem]:
    if args.bind_timeout_seconds < 0:
        message = f"must not be negative, not {args.bind_timeout_seconds}"
        yield ConfigProblem(f"{path}.bindTimeoutSeconds", message)
    if args.shape is not None:
        yield ConfigProblem(f"{path}.shape", "scoring by storage capacity is not available")


def _dynamic_resources(path: str, args: DynamicResourcesArgs) -> Iterator[ConfigProblem]:
    if args.filter_timeout < 0:
        yield ConfigProblem(f"{path}.filterTimeout", "must not be negative")
    if args.binding_timeout < 1:
        yield ConfigProblem(f"{path}.bindingTimeout", "must be at least 1s")


def _service_affinity(path: str, args: ServiceAffinityArgs) -> Iterator[ConfigProblem]:
    for i, label in enumerate(args.labels):
        where = f"{path}.labels[{i}]"
        yield from _qualified_name(where, label)
        if label in args.labels[:i]:
            yield ConfigProblem(where, f"{show(label)} is listed twice")


def _coscheduling(path: str, args: CoschedulingArgs) -> Iterator[ConfigProblem]:
    for name, value in (
        ("permitWaitingTimeSeconds", args.permit_waiting_time_seconds),
        ("podGroupBackoffSeconds", args.pod_group_backoff_seconds),
    ):
        if value < 0:
            yield ConfigProblem(f"{path}.{name}", f"must not be negative, not {value}")
    share = args.pod_group_reject_percentage
    yield from _range(f"{path}.podGroupRejectPercentage", share, 0, 100)


def _topology_match(path: str, args: NodeResourceTopologyMatchArgs) -> Iterator[ConfigProblem]:
    strategy = args.scoring_strategy or TopologyScoringStrategy("LeastAllocated")
    yield from _choice(f"{path}.scoringStrategy.type", strategy.type, _TOPOLOGY_STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        where = f"{path}.scoringStrategy.resources[{i}].weight"
        yield from _range(where, resource.weight, 0, 100)
    cache = args.cache or TopologyCacheArgs()
    for name, value, choices in (
        ("mode", cache.mode, ("Off",)),
        ("foreignPodsDetect", cache.foreign_pods_detect, ("None", "All", "OnlyExclusiveResources")),
        ("resyncMethod", cache.resync_method, ("Autodetect", "All", "OnlyExclusiveResources")),
        ("informerMode", cache.informer_mode, ("Shared", "Dedicated")),
        ("resyncScope", cache.resync_scope, ("All", "OnlyResources")),
    ):
        if value:
            yield from _choice(f"{path}.cache.{name}", value, choices)
    if args.cache_resync_period_seconds < 0:
        message = f"must not be negative, not {args.cache_resync_period_seconds}"
        yield ConfigProblem(f"{path}.cacheResyncPeriodSeconds", message)
    if args.preemption_mode != "Disabled":
        yield ConfigProblem(
            f"{path}.preemptionMode", "must be Disabled: preemption for NUMA cells is not available"
        )
    choices = ("Pass", "Reject", "RejectWithdrawn")
    yield from _choice(f"{path}.missingTopology", args.missing_topology, choices)
    if args.missing_topology_grace_seconds < 0:
        message = f"must not be negative, not {args.missing_topology_grace_seconds}"
        yield ConfigProblem(f"{path}.missingTopologyGraceSeconds", message)
    if args.compare_after_rejections < 1:
        message = f"must be at least 1, not {args.compare_after_rejections}"
        yield ConfigProblem(f"{path}.compareAfterRejections", message)


def _choice(path: str, value: str, choices: tuple[str, ...]) -> Iterator[ConfigProblem]:
    if not value:
        yield ConfigProblem(path, f"is required, one of {', '.join(choices)}")
    elif value not in choices:
        yield ConfigProblem(path, f"unknown value {show(value)}{suggest(value, choices)}")


def _range(path: str, value: int, low: int, high: int) -> Iterator[ConfigProblem]:
    if not low <= value <= high:
        yield ConfigProblem(path, f"must be between {low} and {high}, not {value}")


def _qualified_name(path: str, name: str) -> Iterator[ConfigProblem]:
    domain, slash, base = name.rpartition("/")
    right_base = len(base) <= 63 and _NAME.fullmatch(base)
    right_domain = not slash or (len(domain) <= 253 and _DOMAIN.fullmatch(domain))
    if not (right_base and right_domain):
        yield ConfigProblem(path, f"{show(name)} is not a qualified name such as example.com/gpu")


_CHECKS: dict[type, Callable[[str, Any], Iterator[ConfigProblem]]] = {
    CoschedulingArgs: _coscheduling,
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourceTopologyMatchArgs: _topology_match,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _node_resources_fit,
    PodTopologySpreadArgs: _pod_topology_spread,
    ServiceAffinityArgs: _service_affinity,
    VolumeBindingArgs: _volume_binding,
}
