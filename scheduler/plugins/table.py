"""All in-tree plugins, by name."""

from __future__ import annotations

from scheduler.framework.registry import Registry
from scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.enqueueing import PrioritySort, SchedulingGates
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_identity import NodeName, NodeUnschedulable
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.plugins.taint_toleration import TaintToleration

IN_TREE: Registry = {
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
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
    )
}
