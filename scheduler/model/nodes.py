"""Node, node selectors as written, and NodeResourceTopology."""

from __future__ import annotations

import msgspec

from scheduler.model.meta import (
    AnnotatedMeta,
    Condition,
    Kind,
    ObjectMeta,
    RawQuantity,
    ResourceList,
    Struct,
)


class Taint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Struct, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name


class ZoneResource(Struct, frozen=True):
    name: str = ""
    capacity: RawQuantity = 0
    allocatable: RawQuantity = 0
    available: RawQuantity = 0


class ZoneCost(Struct, frozen=True):
    name: str = ""
    value: int = 0


class TopologyAttribute(Struct, frozen=True):
    name: str = ""
    value: str = ""


class TopologyZone(Struct, frozen=True):
    name: str = ""
    type: str = ""
    parent: str = ""
    costs: tuple[ZoneCost, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha2: the NUMA cells of the node of the same name."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    topology_policies: tuple[str, ...] = ()
    zones: tuple[TopologyZone, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()


class CSINodeAllocatable(Struct, frozen=True):
    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] | None = None
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Struct, frozen=True):
    # A node without CSI drivers says ``drivers: null``.
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(Struct, frozen=True):
    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: CSINodeSpec = CSINodeSpec()


KINDS = (
    Kind("Node", Node, "/api/v1/nodes"),
    Kind("CSINode", CSINode, "/apis/storage.k8s.io/v1/csinodes"),
    Kind(
        "NodeResourceTopology",
        NodeResourceTopology,
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        optional=True,
    ),
)
