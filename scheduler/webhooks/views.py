"""What a webhook is shown of pods and nodes.

One that declares what it reads is shown just that, so it cannot depend on anything else, and what
it says may be kept for all pods and nodes that look the same to it. All others see whole objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler.config.schema import Webhook, WebhookReads
from scheduler.config.webhooks import LABEL_PREFIX
from scheduler.equivalence.reads import Reads
from scheduler.model.nodes import Node
from scheduler.model.packed import plain
from scheduler.model.podinfo import PodInfo
from scheduler.state.aspects import Aspect
from scheduler.state.cache import ClusterState
from scheduler.webhooks.originals import Originals, encoded

_ASPECTS: Mapping[str, Aspect] = {
    "labels": Aspect.LABELS,
    "taints": Aspect.TAINTS,
    "unschedulable": Aspect.UNSCHEDULABLE,
    "allocatable": Aspect.ALLOCATABLE,
    "conditions": Aspect.CONDITIONS,
    "images": Aspect.IMAGES,
    "features": Aspect.FEATURES,
    "requested": Aspect.REQUESTED,
}
_FROM_NODE: Mapping[str, Callable[[Node], tuple[str, str, Any]]] = {
    "labels": lambda node: ("metadata", "labels", node.metadata.labels),
    "taints": lambda node: ("spec", "taints", node.spec.taints),
    "unschedulable": lambda node: ("spec", "unschedulable", node.spec.unschedulable),
    "allocatable": lambda node: ("status", "allocatable", node.status.allocatable),
    "conditions": lambda node: ("status", "conditions", node.status.conditions),
    "images": lambda node: ("status", "images", node.status.images),
    "features": lambda node: ("status", "declaredFeatures", node.status.declared_features),
}


def reads_of(declared: WebhookReads) -> Reads:
    """The aspects of the cluster behind a declaration."""
    return Reads(rows=frozenset(_ASPECTS[field] for field in declared.node))


KEPT_POINTS = frozenset(("preFilter", "filter", "score"))
"""Where answers are kept for a webhook that declares; at other points it sees whole objects."""


class Views:
    """What one webhook is shown."""

    def __init__(self, webhook: Webhook, originals: Originals, state: ClusterState) -> None:
        self._reads = webhook.reads
        self._whole_nodes = webhook.nodes == "Objects"
        self._originals = originals
        self._state = state

    def shows_nodes(self, point: str) -> bool:
        """Whether more of nodes is shown than their names."""
        declared = self._declared(point)
        return bool(declared.node) if declared is not None else self._whole_nodes

    def _declared(self, point: str) -> WebhookReads | None:
        return self._reads if point in KEPT_POINTS else None

    def key(self, pod: PodInfo) -> bytes:
        """The same for pods that look the same; only for a webhook that declares."""
        assert self._reads is not None, "only declared views are compared"
        shown = _shown(pod, self._reads.pod)
        return msgspec.msgpack.encode(shown, order="deterministic")

    def pod(self, point: str, pod: PodInfo) -> msgspec.Raw:
        """A pod as the webhook sees it."""
        declared = self._declared(point)
        if declared is None:
            return self._originals.pod(pod.pod)
        return encoded("Pod", _shown(pod, declared.pod))

    def node(self, point: str, name: str) -> msgspec.Raw | None:
        """A node as the webhook sees it; None if it is gone."""
        node = self._state.node(name)
        if node is None:
            return None
        declared = self._declared(point)
        if declared is None:
            return self._originals.node(self._state, name)
        body: dict[str, Any] = {"metadata": {"name": name}}
        for field in declared.node:
            if field == "requested":
                body["requested"] = self._state.describe(name)["requested"]
            else:
                part, member, value = _FROM_NODE[field](node)
                body.setdefault(part, {})[member] = value
        return encoded("Node", body)


def _shown(pod: PodInfo, fields: tuple[str, ...]) -> dict[str, Any]:
    """The declared fields of a pod, as API JSON."""
    body: dict[str, Any] = {}
    for field in fields:
        if field.startswith(LABEL_PREFIX):
            label = field.removeprefix(LABEL_PREFIX)
            if label in pod.pod.metadata.labels:
                labels = body.setdefault("metadata", {}).setdefault("labels", {})
                labels[label] = pod.pod.metadata.labels[label]
            continue
        part, _, member = field.partition(".")
        whole = msgspec.to_builtins(getattr(pod.pod, part), enc_hook=plain)
        if member in whole:
            body.setdefault(part, {})[member] = whole[member]
    return body
