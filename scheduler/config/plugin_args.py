"""Arguments of the plugins that take any, under the names kube-scheduler gives them."""

from typing import Any

from scheduler.config.durations import Duration
from scheduler.config.schema import Section
from scheduler.model.pods import NodeAffinitySpec


class ResourceSpec(Section, frozen=True):
    """A resource that counts in a score; weight 0 means 1."""

    name: str = ""
    weight: int = 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Section, frozen=True):
    """One corner of a scoring function: at this utilization (0-100) this score (0-10)."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(Section, frozen=True):
    """The corners of a piecewise linear function of utilization."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Section, frozen=True):
    """How NodeResourcesFit scores: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(Section, frozen=True):
    """Extended resources not to look at, and how to score the rest."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(Section, frozen=True):
    """The resources whose shares should stay even."""

    resources: tuple[ResourceSpec, ...] = ()


class NodeAffinityArgs(Section, frozen=True):
    """Node affinity that every pod of the profile gets, besides its own."""

    added_affinity: NodeAffinitySpec | None = None


class DefaultSpreadConstraint(Section, frozen=True):
    """A default spread constraint; its selector comes from each pod's owner."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodTopologySpreadArgs(Section, frozen=True):
    """Spread constraints for pods that state none: the built-in ones (System) or this List."""

    default_constraints: tuple[DefaultSpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class InterPodAffinityArgs(Section, frozen=True):
    """What a required affinity of a running pod is worth as a preference."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class DefaultPreemptionArgs(Section, frozen=True):
    """How many candidate nodes preemption tries out."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class VolumeBindingArgs(Section, frozen=True):
    """How long to wait for volumes to be bound."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(Section, frozen=True):
    """How long the search for devices may take per node, and binding them."""

    filter_timeout: Duration = Duration(10.0)
    binding_timeout: Duration = Duration(600.0)


class ServiceAffinityArgs(Section, frozen=True):
    """The node labels whose values the pods of a service share; none: the plugin does nothing."""

    labels: tuple[str, ...] = ()


class TopologyScoringStrategy(Section, frozen=True):
    """LeastAllocated, MostAllocated, BalancedAllocation or LeastNUMANodes, and weights."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()


class TopologyCacheArgs(Section, frozen=True):
    """Details of the reserve cache; "" stands for the default."""

    mode: str = ""
    """Off: there is none, and objects are believed as they are published."""
    foreign_pods_detect: str = ""
    resync_method: str = ""
    informer_mode: str = ""
    resync_scope: str = ""


class CoschedulingArgs(Section, frozen=True):
    """How long members of a gang wait for each other, under the names of scheduler-plugins."""

    permit_waiting_time_seconds: int = 60
    """For members that do not exist yet, unless the PodGroup says how long."""
    pod_group_backoff_seconds: int = 0
    """The shortest back-off of a gang that did not fit; 0: that of its pods."""
    pod_group_reject_percentage: int = 10
    """Accepted, without effect: a gang is tried in one pass, and never left with a part missing."""


class NodeResourceTopologyMatchArgs(Section, frozen=True):
    """NUMA alignment: how to score, and whether to count pods that no object shows yet.

    The names are those of scheduler-plugins; the last three settings are ours.
    """

    scoring_strategy: TopologyScoringStrategy | None = None
    cache_resync_period_seconds: int = 0
    """More than 0 turns the reserve cache on; it needs no period, since it follows the watch."""
    discard_reserved_nodes: bool = False
    """Leave nodes alone while a pod is being bound there; instead of the reserve cache."""
    cache: TopologyCacheArgs | None = None
    """Details of the reserve cache; a document may say ``cache: Off``."""
    preemption_mode: str = "Disabled"
    missing_topology: str = "RejectWithdrawn"
    """Pods that need cells, on nodes that publish none: Pass, Reject, or RejectWithdrawn, which
    rejects only nodes that have published theirs before."""
    missing_topology_grace_seconds: int = 300
    """How long the reserve cache uses an object after it was deleted."""
    compare_after_rejections: int = 1
    """How often in a row a dirty node is filtered out before it is compared again."""


ARGS_TYPES: dict[str, type[Section]] = {
    "Coscheduling": CoschedulingArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourceTopologyMatch": NodeResourceTopologyMatchArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "ServiceAffinity": ServiceAffinityArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Which struct holds the arguments of which plugin; other plugins take plain data."""
