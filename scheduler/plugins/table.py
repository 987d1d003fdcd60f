"""All in-tree plugins, by name."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.dra.plugin import DynamicResources
from scheduler.gangs.plugin import Coscheduling
from scheduler.numa.plugin import NodeResourceTopologyMatch
from scheduler.plugin_api.handle import PluginFactory
from scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.enqueueing import PrioritySort, SchedulingGates
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_conditions import NodeConditions
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_identity import NodeName, NodeUnschedulable
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.preemption.plugin import DefaultPreemption
from scheduler.plugins.service_affinity import ServiceAffinity
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

IN_TREE: Mapping[str, PluginFactory] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
        ServiceAffinity,
        NodeConditions,
        NodeResourceTopologyMatch,
        Coscheduling,
    )
}
