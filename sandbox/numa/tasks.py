"""NUMA nodes of the embedded API server: kubelets that may refuse, agents that publish NRTs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Self

import msgspec

from sandbox.errors import ApiFailure
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from sandbox.patching import MERGE, merge_patch
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body
from sandbox.tasks import cancelled
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod

# The NodeResourceTopology resource, for API servers that do not have it yet.


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


class NumaNodes:
    """Admission for ``Kubelets``, and an agent per node; ``async with`` runs the agents.

    Nodes that are not among ``kubelets`` have no cells and take every pod. An agent publishes every
    ``publish_seconds``, and not all at once; the first objects are there when the block begins.
    """

    def __init__(
        self,
        registry: Registry,
        kubelets: Iterable[NumaKubelet],
        *,
        publish_seconds: float = 10.0,
        publisher: PublisherSettings | None = None,
    ) -> None:
        self._registry = registry
        self.kubelets = {kubelet.name: kubelet for kubelet in kubelets}
        self._publish_seconds = publish_seconds
        self._publisher = publisher or PublisherSettings()
        self._task: asyncio.Task[None] | None = None
        self.refused = 0
        """Pods that were not let in."""

    async def __aenter__(self) -> Self:
        for name in self.kubelets:
            self.publish(name)
        self._task = asyncio.create_task(self._run(), name="topology agents")
        return self

    async def __aexit__(self, *fault: object) -> None:
        await cancelled(self._task)

    async def _run(self) -> None:
        while self.kubelets:
            for name in self.kubelets:
                await asyncio.sleep(self._publish_seconds / len(self.kubelets))
                # The object or its definition may be in deletion; the next round is near.
                with contextlib.suppress(ApiFailure):
                    self.publish(name)

    # Admission

    def admit(self, node: str, pod: Body) -> tuple[str, str] | None:
        kubelet = self.kubelets.get(node)
        if kubelet is None:
            return None
        known = pod["metadata"]["uid"] in kubelet
        if known and pod["metadata"].get("generation", 1) == 1:
            return None
        try:
            if known:  # its spec has changed, and only requests may
                kubelet.resize(from_dict(pod, Pod))
                return None
            refusal = kubelet.admit(from_dict(pod, Pod))
        except (msgspec.ValidationError, ValueError) as fault:
            return "UnexpectedAdmissionError", f"Pod was rejected: {fault}"
        if refusal is None:
            return None
        self.refused += 1
        return refusal.reason, refusal.message

    def started(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.started(uid)

    def ended(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.release(uid)

    def gone(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.forget(uid)

    # Agents

    def publish(self, node: str) -> None:
        """Write a node's NRT as its agent sees it now."""
        resource = self._resource()
        body = topology(self.kubelets[node], self._publisher)
        key = ("", node)
        found = self._registry.table(resource).get(key)
        if found is None:
            self._registry.create(resource, "", body)
        elif merge_patch(found.body, body) != found.body:  # else the patch would change nothing
            self._registry.patch(resource, key, MERGE, body)

    def _resource(self) -> Resource:
        """The served NRT; its CRD is created if missing."""
        catalog = self._registry.catalog
        spec: dict[str, Any] = CRD["spec"]
        plural = spec["names"]["plural"]
        if catalog.find(spec["group"], "v1alpha2", plural) is None:
            definitions = self._registry.builtin(
                "customresourcedefinitions", "apiextensions.k8s.io"
            )
            self._registry.create(definitions, "", msgspec.to_builtins(CRD))
        found = catalog.find(spec["group"], "v1alpha2", plural)
        assert found is not None, "it has just been defined"
        return found
