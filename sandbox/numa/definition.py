"""The NodeResourceTopology resource, for API servers that do not have it yet."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


def _list(description: str, required: list[str], **properties: Schema) -> Schema:
    items: Schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "array", "description": description, "items": items}


_ATTRIBUTES = _list("What the publishing agent adds.", ["name", "value"], name=_TEXT, value=_TEXT)
_RESOURCES = _list(
    "What the zone has, may give to pods, and has left.",
    ["name", "capacity", "allocatable", "available"],
    name=_TEXT,
    capacity=_QUANTITY,
    allocatable=_QUANTITY,
    available=_QUANTITY,
)
_COSTS = _list(
    "How far other zones are.",
    ["name", "value"],
    name=_TEXT,
    value={"type": "integer", "format": "int64"},
)
_ZONES = _list(
    "The parts of the node; those of type Node are NUMA cells.",
    ["name", "type"],
    name=_TEXT,
    type=_TEXT,
    parent=_TEXT,
    costs=_COSTS,
    attributes=_ATTRIBUTES,
    resources=_RESOURCES,
)
_POLICIES: Schema = {
    "type": "array",
    "description": "The Topology Manager's policy and scope; superseded by attributes.",
    "items": _TEXT,
}
_HEAD: Schema = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}}


def _version(name: str, stored: bool, required: list[str], **properties: Schema) -> Schema:
    schema = {"type": "object", "properties": {**_HEAD, **properties}, "required": required}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
    }


CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "noderesourcetopologies.topology.node.k8s.io",
        "annotations": {
            # The group belongs to kubernetes.io, so the API server asks for a reference.
            "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"
        },
    },
    "spec": {
        "group": "topology.node.k8s.io",
        "scope": "Cluster",
        "names": {
            "kind": "NodeResourceTopology",
            "listKind": "NodeResourceTopologyList",
            "plural": "noderesourcetopologies",
            "singular": "noderesourcetopology",
            "shortNames": ["node-res-topo"],
        },
        "versions": [
            _version(
                "v1alpha1",
                False,
                ["topologyPolicies", "zones"],
                topologyPolicies=_POLICIES,
                zones=_ZONES,
            ),
            _version(
                "v1alpha2",
                True,
                ["zones"],
                topologyPolicies=_POLICIES,
                zones=_ZONES,
                attributes=_ATTRIBUTES,
            ),
        ],
    },
}
