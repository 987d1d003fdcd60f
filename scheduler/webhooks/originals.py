"""Objects as the API server sent them, for webhooks and extenders, which may read any field.

A scheduler keeps only the fields that it reads; an extender may want annotations. So the bytes of
waiting pods are kept, and those of nodes if a webhook is sent whole nodes: that costs as
much memory as the objects have bytes, and nothing at all without webhooks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from scheduler.bounded import Usage
from scheduler.model.meta import NOT_SENT
from scheduler.model.nodes import Node
from scheduler.model.packed import plain
from scheduler.model.pods import Pod
from scheduler.state.cache import ClusterState

Sent = bytes | msgspec.Raw
Keep = Callable[[str, Any, Sent | None], None]
"""Takes an object's key, the object and its bytes; None for both when it is gone."""

_BALLAST = ("managedFields",)


class Originals:
    """The bytes of pods that wait and, if wanted, of nodes, by key."""

    def __init__(self, profiles: Collection[str], *, nodes: bool) -> None:
        self._profiles = profiles
        self._pods = _Bodies("Pod")
        self._nodes = _Bodies("Node")
        self._keepers: dict[str, Keep] = {"Pod": self._keep_pod}
        if nodes:
            self._keepers["Node"] = self._keep_node

    def usage(self) -> dict[str, Usage]:
        """How much is kept: it goes with the pods that wait, and with nodes."""
        kept = (("original_pods", self._pods), ("original_nodes", self._nodes))
        return {name: Usage(len(originals.bodies), originals.bytes) for name, originals in kept}

    def keeper(self, kind: str) -> Keep | None:
        """What keeps the objects of a kind; None if they are not kept."""
        return self._keepers.get(kind)

    def pod(self, pod: Pod) -> msgspec.Raw:
        """A pod as it was sent, or what we know of it."""
        return self._pods.bodies.get(pod.key) or encoded("Pod", pod)

    def node(self, state: ClusterState, name: str) -> msgspec.Raw:
        """A node as it was sent, or what we know of it."""
        return self._nodes.bodies.get(name) or encoded("Node", state.node(name))

    def _keep_pod(self, key: str, pod: Any, raw: Sent | None) -> None:
        waits = (
            isinstance(pod, Pod)
            and not pod.spec.node_name
            and not pod.finished
            and pod.spec.scheduler_name in self._profiles
        )
        self._pods.put(key, raw if waits else None)

    def _keep_node(self, key: str, node: Any, raw: Sent | None) -> None:
        self._nodes.put(key, raw if isinstance(node, Node) else None)


class _Bodies:
    """The bytes of objects of one kind, by key."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.bodies: dict[str, msgspec.Raw] = {}
        self.bytes = 0

    def put(self, key: str, raw: Sent | None) -> None:
        """Keep an object without managed fields; None drops it."""
        known = self.bodies.pop(key, None)
        if known is not None:
            self.bytes -= len(memoryview(known))
        if raw is None:
            return
        body = msgspec.json.decode(raw)
        for field in _BALLAST:
            body.get("metadata", {}).pop(field, None)
        # Items of a list do not say what they are.
        kept = msgspec.json.encode({"apiVersion": "v1", "kind": self._kind, **body})
        self.bodies[key] = msgspec.Raw(kept)
        self.bytes += len(kept)


def encoded(kind: str, value: Any) -> msgspec.Raw:
    """What we know of an object, as JSON of its kind."""
    body = msgspec.to_builtins(value, enc_hook=plain) if value is not None else {}
    body.get("metadata", {}).pop(NOT_SENT, None)
    return msgspec.Raw(msgspec.json.encode({"apiVersion": "v1", "kind": kind, **body}))
